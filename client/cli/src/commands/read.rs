//! Reads of resources, and prompts.

use super::call::described;
use super::look::{lists, of, told};
use super::{Stop, unless, with};
use crate::app::{App, Open, has, nearest};
use crate::args::pair;
use crate::failure::{Code, Failure};
use crate::output;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sparring_client::{Connection, Entry, ListKind};
use sparring_host::ServerEntry;
use sparring_wire::jsonrpc::codes;

pub(super) async fn read(app: &App, uri: &str, server: Option<&str>, stop: &Stop) -> Result<(), Failure> {
    let chosen = app.chosen(&app.load()?, server)?;
    let result = with(app, chosen.clone(), stop, async |open| {
        unless(stop, async {
            let connection = owner(app, open, &chosen, uri).await?;
            connection.read(uri).await.map_err(|error| {
                let missing = error.code() == Some(codes::RESOURCE_NOT_FOUND);
                let failure = of(app, connection.server(), error);
                if missing { Failure { code: Code::NotFound, ..failure } } else { failure }
            })
        })
        .await
    })
    .await?;
    if app.global.json {
        output::json(&result);
        return Ok(());
    }
    let contents = result.get("contents").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for content in contents {
        let text = content.get("text").and_then(Value::as_str);
        let blob = content.get("blob").and_then(Value::as_str);
        match (text, blob.and_then(|blob| STANDARD.decode(blob).ok())) {
            (Some(text), _) => output::out(&output::text(text)),
            (None, Some(bytes)) if !output::is_terminal() => output::bytes(&bytes),
            (None, Some(bytes)) => {
                let mime = content.get("mimeType").and_then(Value::as_str).unwrap_or("of unknown type");
                output::line(&format!("[binary {}, {} bytes]", output::one_line(mime), bytes.len()));
            }
            (None, None) => output::note("a content is neither text nor valid base64"),
        }
    }
    if output::is_terminal() {
        output::line("");
    }
    Ok(())
}

/// The server that has the resource: the one that lists it, or has a template that it could be of, or is the only one.
async fn owner(app: &App, open: &Open, entries: &[ServerEntry], uri: &str) -> Result<Connection, Failure> {
    if let [only] = entries {
        return open.connect(&only.name).await;
    }
    let kinds = [ListKind::Resources, ListKind::Templates];
    let (lists, failures) = lists(app, open, entries, "resources", &kinds).await;
    let listed = |entries: &[Entry]| entries.iter().any(|entry| entry.key == uri);
    let fits = |entries: &[Entry]| entries.iter().any(|entry| could_be_of(&entry.key, uri));
    let of_all = |having: &dyn Fn(&[Entry]) -> bool| -> Vec<&String> {
        lists.iter().filter(|(_, entries)| having(entries)).map(|(server, _)| server).collect()
    };
    let found = match of_all(&listed) {
        listing if !listing.is_empty() => listing,
        _ => match of_all(&fits) {
            fitting if !fitting.is_empty() => fitting,
            _ => lists.iter().map(|(server, _)| server).collect(),
        },
    };
    match found[..] {
        [server] => open.connect(server).await,
        [] => {
            told(failures)?;
            Err(Failure::new(Code::NotFound, "no server has resources"))
        }
        ref several => {
            let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
            let failure =
                Failure::new(Code::NotFound, format!("{uri} could be a resource of {}", names.join(", ")));
            Err(failure.hint("`--server` says which"))
        }
    }
}

/// Whether a URI begins as a template does, up to its first variable.
fn could_be_of(template: &str, uri: &str) -> bool {
    template.split_once('{').is_some_and(|(start, _)| !start.is_empty() && uri.starts_with(start))
}

pub(super) async fn prompt(
    app: &App,
    name: &str,
    words: &[String],
    server: Option<&str>,
    stop: &Stop,
) -> Result<(), Failure> {
    let mut arguments = Map::new();
    for word in words {
        let (name, value) =
            pair(word).map_err(|why| Failure::new(Code::Usage, format!("{word:?}: {why}")))?;
        arguments.insert(name, value.into());
    }
    let chosen = app.chosen(&app.load()?, server)?;
    let result = with(app, chosen.clone(), stop, async |open| {
        unless(stop, async {
            let connection = with_prompt(app, open, &chosen, name).await?;
            connection.prompt(name, arguments).await.map_err(|error| of(app, connection.server(), error))
        })
        .await
    })
    .await?;
    if app.global.json {
        output::json(&result);
        return Ok(());
    }
    for message in result.get("messages").and_then(Value::as_array).into_iter().flatten() {
        let role = message.get("role").and_then(Value::as_str).unwrap_or("unknown");
        let text = message.get("content").map(described).unwrap_or_default();
        output::line(&format!("[{}] {}", output::one_line(role), output::text(&text)));
    }
    Ok(())
}

/// The server that has the prompt.
async fn with_prompt(
    app: &App,
    open: &Open,
    entries: &[ServerEntry],
    name: &str,
) -> Result<Connection, Failure> {
    let (lists, failures) = lists(app, open, entries, "prompts", &[ListKind::Prompts]).await;
    let having: Vec<&str> = lists
        .iter()
        .filter(|(_, prompts)| prompts.iter().any(|prompt| prompt.key == name))
        .map(|(server, _)| server.as_str())
        .collect();
    match having[..] {
        [server] => {
            let connection = open.connect(server).await?;
            debug_assert!(has(&connection, "prompts"));
            Ok(connection)
        }
        [] => {
            if !failures.is_empty() && !app.global.json {
                output::note(&format!("no server that answers has the prompt {name:?}; the others:"));
            }
            told(failures)?;
            let all = lists.iter().flat_map(|(_, prompts)| prompts).map(|prompt| prompt.key.as_str());
            let failure = Failure::new(Code::NotFound, format!("there is no prompt {name:?}"));
            Err(match nearest(name, all) {
                Some(near) => failure.hint(format!("did you mean {near:?}?")),
                None => failure.hint("`sparring-client prompts` shows them"),
            })
        }
        ref several => {
            let failure =
                Failure::new(Code::NotFound, format!("{name:?} is a prompt of {}", several.join(", ")));
            Err(failure.hint("`--server` says which"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::could_be_of;

    #[test]
    fn templates_are_recognised_by_their_start() {
        assert!(could_be_of("file:///{path}", "file:///a"));
        assert!(!could_be_of("file:///{path}", "http://a"));
        assert!(!could_be_of("file:///a", "file:///a/b"));
        assert!(!could_be_of("{+any}", "x:1"));
    }
}
