//! When two configurations are the same server.

use crate::context::Context;
use crate::entry::{Kind, ServerEntry};
use crate::server::target::{Place, folder_of};
use serde_json::{Map, Value};
use sparring_profiles::Neutral;
use std::path::PathBuf;

/// Equal for servers of which one will do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The entry without what does not count, in a canonical form.
    entry: String,
    /// Where it runs.
    cwd: Option<PathBuf>,
    project: Option<PathBuf>,
}

impl Key {
    pub(crate) fn new(context: &Context, entry: &ServerEntry, place: &Place, kind: Kind) -> Self {
        let settings = context.settings();
        let mut fields = match serde_json::to_value(entry) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        for field in &settings.pool.ignores {
            if let Ok(Value::String(word)) = serde_json::to_value(field)
                && *field != Neutral::Argv
            {
                fields.remove(&word);
            }
        }
        // Rules are about who may call, and not about what is called.
        fields.remove("policy");
        fields.sort_keys();
        let counts = !settings.pool.ignores.contains(&Neutral::Cwd);
        Self {
            entry: Value::Object(fields).to_string(),
            cwd: (kind == Kind::Stdio && counts).then(|| folder_of(context, entry, place)),
            project: place.project.clone().filter(|_| settings.pool.per_context),
        }
    }
}
