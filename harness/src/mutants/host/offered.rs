//! Faults in which tools the model is offered, and in their names and schemas.

use super::plain;
use crate::drivers::ClientSetup;
use crate::mutants::decorate::{RawName, names_tools, params, results};
use crate::mutants::{Mutant, of_host, settings};
use serde_json::{Value, json};
use sparring_host::shape::ToolShaper;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Shows schemas that something was done to.
struct Shaped {
    right: Arc<dyn ToolShaper>,
    change: fn(&mut Value),
}

impl ToolShaper for Shaped {
    fn shape(&self, schema: &Value) -> Value {
        let mut shaped = self.right.shape(schema);
        (self.change)(&mut shaped);
        shaped
    }
}

fn shapes(setup: &mut ClientSetup, change: fn(&mut Value)) {
    setup.parts(move |parts| {
        parts.shaping = Arc::new(Shaped { right: Arc::clone(&parts.shaping), change });
    });
}

/// Without combinators, wherever they are.
fn without_combinators(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, _| !matches!(name.as_str(), "anyOf" | "oneOf" | "allOf"));
            members.values_mut().for_each(without_combinators);
        }
        Value::Array(list) => list.iter_mut().for_each(without_combinators),
        _ => {}
    }
}

/// Names with a number where there are several of a name, in the order of arrival.
fn numbered(tools: &[RawName]) -> Vec<Option<String>> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let name = |tool: &RawName| {
        let name = plain(tool);
        let count = seen.entry(name.clone()).and_modify(|count| *count += 1).or_insert(1);
        Some(if *count == 1 { name } else { format!("{name}_{count}") })
    };
    tools.iter().map(name).collect()
}

/// Tells runs of the mutant with the seed from one another.
static RUNS: AtomicU32 = AtomicU32::new(0);

pub(super) const MUTANTS: &[Mutant] = &[
    of_host("zut", "numbered-suffix", "Numbers tools that would have one name.", |s| {
        names_tools(s, numbered);
    }),
    of_host("zut", "seeded-hash", "Gives clashing tools other names in each run.", |s| {
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        names_tools(s, move |tools| {
            tools.iter().enumerate().map(|(n, tool)| Some(format!("{}_{run}_{n}", plain(tool)))).collect()
        });
    }),
    of_host("zut", "loses-required", "Shows schemas without what they require.", |s| {
        shapes(s, |schema| drop(schema.as_object_mut().and_then(|root| root.remove("required"))));
    }),
    of_host("zut", "removes-nested-combinators", "Takes combinators out of schemas everywhere.", |s| {
        shapes(s, without_combinators);
    }),
    of_host("mouaif", "reports-no-failures", "Takes each result for a good one.", |s| {
        results(s, "tools/call", |result| {
            result["isError"] = json!(false);
        });
    }),
    of_host("zut", "drops-unknown-arguments", "Sends only arguments that the shown schema names.", |s| {
        params(s, "tools/call", |params| {
            if params["name"] == "either" {
                params["arguments"] = json!({ "a": params["arguments"]["a"] });
            }
        });
    }),
];

pub(super) const SETTINGS: &[Mutant] = &settings![
    "mouaif": "reports-calls-under-another-name", "Calls a call something else.", "events.names.tool_call" = "called";
    "mouaif": "reports-results-under-another-name", "Calls a result something else.",
        "events.names.tool_result" = "answered";
    "chaz": "progress-as-result", "Passes progress on.", "results.streams" = true;
    "zut": "no-allow-list", "Offers what is not allowed.", "discovery.filters" = ["deny"];
    "zut": "no-deny-list", "Offers what is denied.", "discovery.filters" = ["allow"];
    "zut": "matches-composed-names", "Compares filters with composed names.", "discovery.filter_names" = "composed";
    "zidane": "no-predicate", "Asks no function about tools.", "discovery.filters" = ["allow", "deny"];
    "zidane": "lists-anyway", "Asks for tools that it was given.", "discovery.supplied_tools" = false;
    "zidane": "connects-anyway", "Connects where it could wait.", "discovery.lazy_connect" = false;
    "zut": "schemas-as-they-are", "Shows schemas without a type.", "discovery.schema_root" = "as-is";
    "zut": "keeps-combinators", "Shows combinators at the root of schemas.", "discovery.schema_combinators" = "keep";
    "zut": "limits-names-early", "Cuts names that would fit.", "naming.max_len" = 60;
    "zut": "short-suffixes", "Has suffixes of four characters.", "naming.hash_len" = 4;
    "chaz": "wrappers-bypass-policy", "Asks nobody before it reads a resource.", "policy.wrappers_too" = false;
    "chaz": "reads-without-limit", "Hands on resources of any length.", "results.limit_reads" = false;
];
