//! Faults in what the model sees of its tools, and in what servers say to it.

use crate::drivers::ClientSetup;
use crate::mutants::{Mutant, of_host, settings};
use serde_json::{Map, Value, json};
use sparring_host::HostError;
use sparring_host::disclosure::{
    DiscloseRules, DisclosureOptions, Progressive, Search, SearchMode, Unwrapped, View,
};
use sparring_host::model::ModelTool;
use sparring_profiles::{InstructionsSettings, Level};
use std::collections::BTreeSet;
use std::sync::Arc;

type Names = BTreeSet<String>;

/// Disclosure as the settings say, with another answer to one question.
#[derive(Default)]
struct Bent {
    deferred: Option<fn(&View<'_>) -> Names>,
    search: Option<fn(&View<'_>, &Names, &Search) -> Vec<String>>,
    found: Option<fn(&View<'_>) -> Names>,
    level: Option<Level>,
    describe: Option<fn(Value) -> Value>,
    catalog: Option<fn(&View<'_>, &Names) -> Option<String>>,
    own: Option<fn(&View<'_>) -> Vec<ModelTool>>,
    unwrap: Option<fn(&View<'_>, Unwrapped) -> Result<Unwrapped, HostError>>,
    answer: Option<fn(Value, &[String]) -> Result<Value, String>>,
    instructions: Option<fn(&InstructionsSettings, &[(String, String)]) -> Option<String>>,
}

impl DiscloseRules for Bent {
    fn deferred(&self, view: &View<'_>) -> Names {
        self.deferred.map_or_else(|| Progressive.deferred(view), |deferred| deferred(view))
    }

    fn search(&self, view: &View<'_>, deferred: &Names, search: &Search) -> Vec<String> {
        match self.search {
            Some(other) => other(view, deferred, search),
            None => Progressive.search(view, deferred, search),
        }
    }

    fn found(&self, view: &View<'_>) -> Names {
        self.found.map_or_else(|| Progressive.found(view), |found| found(view))
    }

    fn refuses_unfound(&self, view: &View<'_>) -> bool {
        Progressive.refuses_unfound(view)
    }

    fn level(&self, view: &View<'_>, tool: &ModelTool) -> Level {
        self.level.unwrap_or_else(|| Progressive.level(view, tool))
    }

    fn describe(&self, view: &View<'_>, tool: &ModelTool) -> Value {
        let described = Progressive.describe(view, tool);
        self.describe.map_or_else(|| described.clone(), |describe| describe(described.clone()))
    }

    fn catalog(&self, view: &View<'_>, deferred: &Names) -> Option<String> {
        match self.catalog {
            Some(catalog) => catalog(view, deferred),
            None => Progressive.catalog(view, deferred),
        }
    }

    fn own(&self, view: &View<'_>, deferred: &Names) -> Vec<ModelTool> {
        self.own.map_or_else(|| Progressive.own(view, deferred), |own| own(view))
    }

    fn unwrap(
        &self,
        view: &View<'_>,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Unwrapped, HostError> {
        let unwrapped = Progressive.unwrap(view, name, arguments.clone());
        match self.unwrap {
            // What means itself is for the mutant to say.
            Some(unwrap) => {
                let bare = Unwrapped { name: name.to_owned(), arguments, dispatched: true };
                unwrap(view, unwrapped.unwrap_or(bare))
            }
            None => unwrapped,
        }
    }

    fn answer(
        &self,
        view: &View<'_>,
        search: &Search,
        found: Vec<Value>,
        names: &[String],
    ) -> Result<Value, String> {
        let answer = Progressive.answer(view, search, found, names)?;
        self.answer.map_or(Ok(answer.clone()), |other| other(answer, names))
    }

    fn instructions(&self, settings: &InstructionsSettings, said: &[(String, String)]) -> Option<String> {
        match self.instructions {
            Some(instructions) => instructions(settings, said),
            None => Progressive.instructions(settings, said),
        }
    }
}

fn bends(setup: &mut ClientSetup, bent: Bent) {
    setup.parts(move |parts| parts.disclosure = Arc::new(bent));
}

fn without_schema(mut tool: Value) -> Value {
    tool["inputSchema"] = json!({"type": "object"});
    tool
}

/// What would be deferred if the session had chosen otherwise.
fn as_if(view: &View<'_>, change: impl FnOnce(&mut DisclosureOptions)) -> Names {
    let mut options = view.options.clone();
    change(&mut options);
    Progressive.deferred(&View { options: &options, ..*view })
}

/// Everything there is to find, as soon as something was found.
fn all_or_nothing(view: &View<'_>) -> Names {
    match Progressive.found(view).is_empty() {
        true => Names::new(),
        false => view.tools.iter().map(|tool| tool.name.clone()).collect(),
    }
}

/// A catalog of these lines.
fn catalog(view: &View<'_>, deferred: &Names, line: impl Fn(&ModelTool) -> String) -> Option<String> {
    let lines: Vec<String> =
        view.tools.iter().filter(|tool| deferred.contains(&tool.name)).map(line).collect();
    let tag = &view.settings.catalog_tag;
    Some(format!("<{tag}>\n{}\n</{tag}>", lines.join("\n")))
}

/// What is left when each tool that dispatches is taken away, however deep.
fn to_the_bottom(view: &View<'_>, call: Unwrapped) -> Result<Unwrapped, HostError> {
    let Unwrapped { mut name, mut arguments, dispatched } = call;
    while name == view.settings.dispatch_tool {
        let inner = arguments.remove("arguments");
        name = arguments.remove("name").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
        arguments = inner.and_then(|inner| inner.as_object().cloned()).unwrap_or_default();
    }
    Ok(Unwrapped { name, arguments, dispatched })
}

/// Each server's instructions under its name, as they are.
fn verbatim(settings: &InstructionsSettings, said: &[(String, String)], silent_too: bool) -> Option<String> {
    let parts = said.iter().filter(|(_, text)| silent_too || !text.is_empty());
    let parts: Vec<String> = parts.map(|(server, text)| format!("## {server}\n{text}")).collect();
    settings.in_prompt.then(|| format!("{}\n{}", settings.marker, parts.join("\n")))
}

pub(super) const SETTINGS: &[Mutant] = &settings![
    "zidane": "defers-by-default", "Defers tools with nothing set.", "disclosure.default" = "lazy";
    "zidane": "catalog-without-descriptions", "Lists names alone.", "disclosure.catalog" = "names";
    "mewbo": "catalog-with-descriptions", "Lists descriptions too.", "disclosure.catalog" = "descriptions";
    "zidane": "per-server-ignored", "Has one mode for all servers.", "disclosure.per_server" = false;
    "mewbo": "search-takes-words-literally", "Finds words only as they are, one after the other.",
        "disclosure.search_forms" = ["select:", "substring"];
    "zidane": "gate-open", "Makes calls of tools that were not found.", "disclosure.unfound" = "allowed";
    "zidane": "finds-outlive-the-run", "Remembers in a run what another one has found.",
        "disclosure.found_lasts" = "conversation";
    "zidane": "found-tools-join-the-list", "Adds found tools to the list.", "disclosure.call" = "unlock";
    "mewbo": "list-stays-fixed", "Does not add found tools to the list.", "disclosure.call" = "dispatch";
    "mewbo": "search-is-restricted", "Takes the search away from agents that are restricted.",
        "disclosure.search_exempt" = false;
    "zidane": "no-instructions", "Keeps instructions of servers to itself.", "instructions.in_prompt" = false;
    "zidane": "instructions-unattributed", "Does not say whose instructions they are.",
        "instructions.attributed" = false;
];

pub(super) const MUTANTS: &[Mutant] = &[
    // ---- forms ----
    of_host("chaz", "shows-all-in-full", "Shows all tools in full.", |s| {
        bends(s, Bent { level: Some(Level::Full), ..Bent::default() });
    }),
    of_host("chaz", "shows-all-as-summary", "Shows all tools in a line.", |s| {
        bends(s, Bent { level: Some(Level::Summary), ..Bent::default() });
    }),
    of_host("chaz", "describe-returns-brief", "Describes tools without their schemas.", |s| {
        bends(s, Bent { describe: Some(without_schema), ..Bent::default() });
    }),
    // ---- catalogs ----
    of_host("zidane", "no-catalog", "Says nothing of deferred tools.", |s| {
        bends(s, Bent { catalog: Some(|_, _| None), ..Bent::default() });
    }),
    of_host("zidane", "catalog-leaks-schema", "Lists schemas.", |s| {
        let leaks: fn(&View<'_>, &Names) -> Option<String> =
            |view, deferred| catalog(view, deferred, |tool| format!("- {} {}", tool.name, tool.input_schema));
        bends(s, Bent { catalog: Some(leaks), ..Bent::default() });
    }),
    of_host("zidane", "unescaped-description", "Lists descriptions as they are.", |s| {
        let raw: fn(&View<'_>, &Names) -> Option<String> = |view, deferred| {
            catalog(view, deferred, |tool| {
                format!("- {}: {}", tool.name, tool.description.as_deref().unwrap_or_default())
            })
        };
        bends(s, Bent { catalog: Some(raw), ..Bent::default() });
    }),
    of_host("zidane", "nothing-is-deferred", "Shows all tools, whatever the mode.", |s| {
        bends(s, Bent { deferred: Some(|_| Names::new()), ..Bent::default() });
    }),
    of_host("mewbo", "never-defers", "Binds all tools, whatever the mode.", |s| {
        bends(s, Bent { deferred: Some(|_| Names::new()), ..Bent::default() });
    }),
    of_host("mewbo", "auto-is-on", "Defers tools however few there are.", |s| {
        let on: fn(&View<'_>) -> Names = |view| as_if(view, |options| options.mode = Some(SearchMode::Lazy));
        bends(s, Bent { deferred: Some(on), ..Bent::default() });
    }),
    of_host("mewbo", "threshold-off-by-one", "Defers as many tools as the threshold.", |s| {
        let fewer: fn(&View<'_>) -> Names =
            |view| as_if(view, |options| options.auto_threshold = options.auto_threshold.saturating_sub(1));
        bends(s, Bent { deferred: Some(fewer), ..Bent::default() });
    }),
    // ---- searches ----
    of_host("zidane", "search-finds-nothing", "Finds nothing.", |s| {
        bends(s, Bent { search: Some(|_, _, _| Vec::new()), ..Bent::default() });
    }),
    of_host("mewbo", "select-finds-nothing", "Finds no tools by their names.", |s| {
        bends(s, Bent { search: Some(|_, _, _| Vec::new()), ..Bent::default() });
    }),
    of_host("zidane", "limit-ignored", "Finds all that fits, however much that is.", |s| {
        let all: fn(&View<'_>, &Names, &Search) -> Vec<String> =
            |view, deferred, search| Progressive.search(view, deferred, &search.unlimited());
        bends(s, Bent { search: Some(all), ..Bent::default() });
    }),
    of_host("zidane", "searches-all-servers", "Finds tools of other servers than the one named.", |s| {
        let all: fn(&View<'_>, &Names, &Search) -> Vec<String> =
            |view, deferred, search| Progressive.search(view, deferred, &search.everywhere());
        bends(s, Bent { search: Some(all), ..Bent::default() });
    }),
    of_host("zidane", "search-without-schemas", "Finds tools without their schemas.", |s| {
        bends(s, Bent { describe: Some(without_schema), ..Bent::default() });
    }),
    // ---- what was found ----
    of_host("zidane", "finds-are-forgotten", "Forgets what was found.", |s| {
        bends(s, Bent { found: Some(|_| Names::new()), ..Bent::default() });
    }),
    of_host("mewbo", "finds-are-lost", "Does not bind what was found.", |s| {
        bends(s, Bent { found: Some(|_| Names::new()), ..Bent::default() });
    }),
    of_host("zidane", "one-find-opens-all", "Lets all tools be called once one was found.", |s| {
        bends(s, Bent { found: Some(all_or_nothing), ..Bent::default() });
    }),
    of_host("mewbo", "one-find-binds-all", "Binds all tools once one was found.", |s| {
        bends(s, Bent { found: Some(all_or_nothing), ..Bent::default() });
    }),
    of_host("mewbo", "discovery-lost-on-compaction", "Forgets with the turns what they found.", |s| {
        let recent: fn(&View<'_>) -> Names = |view| {
            let turns = view.conversation.0.iter().filter(|exchange| !exchange.summary);
            turns.flat_map(|exchange| exchange.found.clone()).collect()
        };
        bends(s, Bent { found: Some(recent), ..Bent::default() });
    }),
    // ---- the host's own tools ----
    of_host(
        "mewbo",
        "search-tool-always",
        "Has a tool that searches, whether there is anything or not.",
        |s| {
            let always: fn(&View<'_>) -> Vec<ModelTool> = |view| {
                let mut options = view.options.clone();
                options.tool = true;
                let view = View { options: &options, ..*view };
                Progressive.own(&view, &Names::from(["something".to_owned()]))
            };
            bends(s, Bent { own: Some(always), ..Bent::default() });
        },
    ),
    of_host("zidane", "no-hit-is-an-error", "Takes a search that finds nothing for a failure.", |s| {
        let failure: fn(Value, &[String]) -> Result<Value, String> = |answer, names| match names.is_empty() {
            true => Err("nothing was found".to_owned()),
            false => Ok(answer),
        };
        bends(s, Bent { answer: Some(failure), ..Bent::default() });
    }),
    of_host("zidane", "dispatches-unvalidated", "Sends dispatched arguments as they are.", |s| {
        let unseen: fn(&View<'_>, Unwrapped) -> Result<Unwrapped, HostError> =
            |_, call| Ok(Unwrapped { dispatched: false, ..call });
        bends(s, Bent { unwrap: Some(unseen), ..Bent::default() });
    }),
    of_host("zidane", "dispatches-anything", "Calls some tool where the one meant does not exist.", |s| {
        let some: fn(&View<'_>, Unwrapped) -> Result<Unwrapped, HostError> = |view, call| {
            let known = view.tools.iter().any(|tool| tool.name == call.name);
            let other = view.tools.iter().find(|tool| tool.raw() == Some("echo")).filter(|_| !known);
            Ok(match other {
                Some(tool) => Unwrapped {
                    name: tool.name.clone(),
                    arguments: Map::from_iter([("text".to_owned(), json!("some"))]),
                    dispatched: true,
                },
                None => call,
            })
        };
        bends(s, Bent { unwrap: Some(some), ..Bent::default() });
    }),
    of_host("zidane", "dispatches-dispatcher", "Lets the tool that dispatches call itself.", |s| {
        bends(s, Bent { unwrap: Some(to_the_bottom), ..Bent::default() });
    }),
    // ---- instructions ----
    of_host("zidane", "instructions-verbatim", "Shows instructions as they are, headings and all.", |s| {
        bends(
            s,
            Bent { instructions: Some(|settings, said| verbatim(settings, said, false)), ..Bent::default() },
        );
    }),
    of_host("zidane", "instructions-of-all", "Lists servers that say nothing.", |s| {
        bends(
            s,
            Bent { instructions: Some(|settings, said| verbatim(settings, said, true)), ..Bent::default() },
        );
    }),
    of_host("zidane", "instructions-always", "Shows instructions though that is switched off.", |s| {
        let always: fn(&InstructionsSettings, &[(String, String)]) -> Option<String> = |settings, said| {
            let on = InstructionsSettings { in_prompt: true, ..settings.clone() };
            Progressive.instructions(&on, said)
        };
        bends(s, Bent { instructions: Some(always), ..Bent::default() });
    }),
];
