//! What servers have: status, tools, resources, prompts.

use super::servers::transport;
use super::{Stop, unless, with};
use crate::app::{App, Open, has};
use crate::failure::Failure;
use crate::output::{self, Table};
use serde_json::{Value, json};
use sparring_client::{Connection, Entry, ListKind};
use sparring_host::ServerEntry;
use sparring_host::config::listing;
use sparring_host::filter::ToolFilters;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What became of one server.
struct Seen {
    entry: ServerEntry,
    took: Duration,
    outcome: Result<(Connection, Vec<Entry>), Failure>,
}

async fn look(app: &App, open: &Open, entry: ServerEntry) -> Seen {
    let begin = Instant::now();
    let looked = async {
        let connection = open.connect(&entry.name).await?;
        let tools = match has(&connection, "tools") {
            true => connection.known(ListKind::Tools).await.map_err(|error| of(app, &entry.name, error))?,
            false => Arc::default(),
        };
        let filters = ToolFilters::new(&app.settings.discovery, &entry, None);
        Ok((connection, tools.iter().filter(|tool| filters.passes_raw(tool)).cloned().collect()))
    };
    let outcome = looked.await;
    Seen { took: begin.elapsed(), outcome, entry }
}

/// A failure of a server, clean of secrets.
pub(super) fn of(app: &App, server: &str, error: sparring_client::Error) -> Failure {
    let mut failure = Failure::from(sparring_host::HostError::of(server, error));
    failure.message = app.clean(&failure.message);
    failure
}

pub(super) async fn status(app: &App, name: Option<&str>, stop: &Stop) -> Result<(), Failure> {
    let loaded = app.load()?;
    let chosen = app.chosen(&loaded, name)?;
    let chosen: Vec<ServerEntry> = listing(&app.settings.config, &chosen).into_iter().cloned().collect();
    let seen = with(app, chosen.clone(), stop, async |open| {
        let all = futures_util::future::join_all(chosen.into_iter().map(|entry| look(app, open, entry)));
        unless(stop, async { Ok(all.await) }).await
    })
    .await?;
    let faults = loaded.faults.iter().filter(|_| name.is_none());
    if app.global.json {
        let mut all: Vec<Value> = seen.iter().map(as_json).collect();
        all.extend(
            faults
                .clone()
                .map(|fault| json!({"name": fault.server, "ok": false, "error": app.clean(&fault.message)})),
        );
        output::json(&all.into());
    } else {
        if seen.is_empty() && loaded.faults.is_empty() {
            output::note("no server is configured, or all are switched off");
        }
        seen.iter().for_each(print);
        for fault in faults.clone() {
            output::line(&format!(
                "{}: wrong: {}",
                output::one_line(&fault.server),
                app.clean(&fault.message)
            ));
        }
    }
    let failed = seen.into_iter().find_map(|seen| seen.outcome.err());
    match (failed, faults.count()) {
        (Some(failure), _) => Err(Failure { silent: true, ..failure }),
        (None, 0) => Ok(()),
        (None, _) => Err(Failure::told(crate::failure::Code::Usage)),
    }
}

fn as_json(seen: &Seen) -> Value {
    let mut shown = json!({
        "name": seen.entry.name,
        "transport": transport(&seen.entry),
        "ok": seen.outcome.is_ok(),
        "durationMs": u64::try_from(seen.took.as_millis()).unwrap_or(u64::MAX),
    });
    match &seen.outcome {
        Ok((connection, tools)) => {
            if let Some(negotiated) = connection.negotiated() {
                shown["revision"] = negotiated.revision.as_str().into();
                shown["server"] = negotiated.server_info.clone();
                shown["capabilities"] = Value::Object(negotiated.capabilities.clone());
                if let Some(instructions) = &negotiated.instructions {
                    shown["instructions"] = instructions.as_str().into();
                }
            }
            shown["tools"] = tools.iter().map(|tool| tool.json.clone()).collect();
        }
        Err(failure) => {
            shown["error"] = failure.message.as_str().into();
            if let Some(hint) = &failure.hint {
                shown["hint"] = hint.as_str().into();
            }
        }
    }
    shown
}

fn print(seen: &Seen) {
    let name = output::one_line(&seen.entry.name);
    let kind = transport(&seen.entry);
    match &seen.outcome {
        Ok((connection, tools)) => {
            let negotiated = connection.negotiated();
            let word = |member: &str| {
                let value = negotiated
                    .as_ref()
                    .and_then(|n| n.server_info.get(member)?.as_str().map(output::one_line));
                value.unwrap_or_else(|| "?".into())
            };
            let revision = negotiated.as_ref().map_or("?", |n| n.revision.as_str());
            output::line(&format!(
                "{name}: up ({kind}, {} ms), {} {}, revision {revision}, {} tools",
                seen.took.as_millis(),
                word("name"),
                word("version"),
                tools.len()
            ));
            let mut table = Table::new(&[]).indented();
            for tool in tools {
                table.row([tool.key.clone(), about(tool)]);
            }
            table.print();
        }
        Err(failure) => {
            let own = format!("{}: ", seen.entry.name);
            let why = failure.message.strip_prefix(&own).unwrap_or(&failure.message);
            output::line(&format!("{name}: failed ({kind}, {} ms): {why}", seen.took.as_millis()));
            if let Some(hint) = &failure.hint {
                output::line(&format!("  {hint}"));
            }
        }
    }
}

fn about(entry: &Entry) -> String {
    let word = |member: &str| entry.json.get(member).and_then(Value::as_str);
    word("description").or_else(|| word("title")).unwrap_or_default().to_owned()
}

pub(super) async fn tools(app: &App, server: Option<&str>, schema: bool, stop: &Stop) -> Result<(), Failure> {
    let chosen = app.chosen(&app.load()?, server)?;
    let (tools, failures) = with(app, chosen.clone(), stop, async |open| {
        unless(stop, async {
            let failures = failures(open.connect_all(&chosen).await);
            Ok((open.session.tools().await?, failures))
        })
        .await
    })
    .await?;
    if app.global.json {
        output::json(&json!(tools));
    } else {
        let mut table = Table::new(&["TOOL", "SERVER", "WHAT IT DOES"]);
        for tool in &tools {
            if schema {
                output::line(&format!(
                    "{}: {}",
                    output::one_line(&tool.name),
                    output::text(tool.description.as_deref().unwrap_or_default())
                ));
                output::json(&tool.input_schema);
                continue;
            }
            let about = tool.description.clone().or_else(|| tool.title.clone()).unwrap_or_default();
            table.row([tool.name.clone(), tool.server.clone().unwrap_or_else(|| "-".into()), about]);
        }
        if !schema {
            table.print();
        }
    }
    told(failures)
}

/// The failures among these.
pub(super) fn failures(connected: Vec<(String, Result<Connection, Failure>)>) -> Vec<(String, Failure)> {
    connected.into_iter().filter_map(|(server, connected)| Some((server, connected.err()?))).collect()
}

/// Tells the failures of single servers, which the output leaves out.
pub(super) fn told(failures: Vec<(String, Failure)>) -> Result<(), Failure> {
    for (_, failure) in &failures {
        output::note(&format!("sparring-client: {}", failure.message));
        if let Some(hint) = &failure.hint {
            output::note(&format!("hint: {hint}"));
        }
    }
    match failures.into_iter().next() {
        Some((_, failure)) => Err(Failure { silent: true, ..failure }),
        None => Ok(()),
    }
}

/// A list of all the servers that have such: server and entries.
pub(super) type Lists = Vec<(String, Vec<Entry>)>;

/// Reads lists of these kinds from all servers with the capability.
pub(super) async fn lists(
    app: &App,
    open: &Open,
    entries: &[ServerEntry],
    capability: &str,
    kinds: &[ListKind],
) -> (Lists, Vec<(String, Failure)>) {
    let mut lists = Vec::new();
    let mut failures = Vec::new();
    for (server, connected) in open.connect_all(entries).await {
        let connection = match connected {
            Ok(connection) if has(&connection, capability) => connection,
            Ok(_) => continue,
            Err(failure) => {
                failures.push((server, failure));
                continue;
            }
        };
        let mut all = Vec::new();
        for (n, kind) in kinds.iter().enumerate() {
            match connection.known(*kind).await {
                Ok(list) => all.extend(list.iter().cloned()),
                Err(error) if n == 0 => failures.push((server.clone(), of(app, &server, error))),
                // Many servers that have resources know no templates.
                Err(_) => {}
            }
        }
        lists.push((server, all));
    }
    (lists, failures)
}

fn print_lists(app: &App, lists: &Lists, head: &[&str], row: impl Fn(&Entry) -> Vec<String>) {
    if app.global.json {
        let all = lists.iter().flat_map(|(server, entries)| {
            entries.iter().map(move |entry| {
                let mut json = entry.json.clone();
                if let Value::Object(members) = &mut json {
                    members.insert("server".into(), server.as_str().into());
                }
                json
            })
        });
        output::json(&all.collect());
        return;
    }
    let mut table = Table::new(head);
    for (server, entries) in lists {
        for entry in entries {
            table.row(std::iter::once(server.clone()).chain(row(entry)));
        }
    }
    table.print();
}

pub(super) async fn resources(app: &App, server: Option<&str>, stop: &Stop) -> Result<(), Failure> {
    let chosen = app.chosen(&app.load()?, server)?;
    let kinds = [ListKind::Resources, ListKind::Templates];
    let (lists, failures) = with(app, chosen.clone(), stop, async |open| {
        unless(stop, async { Ok(lists(app, open, &chosen, "resources", &kinds).await) }).await
    })
    .await?;
    print_lists(app, &lists, &["SERVER", "URI", "TYPE", "NAME", "WHAT IT IS"], |entry| {
        let word =
            |member: &str| entry.json.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
        vec![entry.key.clone(), word("mimeType"), word("name"), word("description")]
    });
    told(failures)
}

pub(super) async fn prompts(app: &App, server: Option<&str>, stop: &Stop) -> Result<(), Failure> {
    let chosen = app.chosen(&app.load()?, server)?;
    let (lists, failures) = with(app, chosen.clone(), stop, async |open| {
        unless(stop, async { Ok(lists(app, open, &chosen, "prompts", &[ListKind::Prompts]).await) }).await
    })
    .await?;
    print_lists(app, &lists, &["SERVER", "PROMPT", "ARGUMENTS", "WHAT IT IS"], |entry| {
        let arguments = entry.json.get("arguments").and_then(Value::as_array);
        let shown = arguments.into_iter().flatten().filter_map(|argument| {
            let required = argument.get("required").and_then(Value::as_bool) == Some(true);
            Some(format!("{}{}", argument.get("name")?.as_str()?, if required { "*" } else { "" }))
        });
        vec![entry.key.clone(), shown.collect::<Vec<_>>().join(" "), about(entry)]
    });
    told(failures)
}
