//! Calls of tools.

use super::look::of;
use super::{Stop, unless, with};
use crate::app::{App, nearest};
use crate::arguments;
use crate::failure::{Code, Failure};
use crate::output;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sparring_client::core::Progress;
use sparring_client::{CallOptions, CallResult, CancelSwitch, Connection, Entry, ListKind};
use sparring_host::HostError;
use sparring_host::filter::ToolFilters;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct What {
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) arguments: Vec<String>,
    pub(super) save: Option<PathBuf>,
}

pub(super) async fn call(app: &App, what: What, stop: &Stop) -> Result<(), Failure> {
    let entry = app.chosen(&app.load()?, Some(&what.server))?;
    let filters = ToolFilters::new(&app.settings.discovery, &entry[0], None);
    let result = with(app, entry, stop, async |open| {
        let (connection, tool) = unless(stop, async {
            let connection = open.connect(&what.server).await?;
            let tools = connection.known(ListKind::Tools).await;
            let tools = tools.map_err(|error| of(app, &what.server, error))?;
            let tool = find(&what, tools.iter().filter(|tool| filters.passes_raw(tool)))?.clone();
            Ok((connection, tool))
        })
        .await?;
        made(app, &what, &connection, &tool, stop).await
    })
    .await?;
    if app.global.json {
        output::json(result.json());
    } else {
        show(&result);
    }
    if let Some(folder) = &what.save {
        save(&result, folder)?;
    }
    if result.is_error() { Err(Failure::told(Code::Failed)) } else { Ok(()) }
}

fn find<'a>(what: &What, tools: impl Iterator<Item = &'a Entry> + Clone) -> Result<&'a Entry, Failure> {
    if let Some(tool) = tools.clone().find(|tool| tool.key == what.tool) {
        return Ok(tool);
    }
    let failure = Failure::new(Code::NotFound, format!("{} has no tool {:?}", what.server, what.tool));
    Err(match nearest(&what.tool, tools.map(|tool| tool.key.as_str())) {
        Some(near) => failure.hint(format!("did you mean {near:?}?")),
        None => failure.hint(format!("`sparring-client status {}` shows its tools", what.server)),
    })
}

/// Makes the call, and cancels it if the command is to end.
async fn made(
    app: &App,
    what: &What,
    connection: &Connection,
    tool: &Entry,
    stop: &Stop,
) -> Result<CallResult, Failure> {
    let arguments =
        arguments::of_tool(&what.arguments, tool.json.get("inputSchema").unwrap_or(&Value::Null))?;
    let switch = CancelSwitch::default();
    let server = what.server.clone();
    let progress = move |progress: Progress| {
        let total = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
        let message =
            progress.message.map(|message| format!(": {}", output::one_line(&message))).unwrap_or_default();
        output::note(&format!("{server}: {}{total}{message}", progress.progress));
    };
    let options = CallOptions {
        cancel: Some(switch.clone()),
        progress: app.global.verbose.then(|| Arc::new(progress) as _),
        ..CallOptions::default()
    };
    let call = connection.call_with(&tool.key, arguments, options);
    tokio::pin!(call);
    let result = tokio::select! {
        result = &mut call => result,
        failure = stop.told() => {
            switch.throw("the user has interrupted it");
            // The server is told of it; the result, if there is one in the very moment, is of no use any more.
            drop(call.await);
            return Err(failure);
        }
    };
    result.map_err(|error| of(app, &what.server, error))
}

/// The result for a person: text as it is, and a line for everything else.
fn show(result: &CallResult) {
    let mut shown = false;
    for block in result.content() {
        output::line(&output::text(&described(block)));
        shown = true;
    }
    if let Some(structured) = result.structured().filter(|_| !shown) {
        output::json(structured);
    } else if !shown {
        output::note("the result is empty");
    }
}

fn word<'a>(block: &'a Value, member: &str) -> Option<&'a str> {
    block.get(member).and_then(Value::as_str)
}

/// A block of content as text.
pub(super) fn described(block: &Value) -> String {
    let binary = |what: &str, owner: &Value, data: &str| {
        let size = sparring_host::results::decoded_len(data);
        let size = size.map_or_else(|| "no valid base64".to_owned(), |size| format!("{size} bytes"));
        format!("[{what} {}, {size}]", word(owner, "mimeType").unwrap_or("of unknown type"))
    };
    match word(block, "type") {
        Some("text") => word(block, "text").unwrap_or_default().to_owned(),
        Some(kind @ ("image" | "audio")) => binary(kind, block, word(block, "data").unwrap_or_default()),
        Some("resource_link") => {
            format!(
                "[link {} {}]",
                word(block, "uri").unwrap_or_default(),
                word(block, "name").unwrap_or_default()
            )
        }
        Some("resource") => {
            let resource = block.get("resource").unwrap_or(&Value::Null);
            match (word(resource, "text"), word(resource, "blob")) {
                (Some(text), _) => text.to_owned(),
                (None, Some(blob)) => binary(word(resource, "uri").unwrap_or("resource"), resource, blob),
                (None, None) => format!("[resource {}]", word(resource, "uri").unwrap_or_default()),
            }
        }
        _ => block.to_string(),
    }
}

/// Saves what is binary, as `1.png`, `2.wav` and so on.
fn save(result: &CallResult, folder: &Path) -> Result<(), Failure> {
    let wrong = |error: std::io::Error| Failure::new(Code::Failed, format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong)?;
    let binary = result.content().iter().filter_map(|block| {
        let owner = block.get("resource").unwrap_or(block);
        Some((owner, word(owner, "data").or_else(|| word(owner, "blob"))?))
    });
    for (n, (owner, data)) in binary.enumerate() {
        let bytes = STANDARD.decode(data).map_err(|_| {
            Failure::from(HostError::Refused(format!("number {} of the result is no valid base64", n + 1)))
        })?;
        let file = folder.join(format!("{}.{}", n + 1, ending(word(owner, "mimeType"))));
        std::fs::write(&file, bytes).map_err(wrong)?;
        output::note(&format!("saved {}", file.display()));
    }
    Ok(())
}

/// The ending of a file of that media type: its subtype, as far as that is one.
fn ending(mime: Option<&str>) -> String {
    let subtype = mime
        .and_then(|mime| mime.split(';').next()?.split_once('/'))
        .map_or("", |(_, subtype)| subtype.trim());
    let subtype = subtype.split('+').next().unwrap_or_default().trim_start_matches("x-");
    match subtype {
        "jpeg" => "jpg".to_owned(),
        "plain" => "txt".to_owned(),
        "mpeg" => "mp3".to_owned(),
        "" => "bin".to_owned(),
        subtype if subtype.len() <= 12 && subtype.chars().all(|c| c.is_ascii_alphanumeric()) => {
            subtype.to_ascii_lowercase()
        }
        _ => "bin".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_are_described() {
        for (block, shown) in [
            (json!({"type": "text", "text": "a\nb"}), "a\nb"),
            (
                json!({"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}),
                "[image image/png, 5 bytes]",
            ),
            (json!({"type": "audio", "data": "%"}), "[audio of unknown type, no valid base64]"),
            (json!({"type": "resource_link", "uri": "x:1", "name": "one"}), "[link x:1 one]"),
            (json!({"type": "resource", "resource": {"uri": "x:1", "text": "body"}}), "body"),
            (
                json!({"type": "resource", "resource": {"uri": "x:1", "blob": "aGVsbG8=", "mimeType": "a/b"}}),
                "[x:1 a/b, 5 bytes]",
            ),
            (json!({"type": "new"}), "{\"type\":\"new\"}"),
        ] {
            assert_eq!(described(&block), shown);
        }
    }

    #[test]
    fn endings_are_words() {
        for (mime, ending) in [
            (Some("image/png"), "png"),
            (Some("image/jpeg"), "jpg"),
            (Some("image/svg+xml"), "svg"),
            (Some("audio/x-wav; rate=1"), "wav"),
            (Some("application/../../etc"), "bin"),
            (Some("nonsense"), "bin"),
            (None, "bin"),
        ] {
            assert_eq!(super::ending(mime), ending, "{mime:?}");
        }
    }
}
