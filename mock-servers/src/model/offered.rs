//! The capabilities that follow from what a script offers.

use crate::script::{Action, ListKind, ServerScript};
use serde_json::{Map, Value, json};
use sparring_wire::{Revision, meta};

/// What the script offers, now or by a later action.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offered {
    pub(super) tools: bool,
    pub(super) resources: bool,
    pub(super) prompts: bool,
    pub(super) tasks: bool,
}

impl Offered {
    pub(super) fn by(script: &ServerScript) -> Self {
        let actions = script.all_actions();
        let acts = |wanted: &dyn Fn(&Action) -> bool| actions.iter().any(|action| wanted(action));
        Self {
            tools: !script.tools.is_empty()
                || script.many_tools.is_some()
                || acts(&|a| {
                    matches!(
                        a,
                        Action::AddTool(_)
                            | Action::RemoveTool(_)
                            | Action::ChangeTool(_)
                            | Action::Announce(ListKind::Tools)
                    )
                }),
            resources: !script.resources.is_empty()
                || !script.templates.is_empty()
                || acts(&|a| {
                    matches!(
                        a,
                        Action::AddResource(_)
                            | Action::AddTemplate(_)
                            | Action::ResourceUpdated(_)
                            | Action::Announce(ListKind::Resources)
                    )
                }),
            prompts: !script.prompts.is_empty()
                || acts(&|a| {
                    matches!(
                        a,
                        Action::AddPrompt(_) | Action::RemovePrompt(_) | Action::Announce(ListKind::Prompts)
                    )
                }),
            tasks: acts(&|a| matches!(a, Action::RunAsTask(_))),
        }
    }

    pub(super) fn capabilities(self, revision: Revision, tasks: bool) -> Value {
        let mut out = Map::new();
        out.insert("logging".into(), json!({}));
        if self.tools {
            out.insert("tools".into(), json!({"listChanged": true}));
        }
        if self.resources {
            out.insert("resources".into(), json!({"subscribe": true, "listChanged": true}));
        }
        if self.prompts {
            out.insert("prompts".into(), json!({"listChanged": true}));
        }
        if (self.prompts || self.resources) && revision >= Revision::V2025_03_26 {
            out.insert("completions".into(), json!({}));
        }
        if tasks && revision == Revision::V2025_11_25 {
            out.insert(
                "tasks".into(),
                json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}),
            );
        }
        if tasks && revision.is_stateless() {
            out.insert("extensions".into(), json!({meta::TASKS_EXTENSION: {}}));
        }
        Value::Object(out)
    }
}
