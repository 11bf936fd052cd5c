//! From a transcript to a script that plays the server again.
//!
//! What the server offers becomes the script's model, as far as lists and calls show it. Where the model's own answer
//! would not be the one that was recorded, a rule gives that; and rules say what the server sent by itself, at the
//! place where it came: after the message of the client's that was the last before it.
//!
//! A recorded answer is tied to method and params, so that a client that asks in another order gets it too; of several
//! answers to equal requests, each is given in its turn, and the last one from then on.

mod model;
mod rules;
mod walk;

use super::yaml;
use crate::judge::view::View;
use sparring_mock_servers::script::ServerScript;
use sparring_wire::Revision;
use sparring_wire::transcript::Event;
use std::borrow::Cow;

/// How the description of every script begins that is made here, but for the version.
pub const RECORDED_BY: &str = "Recorded by sparring ";

/// A script that was made of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The script.
    pub script: ServerScript,
    /// The revision that was negotiated.
    pub revision: Option<Revision>,
    /// What of the transcript the script does not play, in words.
    pub left_out: Vec<String>,
}

/// Why there is no script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoScript {
    /// No message of a server is in the transcript.
    #[error("there is no conversation with a server in it")]
    Nothing,
    /// Several servers are.
    #[error("there are several servers in it, and a script plays one: choose by --name among {0}")]
    Several(String),
    /// The one that was chosen is not.
    #[error("there is no server `{0}` in it; there is {1}")]
    Unknown(String, String),
}

impl Made {
    /// The script as YAML.
    ///
    /// # Errors
    /// None that could occur.
    pub fn yaml(&self) -> Result<String, serde_json::Error> {
        yaml::text(&self.script)
    }
}

/// Makes a script of what one server said; it need not be named if it is the only one.
///
/// # Errors
/// There is none, or it is not clear which.
pub fn of(events: &[Event], server: Option<&str>) -> Result<Made, NoScript> {
    let whole = View::of(events);
    let mut names: Vec<Option<&str>> = whole.conversations().iter().map(|c| c.server.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    let listed =
        || names.iter().map(|n| format!("`{}`", n.unwrap_or_default())).collect::<Vec<_>>().join(", ");
    let chosen = match (server, names.as_slice()) {
        (_, []) => return Err(NoScript::Nothing),
        (None, [only]) => *only,
        (None, _) => return Err(NoScript::Several(listed())),
        (Some(name), _) if names.contains(&Some(name)) => Some(name),
        (Some(name), _) => return Err(NoScript::Unknown(name.to_owned(), listed())),
    };
    let own: Vec<Event> = events.iter().filter(|e| e.server.as_deref() == chosen).cloned().collect();
    let view = View::of(&own);
    let revision = view.conversations().iter().find_map(crate::judge::view::Conversation::revision);
    let mut left_out = Vec::new();
    let walked = walk::walk(&view, &mut left_out);
    let mut script = model::of(&view, &walked);
    walk::http(&view, &mut script);
    script.rules = rules::of(&walked, &script, revision.unwrap_or(Revision::LATEST_HANDSHAKE));
    left_out.sort_unstable();
    left_out.dedup();
    let mut description = format!("Recorded by {}.", super::NAME);
    if !left_out.is_empty() {
        description += &format!(" Not played: {}.", left_out.join("; "));
    }
    script.description = Some(description);
    Ok(Made { script, revision, left_out })
}

/// JSON without `_meta`, in which clients put what differs from one time to the next.
fn without_meta(params: Option<&serde_json::Value>) -> Cow<'_, serde_json::Value> {
    match params {
        Some(serde_json::Value::Object(members)) if members.contains_key("_meta") => {
            let mut members = members.clone();
            members.shift_remove("_meta");
            Cow::Owned(serde_json::Value::Object(members))
        }
        Some(value) => Cow::Borrowed(value),
        None => Cow::Owned(serde_json::json!({})),
    }
}

#[cfg(test)]
mod tests;
