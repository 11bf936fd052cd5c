//! What placeholders stand for at run time. See [`crate::script::template`].

use super::{ServerCore, Task};
use crate::library;
use crate::script::template::{Name, Piece, pieces};
use crate::script::{Action, Slot};
use serde_json::Value;

impl ServerCore {
    /// Puts in what the placeholders of an action stand for.
    pub(super) fn render(&self, task: &Task, action: &mut Action) {
        action.slots(&mut |slot| match slot {
            Slot::Json(value) => self.render_json(task, value),
            Slot::Text(text) => {
                if text.contains("{{") {
                    *text = self.render_text(task, text);
                }
            }
        });
    }

    fn render_json(&self, task: &Task, value: &mut Value) {
        match value {
            Value::String(text) if text.contains("{{") => {
                *value = match pieces(text).as_deref() {
                    Ok([Piece::Put { name, json: false }]) => self.lookup(task, *name),
                    _ => Value::String(self.render_text(task, text)),
                };
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.render_json(task, item)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.render_json(task, member));
                if members.keys().any(|key| key.contains("{{")) {
                    let all = std::mem::take(members);
                    members
                        .extend(all.into_iter().map(|(key, member)| (self.render_text(task, &key), member)));
                }
            }
            _ => {}
        }
    }

    fn render_text(&self, task: &Task, text: &str) -> String {
        // The loader has refused what is wrong.
        let Ok(pieces) = pieces(text) else { return text.to_owned() };
        let mut out = String::with_capacity(text.len());
        for piece in pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Put { name, json } => match self.lookup(task, name) {
                    value if json => out.push_str(&value.to_string()),
                    Value::String(text) => out.push_str(&text),
                    Value::Null => {}
                    value => out.push_str(&value.to_string()),
                },
            }
        }
        out
    }

    fn lookup(&self, task: &Task, name: Name<'_>) -> Value {
        let request = task.request.as_ref();
        let part = |value: Option<&Value>, pointer: &str| value.and_then(|v| v.pointer(pointer)).cloned();
        let params = || request.map_or(task.params.as_ref(), |r| r.params.as_ref());
        let answer = || request.map(|r| self.peek(r, &task.scope));
        let found = match name {
            Name::Id => request.map(|r| r.id.to_value()),
            Name::Method => request.map(|r| r.method.as_str().into()),
            Name::Params(pointer) => part(params(), pointer),
            Name::Token => part(params(), "/_meta/progressToken"),
            Name::Result(pointer) => answer().and_then(|a| part(a.get("result"), pointer)),
            Name::Answer => answer(),
            Name::Initialize(pointer) => part(self.told.initialize.as_ref(), pointer),
            Name::Header(name) => task.seen.as_ref().and_then(|seen| seen.header(name)).map(Value::from),
            Name::Session => task.scope.session.as_deref().map(Value::from),
            Name::Origin => Some(self.http.origins().own.as_str().into()),
            Name::Other => Some(self.http.origins().other.as_str().into()),
            Name::State(machine) => Some(self.state(machine, &task.scope).into()),
            Name::Count(name) => Some(self.memory.count(name).into()),
            Name::Nth => Some(task.nth.into()),
            Name::Round => Some(task.round.into()),
            Name::OwnId => Some(self.told.own_id.clone()),
            Name::Process => self.incarnation.map(Value::from),
            Name::Revision => Some(self.revision_of(request, &task.scope).as_str().into()),
            Name::Seed => Some(self.seed.into()),
            Name::Date(seconds) => Some(self.http_date(seconds).into()),
            Name::Fill(length) => Some(library::letters(length).into()),
            Name::Base64(length) => Some(library::base64(&library::bytes(length as u64)).into()),
            Name::Open => Some("{{".into()),
        };
        found.unwrap_or_default()
    }
}
