//! The scenario as a whole: its id, its file, where it applies.

use super::{Lint, top};
use crate::catalogue;
use crate::code::Code;
use crate::diagnostic::did_you_mean;
use crate::op::FEATURES;
use crate::profile::NeededPromise;
use crate::yaml::Path;
use sparring_wire::{Revision, Transport};
use std::collections::BTreeSet;

/// Shortest and longest `deadline_ms`.
const DEADLINES: std::ops::RangeInclusive<u64> = 1_000..=120_000;

impl Lint<'_> {
    pub(super) fn header(&mut self, ids: &BTreeSet<String>) {
        let scenario = self.scenario;
        let id = scenario.scenario.as_str();
        let at = top().key("scenario");
        if !is_id(id) {
            self.value(
                Code::ScenarioId,
                &at,
                format!(
                    "`{id}` is no id: write lower-case words with dots and dashes, as in `http.session.lost`"
                ),
            );
        } else if !file_fits(self.relative, id) {
            let expected =
                id.split_once('.').map(|(area, rest)| format!("{area}/{rest}.yaml")).unwrap_or_default();
            self.value(Code::ScenarioId, &at, format!("the scenario `{id}` belongs in a file `{expected}`"));
        }
        if scenario.version == 0 {
            self.value(Code::Version, &top().key("version"), "versions count from 1");
        }
        if scenario.about.trim().is_empty() {
            self.value(Code::About, &top().key("about"), "say in a sentence what happens");
        }
        if scenario.server.is_some() != scenario.servers.is_empty() {
            let at = if scenario.server.is_some() { top().key("servers") } else { top() };
            self.key(Code::Servers, &at, "a scenario has either `server` or `servers`");
        }
        if let Some(twin) = &scenario.twin {
            let at = top().key("twin");
            if twin == id {
                self.value(Code::Twin, &at, "a scenario is not its own twin");
            } else if !ids.contains(twin) {
                let help = did_you_mean(twin, ids.iter().map(String::as_str));
                self.value_help(Code::Twin, &at, format!("there is no scenario `{twin}`"), help);
            }
        }
        if let Some(deadline) = scenario.deadline_ms
            && !DEADLINES.contains(&deadline)
        {
            let message = format!("a deadline is between {} and {} ms", DEADLINES.start(), DEADLINES.end());
            self.value(Code::Deadline, &top().key("deadline_ms"), message);
        }
        if scenario.judge.is_empty() {
            self.value(Code::NoChecks, &top().key("judge"), "a scenario has at least one check");
        }
    }

    /// Checks `where`, and returns what it comes to.
    pub(super) fn applies(&mut self) -> (Vec<Revision>, Vec<Transport>) {
        let applies = &self.scenario.applies;
        let at = top().key("where");
        let revisions = applies.revisions().unwrap_or_else(|why| {
            self.value(Code::Revisions, &at.key("revisions"), why);
            Revision::ALL.to_vec()
        });
        let transports = applies.transports().to_vec();
        for (n, transport) in applies.transports.iter().enumerate() {
            if !revisions.iter().any(|r| r.has_transport(*transport)) {
                let message = format!("none of the scenario's revisions has the transport {transport}");
                self.value(Code::Transports, &at.key("transports").index(n), message);
            }
        }
        for (n, feature) in applies.needs.iter().enumerate() {
            if !FEATURES.contains(&feature.as_str()) {
                let help = did_you_mean(feature, FEATURES)
                    .or_else(|| Some(format!("known are {}", FEATURES.join(", "))));
                let message = format!("`{feature}` is no feature of drivers");
                self.value_help(Code::UnknownFeature, &at.key("needs").index(n), message, help);
            }
        }
        for (n, text) in applies.promises.iter().enumerate() {
            self.needed_promise(text, &at.key("promises").index(n));
        }
        (revisions, transports)
    }

    pub(super) fn needed_promise(&mut self, text: &str, at: &Path) {
        let id = match NeededPromise::parse(text) {
            Ok(needed) => needed.id,
            Err(why) => return self.value(Code::PromiseValue, at, why),
        };
        if catalogue::promise(id).is_none() {
            let help = did_you_mean(id, catalogue::promises().map(|p| p.id.as_str()));
            self.value_help(Code::UnknownPromise, at, format!("`{id}` is no promise of the catalogue"), help);
        }
    }
}

/// Lower-case words with dashes.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.split('-').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

/// At least two words joined by dots.
fn is_id(text: &str) -> bool {
    text.contains('.') && text.split('.').all(is_word)
}

/// Whether a file at `relative` is the place for `id`: folders and name, joined by dots, are its id. A file that was
/// loaded without its folder only has to end like it.
fn file_fits(relative: &str, id: &str) -> bool {
    let named = relative.trim_end_matches(".yaml").replace('/', ".");
    id == named || !relative.contains('/') && id.strip_suffix(&named).is_some_and(|rest| rest.ends_with('.'))
}
