//! Faults in what may be called, and who is asked.

use crate::drivers::ClientSetup;
use crate::mutants::{Mutant, of_host, settings};
use async_trait::async_trait;
use regex::RegexBuilder;
use serde_json::{Map, Value, json};
use sparring_host::model::ModelTool;
use sparring_host::policy::{
    Answer, Approvals, Approver, Decision, Gate, GatedCall, Hints, Layered, PolicyRules, Question, Ruling,
    Standing, Visible, Withheld,
};
use sparring_profiles::{Layer, Mode};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

type Ruled = fn(&Standing<'_>, &ModelTool) -> Ruling;
type Decided = fn(Decision, &ModelTool, &Ruling, &Map<String, Value>) -> Decision;
type Held = fn(Option<Withheld>, &ModelTool) -> Option<Withheld>;
type Filtered = Box<dyn Fn(&Visible, &ModelTool, bool) -> Option<Withheld> + Send + Sync>;

/// The policy of the settings, with another answer to one question.
#[derive(Default)]
struct Bent {
    ruled: Option<Ruled>,
    decided: Option<Decided>,
    held: Option<Held>,
    filtered: Option<Filtered>,
}

impl PolicyRules for Bent {
    fn ruling(&self, standing: &Standing<'_>, tool: &ModelTool) -> Ruling {
        self.ruled.map_or_else(|| Layered.ruling(standing, tool), |ruled| ruled(standing, tool))
    }

    fn decision(
        &self,
        standing: &Standing<'_>,
        tool: &ModelTool,
        ruling: &Ruling,
        arguments: &Map<String, Value>,
    ) -> Decision {
        let decision = Layered.decision(standing, tool, ruling, arguments);
        self.decided.map_or(decision, |decided| decided(decision, tool, ruling, arguments))
    }

    fn withheld(&self, standing: &Standing<'_>, tool: &ModelTool) -> Option<Withheld> {
        let withheld = Layered.withheld(standing, tool);
        self.held.map_or(withheld, |held| held(withheld, tool))
    }

    fn filtered(&self, visible: &Visible, tool: &ModelTool, exempt: bool) -> Option<Withheld> {
        match &self.filtered {
            Some(filtered) => filtered(visible, tool, exempt),
            None => Layered.filtered(visible, tool, exempt),
        }
    }
}

fn bends(setup: &mut ClientSetup, bent: Bent) {
    setup.parts(move |parts| parts.policy = Arc::new(bent));
}

fn rules(setup: &mut ClientSetup, ruled: Ruled) {
    bends(setup, Bent { ruled: Some(ruled), ..Bent::default() });
}

fn decides(setup: &mut ClientSetup, decided: Decided) {
    bends(setup, Bent { decided: Some(decided), ..Bent::default() });
}

fn filters(
    setup: &mut ClientSetup,
    filtered: impl Fn(&Visible, &ModelTool, bool) -> Option<Withheld> + Send + Sync + 'static,
) {
    bends(setup, Bent { filtered: Some(Box::new(filtered)), ..Bent::default() });
}

/// The rule of the layers if the server had said something else of the tool.
fn as_if(standing: &Standing<'_>, tool: &ModelTool, said: impl FnOnce(&mut Map<String, Value>)) -> Ruling {
    let mut tool = tool.clone();
    let mut hints = tool.annotations.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    said(&mut hints);
    tool.annotations = Some(Value::Object(hints));
    Layered.ruling(standing, &tool)
}

fn truthy(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false)) && *value != json!(0) && *value != json!("")
}

fn mode(word: &str) -> Map<String, Value> {
    Map::from_iter([("mode".to_owned(), Value::from(word))])
}

/// The widest of all rules there are.
fn widest(standing: &Standing<'_>, tool: &ModelTool) -> Ruling {
    let layers = [Layer::Tool, Layer::Server, Layer::Project, Layer::App];
    let allows = layers.into_iter().find_map(|layer| {
        let settings = sparring_profiles::PolicySettings { layers: vec![layer], ..standing.settings.clone() };
        let ruling = Layered.ruling(&Standing { settings: &settings, rules: standing.rules }, tool);
        (ruling.layer == layer && ruling.mode() == Some(Mode::Allow)).then_some(ruling)
    });
    allows.unwrap_or_else(|| Layered.ruling(standing, tool))
}

/// Patterns of a rule, each matched as `matches` does.
fn allows(ruling: &Ruling, matches: impl Fn(&str) -> bool) -> bool {
    let patterns = ruling.rule.get("patterns").and_then(Value::as_array);
    patterns.is_some_and(|patterns| patterns.iter().filter_map(Value::as_str).any(matches))
}

/// Answers in the user's place, or passes the question on.
struct Answers {
    inner: Arc<dyn Approver>,
    answer: fn(Answer) -> Answer,
}

#[async_trait]
impl Approver for Answers {
    async fn ask(&self, question: Question) -> Answer {
        (self.answer)(self.inner.ask(question).await)
    }
}

struct Deaf;

#[async_trait]
impl Approver for Deaf {
    async fn ask(&self, _: Question) -> Answer {
        Answer::Deny("no".to_owned())
    }
}

/// A gate that always says the same.
struct Fixed(Result<(), &'static str>);

#[async_trait]
impl Gate for Fixed {
    async fn check(&self, _: GatedCall<'_>) -> Result<(), String> {
        self.0.map_err(str::to_owned)
    }
}

pub(super) const SETTINGS: &[Mutant] = &settings![
    "mouaif": "layers-upside-down", "Takes the weakest layer that has a rule.",
        "policy.layers" = ["app", "project", "server", "tool"];
    "mouaif": "app-rules-ignored", "Knows no rules of the program.",
        "policy.layers" = ["tool", "server", "project"];
    "mouaif": "server-rules-ignored", "Knows no rules of servers.",
        "policy.layers" = ["tool", "project", "app"];
    "mouaif": "rules-of-tools-ignored", "Knows no rules of tools.",
        "policy.layers" = ["server", "project", "app"];
    "mouaif": "allows-by-default", "Allows what no rule is about.", "policy.default" = {"mode": "allow"};
    "mouaif": "off-refuses-only", "Shows tools that are switched off.", "policy.off_hides" = false;
    "mouaif": "pins-server", "Allows the whole server where a tool was allowed for good.",
        "policy.always_allow" = "server";
    "chaz": "ignores-annotations", "Makes nothing of annotations.", "policy.annotations" = "ignore";
    "chaz": "read-only-wins", "Takes a tool with both hints for harmless.", "policy.both" = "read_only";
    "chaz": "annotations-beat-rules", "Takes the server's word before the user's.",
        "policy.layers" = ["annotations", "tool", "server", "default"];
    "chaz": "tool-rules-ignored", "Knows no rules of single tools.",
        "policy.layers" = ["server", "annotations", "default"];
];

pub(super) const MUTANTS: &[Mutant] = &[
    // ---- rules ----
    of_host("mouaif", "most-permissive-wins", "Takes the widest rule of all layers.", |s| rules(s, widest)),
    of_host("mouaif", "tool-rule-for-its-server", "Takes a rule of one tool for all of its server.", |s| {
        rules(s, |standing, tool| {
            let server = tool.server.clone().unwrap_or_default();
            let others = ["add", "echo", "mirror"]
                .map(|raw| ModelTool { name: format!("mcp__{server}__{raw}"), ..tool.clone() });
            let mut rulings = others.iter().map(|other| Layered.ruling(standing, other));
            rulings
                .find(|ruling| ruling.layer == Layer::Tool)
                .unwrap_or_else(|| Layered.ruling(standing, tool))
        });
    }),
    // ---- annotations ----
    of_host("chaz", "any-hint-counts", "Takes any value of a hint for true.", |s| {
        rules(s, |standing, tool| {
            as_if(standing, tool, |hints| hints.values_mut().for_each(|hint| *hint = json!(true)))
        });
    }),
    of_host("chaz", "missing-hint-is-destructive", "Takes a tool without hints for destructive.", |s| {
        rules(s, |standing, tool| {
            let silent = !Hints::of(tool).read_only;
            as_if(standing, tool, |hints| {
                if silent {
                    hints.entry("destructiveHint").or_insert(json!(true));
                }
            })
        });
    }),
    of_host("chaz", "truthy-hint-counts", "Takes a hint that is a text or a number for true.", |s| {
        rules(s, |standing, tool| {
            as_if(standing, tool, |hints| {
                hints.values_mut().for_each(|hint| *hint = json!(truthy(hint)));
            })
        });
    }),
    of_host("zut", "hint-allows", "Allows what is said to be read-only.", |s| {
        rules(s, |standing, tool| match Hints::of(tool).read_only {
            true => Ruling { layer: Layer::Annotations, rule: mode("allow") },
            false => Layered.ruling(standing, tool),
        });
    }),
    of_host("zut", "destructive-hint-switches-off", "Switches off what is said to be destructive.", |s| {
        rules(s, |standing, tool| match Hints::of(tool).destructive {
            true => Ruling { layer: Layer::Annotations, rule: mode("off") },
            false => Layered.ruling(standing, tool),
        });
    }),
    of_host("zut", "filter-shows-all", "Shows an orchestrator all tools.", |s| {
        bends(s, Bent { held: Some(|_, _| None), ..Bent::default() });
    }),
    of_host("zut", "filter-takes-truthy-hints", "Takes a text for a hint that is true.", |s| {
        let held: Held = |withheld, tool| {
            let hint = tool.annotations.as_ref().and_then(|hints| hints.get("readOnlyHint"));
            withheld.filter(|_| !hint.is_some_and(truthy))
        };
        bends(s, Bent { held: Some(held), ..Bent::default() });
    }),
    // ---- calls ----
    of_host("mouaif", "calls-before-approval", "Makes calls without waiting for the user.", |s| {
        s.parts(|parts| parts.approver = Arc::new(Approvals::approving()));
    }),
    of_host("mouaif", "never-calls-after-approval", "Takes every answer for a no.", |s| {
        s.parts(|parts| parts.approver = Arc::new(Deaf));
    }),
    of_host("mouaif", "always-means-once", "Asks again what was allowed for good.", |s| {
        s.parts(|parts| {
            let inner = Arc::clone(&parts.approver);
            let answer = |answer| if answer == Answer::Always { Answer::Approve } else { answer };
            parts.approver = Arc::new(Answers { inner, answer });
        });
    }),
    of_host("mouaif", "off-hides-only", "Makes calls of tools that are switched off.", |s| {
        let decided: Decided = |decision, _, _, _| match decision {
            Decision::Off => Decision::Allow,
            other => other,
        };
        let held: Held = |withheld, _| withheld.filter(|withheld| *withheld != Withheld::Off);
        bends(s, Bent { decided: Some(decided), held: Some(held), ..Bent::default() });
    }),
    of_host("zidane", "gate-is-not-asked", "Asks no gate.", |s| {
        s.parts(|parts| parts.gate = Arc::new(Fixed(Ok(()))));
    }),
    of_host("zidane", "gate-refuses-all", "Refuses all calls where a gate refuses some.", |s| {
        s.parts(|parts| parts.gate = Arc::new(Fixed(Err("no"))));
    }),
    // ---- allowlists ----
    of_host("mouaif", "allowlist-asks-always", "Asks whatever the allowlist says.", |s| {
        decides(s, |decision, _, ruling, _| match ruling.mode() {
            Some(Mode::Allowlist) => Decision::Ask,
            _ => decision,
        });
    }),
    of_host("mouaif", "matches-anywhere-in-arguments", "Matches patterns with each string argument.", |s| {
        decides(s, |decision, tool, ruling, arguments| {
            let any = allows(ruling, |pattern| {
                let regex = RegexBuilder::new(pattern).build();
                let mut texts = arguments.values().filter_map(Value::as_str);
                regex.is_ok_and(|regex| texts.any(|text| regex.is_match(&format!("{} {text}", tool.name))))
            });
            if any { Decision::Allow } else { decision }
        });
    }),
    of_host("mouaif", "matches-line-by-line", "Matches patterns with each line of an argument.", |s| {
        decides(s, |decision, tool, ruling, arguments| {
            let any = allows(ruling, |pattern| {
                let regex = RegexBuilder::new(pattern).multi_line(true).build();
                let first = arguments.values().find_map(Value::as_str).unwrap_or_default();
                regex.is_ok_and(|regex| regex.is_match(&format!("{} {first}", tool.name)))
            });
            if any { Decision::Allow } else { decision }
        });
    }),
    of_host("mouaif", "bad-pattern-allows", "Takes a pattern that is none for one that matches.", |s| {
        decides(s, |decision, _, ruling, _| {
            let broken = allows(ruling, |pattern| RegexBuilder::new(pattern).build().is_err());
            if broken { Decision::Allow } else { decision }
        });
    }),
    // ---- what a session has ----
    of_host("zidane", "session-filter-ignored", "Gives each session all tools.", |s| {
        filters(s, |_, _, _| None);
    }),
    of_host("mewbo", "restriction-ignored", "Gives a restricted session all tools.", |s| {
        filters(s, |_, _, _| None);
    }),
    of_host("zidane", "mcp-is-no-word", "Knows no word for all tools of servers.", |s| {
        filters(s, |visible, tool, exempt| {
            let mut visible = visible.clone();
            if let Some(allowed) = &mut visible.allowed {
                allowed.0.retain(|name| name != "mcp");
            }
            Layered.filtered(&visible, tool, exempt)
        });
    }),
    of_host("zidane", "new-tools-start-off", "Switches off tools that come later.", |s| {
        let known = Arc::new(Mutex::new(BTreeSet::new()));
        filters(s, move |visible, tool, exempt| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            // As long as nothing is switched off, everything is on.
            if *visible == Visible::default() {
                known.insert(tool.name.clone());
            } else if tool.server.is_some() && !known.contains(&tool.name) {
                return Some(Withheld::SwitchedOff);
            }
            Layered.filtered(visible, tool, exempt)
        });
    }),
];
