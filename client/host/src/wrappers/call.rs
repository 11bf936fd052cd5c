//! What a call of a wrapper does.

use super::{NAME, ResourceList, URI, Wrappers};
use crate::error::HostError;
use crate::model::{ModelResult, Route};
use serde_json::{Map, Value};
use sparring_client::{Connection, Error, ListKind};
use sparring_wire::transcript::FailureKind;
use std::sync::Arc;

/// Calls a wrapper. `servers` has the connections that it concerns: for a list over all servers, to all that have
/// resources; otherwise to the one that [`super::concerned`] gives. The text is not limited yet.
///
/// What the server refuses is a failure that the model is told of, as a failure of a tool is.
///
/// # Errors
/// [`HostError::Server`] if the server can't be reached, and [`HostError::Refused`] for a missing argument or another
/// kind of tool.
pub async fn call(
    wrappers: &dyn Wrappers,
    route: &Route,
    arguments: &Map<String, Value>,
    servers: &[Connection],
) -> Result<ModelResult, HostError> {
    let first = || servers.first().ok_or_else(|| HostError::Refused("no server has any".to_owned()));
    let word = |name: &str| match arguments.get(name) {
        Some(Value::String(word)) => Ok(word.as_str()),
        _ => Err(HostError::Refused(format!("the argument `{name}` is needed, a string"))),
    };
    match route {
        Route::ListResources(_) => {
            let mut lists = Vec::new();
            for connection in servers {
                match resources(connection).await {
                    Ok(list) => lists.push(list),
                    // One that fails does not take the others' along.
                    Err(error) if servers.len() == 1 => return told(connection, error),
                    Err(_) => {}
                }
            }
            Ok(wrappers.resources(&lists))
        }
        Route::ReadResource(_) => {
            let (connection, uri) = (first()?, word(URI)?);
            match connection.read(uri).await {
                Ok(result) => Ok(wrappers.read(&result)),
                Err(error) => told(connection, error),
            }
        }
        Route::ListPrompts(_) => {
            let connection = first()?;
            match connection.known(ListKind::Prompts).await {
                Ok(prompts) => Ok(wrappers.prompts(&prompts)),
                Err(error) => told(connection, error),
            }
        }
        Route::GetPrompt(_) => {
            let (connection, name) = (first()?, word(NAME)?);
            let mut others = arguments.clone();
            others.remove(NAME);
            match connection.prompt(name, others).await {
                Ok(result) => Ok(wrappers.prompt(&result)),
                Err(error) => told(connection, error),
            }
        }
        other => Err(HostError::Refused(format!("{other:?} is no wrapper"))),
    }
}

async fn resources(connection: &Connection) -> Result<ResourceList, Error> {
    let entries = |list: Arc<Vec<sparring_client::Entry>>| list.as_ref().clone();
    Ok(ResourceList {
        server: connection.server().to_owned(),
        resources: entries(connection.known(ListKind::Resources).await?),
        // Many servers that have resources know no templates.
        templates: connection.known(ListKind::Templates).await.map(entries).unwrap_or_default(),
    })
}

fn told(connection: &Connection, error: Error) -> Result<ModelResult, HostError> {
    match error.kind() {
        FailureKind::Protocol | FailureKind::Refused | FailureKind::Invalid => {
            Ok(ModelResult::of_failure(error.to_string()))
        }
        _ => Err(HostError::of(connection.server(), error)),
    }
}
