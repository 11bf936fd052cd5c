//! What may be called, and who is asked.
//!
//! A policy is a table of rules, and nothing more: risk, approval and timeout of one host and the modes of another are
//! members of the same rules. The layers of [`PolicySettings::layers`] are asked strongest first, and the first that
//! has a rule wins.
//!
//! - [`RuleBook`]: the rules there are, by layer.
//! - [`PolicyRules`]: which rule holds for a tool, and what becomes of a call.
//! - [`Approvals`]: calls that wait for a person.
//! - [`Visible`]: the tools that a session has at all.

mod annotations;
mod approval;
mod book;
mod gate;
mod names;
mod patterns;
mod visible;

pub use annotations::Hints;
pub use approval::{Answer, Approvals, Approver, Question};
pub use book::{Change, Rule, RuleBook, RuleFile, Scope};
pub use gate::{Gate, GatedCall, NameGate};
pub use names::NameSet;
pub(crate) use names::longest_match;
pub use visible::{Visible, Withheld};

use crate::model::{ModelTool, Route};
use serde::Serialize;
use serde_json::{Map, Value};
use sparring_profiles::{Annotations, Layer, Mode, PolicySettings};

/// What a policy is asked with: the host's settings, and the rules as they stand.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'a> {
    /// The settings.
    pub settings: &'a PolicySettings,
    /// The rules.
    pub rules: &'a RuleBook,
}

/// The rule that holds for a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ruling {
    /// The layer it is from.
    pub layer: Layer,
    /// The rule, with what it leaves open taken from the default.
    #[serde(flatten)]
    pub rule: Rule,
}

impl Ruling {
    /// The budget of a call, in seconds, if the rule has one.
    pub fn timeout(&self) -> Option<f64> {
        self.rule
            .get("timeout")
            .and_then(Value::as_f64)
            .filter(|seconds| seconds.is_finite() && *seconds > 0.0)
    }

    /// Its mode, if it has one.
    pub fn mode(&self) -> Option<Mode> {
        self.rule.get("mode").and_then(|mode| serde_json::from_value(mode.clone()).ok())
    }
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// It is made.
    Allow,
    /// The user is asked first.
    Ask,
    /// It is refused: the tool is switched off.
    Off,
}

/// Decides on tools and calls. The default is [`Layered`].
pub trait PolicyRules: Send + Sync {
    /// Which rule holds for a tool.
    fn ruling(&self, standing: &Standing<'_>, tool: &ModelTool) -> Ruling;

    /// What becomes of a call, if this rule holds.
    fn decision(
        &self,
        standing: &Standing<'_>,
        tool: &ModelTool,
        ruling: &Ruling,
        arguments: &Map<String, Value>,
    ) -> Decision;

    /// Why the model does not have the tool; `None` if it has it.
    fn withheld(&self, standing: &Standing<'_>, tool: &ModelTool) -> Option<Withheld>;

    /// Why the session does not have the tool; `None` if it has it. `exempt`: it is there whatever is allowed.
    fn filtered(&self, visible: &Visible, tool: &ModelTool, exempt: bool) -> Option<Withheld> {
        visible.withheld(tool, exempt)
    }
}

/// The policy that settings describe.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layered;

/// A rule of no words: nothing is allowed without a question.
fn ask() -> Rule {
    Rule::from_iter([("mode".to_owned(), Value::from("ask"))])
}

impl Layered {
    fn rule_of(standing: &Standing<'_>, layer: Layer, tool: &ModelTool) -> Option<Rule> {
        let Standing { settings, rules } = standing;
        match layer {
            Layer::Tool => rules.tool(&tool.name),
            Layer::Server => tool.server.as_deref().and_then(|server| rules.server(server)),
            Layer::Project => rules.project(),
            Layer::App => rules.app(),
            Layer::Default => Some(&settings.default).filter(|rule| !rule.is_empty()),
            Layer::Annotations => {
                let matters = settings.annotations == Annotations::Map;
                let hint = matters.then(|| Hints::of(tool)).and_then(|hints| hints.strongest(settings.both));
                hint.and_then(|hint| settings.map.get(&hint))
            }
        }
        .cloned()
    }
}

impl PolicyRules for Layered {
    fn ruling(&self, standing: &Standing<'_>, tool: &ModelTool) -> Ruling {
        let default = || Some(&standing.settings.default).filter(|rule| !rule.is_empty()).cloned();
        let found = standing
            .settings
            .layers
            .iter()
            .find_map(|layer| Self::rule_of(standing, *layer, tool).map(|rule| (*layer, rule)));
        let Some((layer, mut rule)) = found else {
            return Ruling { layer: Layer::Default, rule: default().unwrap_or_else(ask) };
        };
        // A mode settles what an approval would, and the other way round; all else is filled in.
        let settled = rule.contains_key("mode") || rule.contains_key("approval");
        for (name, value) in default().unwrap_or_default() {
            if !(settled && matches!(name.as_str(), "mode" | "approval" | "patterns")) {
                rule.entry(name).or_insert(value);
            }
        }
        Ruling { layer, rule }
    }

    fn decision(
        &self,
        standing: &Standing<'_>,
        tool: &ModelTool,
        ruling: &Ruling,
        arguments: &Map<String, Value>,
    ) -> Decision {
        let settings = standing.settings;
        if !settings.wrappers_too && tool.is_wrapper() {
            return Decision::Allow;
        }
        match ruling.rule.get("mode") {
            Some(_) => match ruling.mode().filter(|mode| settings.modes.contains(mode)) {
                Some(Mode::Off) => Decision::Off,
                Some(Mode::Allow) => Decision::Allow,
                Some(Mode::Allowlist)
                    if patterns::allows(&ruling.rule, &patterns::subject(settings, tool, arguments)) =>
                {
                    Decision::Allow
                }
                // A mode that there isn't never allows anything.
                Some(Mode::Allowlist | Mode::Ask) | None => Decision::Ask,
            },
            None => match ruling.rule.get("approval").and_then(Value::as_str) {
                Some("never") => Decision::Allow,
                Some("unless_auto_approved") if standing.rules.auto_approved(&tool.name) => Decision::Allow,
                _ => Decision::Ask,
            },
        }
    }

    fn withheld(&self, standing: &Standing<'_>, tool: &ModelTool) -> Option<Withheld> {
        let settings = standing.settings;
        let resources = matches!(tool.route, Route::ListResources(_) | Route::ReadResource(_));
        if settings.annotations == Annotations::Filter
            && !tool.is_own()
            && !resources
            && !Hints::of(tool).read_only
        {
            return Some(Withheld::NotReadOnly);
        }
        let off =
            || self.decision(standing, tool, &self.ruling(standing, tool), &Map::new()) == Decision::Off;
        (settings.off_hides && !tool.is_own() && off()).then_some(Withheld::Off)
    }
}

#[cfg(test)]
mod tests;
