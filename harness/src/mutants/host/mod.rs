//! Faults in the program around the client: how it names tools, reads lists, makes calls.
//!
//! The faults of a host, which fail what its profile promises, have a file for each area of profiles.

mod configured;
mod disclosure;
mod guarded;
mod lifecycle;
mod offered;
mod policy;
mod protocol;
mod shown;

use super::decorate::{
    Fate, MANY, RawName, Rounds, exchanges, names_tools, outgoing, processes, reads_lists,
};
use super::stdio::Tiring;
use super::{Mutant, mutant};
use serde_json::json;
use sparring_client::NextPage;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// The name by the template, with forbidden characters replaced, and nothing more.
fn plain(name: &RawName) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    format!("mcp__{}__{}", name.server, name.tool).chars().map(clean).collect()
}

/// Leaves out each tool whose raw name an earlier one in `tools` has.
fn first_of_each<'a>(tools: impl Iterator<Item = &'a RawName>) -> Vec<Option<String>> {
    let mut seen = HashSet::new();
    tools.map(|name| seen.insert(&name.tool).then(|| plain(name))).collect()
}

/// The mutants of all areas.
pub(super) fn areas() -> Vec<Mutant> {
    [
        lifecycle::SETTINGS,
        lifecycle::MUTANTS,
        protocol::MUTANTS,
        policy::SETTINGS,
        policy::MUTANTS,
        disclosure::SETTINGS,
        disclosure::MUTANTS,
        guarded::SETTINGS,
        guarded::MUTANTS,
        configured::SETTINGS,
        configured::MUTANTS,
        offered::SETTINGS,
        offered::MUTANTS,
        shown::SETTINGS,
        shown::MUTANTS,
    ]
    .concat()
}

pub(super) const MUTANTS: &[Mutant] = &[
    // ---- names ----
    mutant("drops-clashing-tool", "Leaves out a tool if another server has one of that name.", |s| {
        names_tools(s, |tools| first_of_each(tools.iter()));
    }),
    mutant("later-tool-replaces-earlier", "Leaves out a tool if a later server has one of that name.", |s| {
        names_tools(s, |tools| {
            let mut names = first_of_each(tools.iter().rev());
            names.reverse();
            names
        });
    }),
    mutant("same-name-for-clash", "Gives two tools the same name.", |s| {
        names_tools(s, |tools| tools.iter().map(|name| Some(plain(name))).collect());
    }),
    mutant("keeps-forbidden-characters", "Keeps all characters in composed names.", |s| {
        names_tools(s, |tools| {
            tools.iter().map(|name| Some(format!("mcp__{}__{}", name.server, name.tool))).collect()
        });
    }),
    mutant("no-limit-on-names", "Composes names of any length.", |s| {
        s.set("naming.max_len", &json!(1000));
    }),
    mutant("cuts-long-names", "Cuts long names, whether they differ then or not.", |s| {
        names_tools(s, |tools| {
            tools.iter().map(|name| Some(plain(name).chars().take(64).collect())).collect()
        });
    }),
    mutant("leaves-out-long-names", "Leaves out tools with long names.", |s| {
        names_tools(s, |tools| {
            tools.iter().map(|name| Some(plain(name)).filter(|name| name.len() <= 64)).collect()
        });
    }),
    mutant("names-tools-without-server", "Composes names without the server's name.", |s| {
        s.set("naming.template", &json!("{tool}"));
    }),
    mutant("routes-by-tool-name-alone", "Sends a call to the first server with a tool of that name.", |s| {
        names_tools(s, |tools| tools.iter().map(|name| Some(format!("mcp__{}", name.tool))).collect());
    }),
    mutant("sends-composed-name", "Calls tools by their composed names.", |s| {
        outgoing(s, |p| {
            if p.is("tools/call") {
                let tool = p.message["params"]["name"].as_str().unwrap_or_default().to_owned();
                let name = RawName { server: p.server.to_owned(), tool };
                p.message["params"]["name"] = json!(plain(&name));
            }
            Fate::Pass
        });
    }),
    // ---- lists ----
    mutant("takes-empty-cursor-for-the-end", "Takes an empty cursor for the end of the list.", |s| {
        reads_lists(s, |_, cursor| match cursor {
            None | Some("") => NextPage::Done,
            Some(cursor) => NextPage::At(cursor.to_owned()),
        });
    }),
    mutant("follows-missing-cursor", "Asks for one more page at the end of a list.", |s| {
        reads_lists(s, |_, cursor| NextPage::At(cursor.unwrap_or_default().to_owned()));
    }),
    mutant("follows-cursors-for-ever", "Reads lists on as long as there is a cursor.", |s| {
        reads_lists(s, |_, cursor| cursor.map_or(NextPage::Done, |cursor| NextPage::At(cursor.to_owned())));
        processes(s, || Tiring(Rounds::new(MANY)));
        let rounds = Rounds::new(MANY);
        exchanges(s, move |request, next| {
            let rounds = rounds.clone();
            async move {
                if request.method == "POST" {
                    rounds.next().await;
                }
                next.send(request).await
            }
        });
    }),
    mutant("stops-after-first-page", "Reads only the first page of a list.", |s| {
        s.set("discovery.paginates", &json!(false));
    }),
    mutant("ignores-list-changed", "Does not read a list again that has changed.", |s| {
        s.set("list_changed.tools", &json!("ignore"));
    }),
    // ---- calls ----
    mutant("never-times-out", "Waits for ever for the result of a call.", |s| {
        s.calls = Some(Arc::new(|options| options.request.timeout = Some(Duration::from_secs(3600))));
    }),
    mutant("ignores-timeout-setting", "Has a timeout of its own for calls.", |s| {
        s.calls = Some(Arc::new(|options| options.request.timeout = Some(Duration::from_millis(4500))));
    }),
    mutant("waits-for-cancelled-call", "Does not end a call that its caller has cancelled.", |s| {
        s.calls = Some(Arc::new(|options| options.cancel = None));
    }),
];
