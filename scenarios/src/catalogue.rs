//! The requirements of the specification and the promises of host profiles, embedded in the program.

use schemars::JsonSchema;
use serde::Deserialize;
use sparring_wire::{Revision, Transport};
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

/// How binding a requirement is, in the words of RFC 2119.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, JsonSchema)]
pub enum RequirementLevel {
    /// MUST.
    #[serde(rename = "MUST")]
    Must,
    /// MUST NOT.
    #[serde(rename = "MUST NOT")]
    MustNot,
    /// SHOULD.
    #[serde(rename = "SHOULD")]
    Should,
    /// SHOULD NOT.
    #[serde(rename = "SHOULD NOT")]
    ShouldNot,
    /// MAY: recorded, never failed.
    #[serde(rename = "MAY")]
    May,
}

impl RequirementLevel {
    /// The word of the specification, such as `MUST NOT`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::MustNot => "MUST NOT",
            Self::Should => "SHOULD",
            Self::ShouldNot => "SHOULD NOT",
            Self::May => "MAY",
        }
    }
}

impl fmt::Display for RequirementLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// An entry of the requirement catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Its stable id: words with dashes, the area first.
    pub id: String,
    /// The area, such as `lifecycle` or `auth-token`.
    pub area: String,
    /// How binding it is.
    pub level: RequirementLevel,
    /// The revisions in which it holds at that level.
    pub revisions: Vec<Revision>,
    /// The transports on which it holds.
    pub transports: Vec<Transport>,
    /// The requirement in one or a few sentences. A marker in brackets at the start says where there is no sentence
    /// with a keyword in the specification.
    pub text: String,
    /// Where it stands, for the newest revision that has it: `<revision>/<page>#<heading>`, or a path in the
    /// specification's repository.
    pub source: String,
    /// How a server can see whether it is kept.
    pub observable: String,
    /// Whether a server has to do something unusual to see it.
    pub provoke: bool,
}

impl Requirement {
    /// Whether it holds in this revision on this transport. A transport that the revision does not define does not
    /// count.
    pub fn holds(&self, revision: Revision, transport: Transport) -> bool {
        revision.has_transport(transport)
            && self.revisions.contains(&revision)
            && self.transports.contains(&transport)
    }

    /// The page of the specification on the web.
    pub fn page_url(&self) -> String {
        page_url(&self.source)
    }
}

/// Something that the makers of a client can promise.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// The path of its field in the host profile, such as `naming.max_len`.
    pub id: String,
    /// What is promised, in one sentence.
    pub text: String,
}

/// The address of the page that `source` of a requirement names.
pub fn page_url(source: &str) -> String {
    const SITE: &str = "https://modelcontextprotocol.io";
    const REPOSITORY: &str = "https://github.com/modelcontextprotocol/modelcontextprotocol/blob/main";
    let first = source.split(['/', '#']).next().unwrap_or(source);
    if first.parse::<Revision>().is_ok() {
        format!("{SITE}/specification/{source}")
    } else if let Some(rest) = source.strip_prefix("docs/") {
        format!("{SITE}/docs/{rest}")
    } else if source.starts_with("extensions/") || source.starts_with("seps/") {
        format!("{SITE}/{source}")
    } else {
        format!("{REPOSITORY}/{source}")
    }
}

struct Catalogue<T> {
    entries: Vec<T>,
    by_id: HashMap<String, usize>,
}

impl<T> Catalogue<T> {
    fn new(entries: Vec<T>, id: impl Fn(&T) -> &str) -> Self {
        let by_id = entries.iter().enumerate().map(|(n, entry)| (id(entry).to_owned(), n)).collect();
        Self { entries, by_id }
    }

    fn get(&self, id: &str) -> Option<&T> {
        self.by_id.get(id).and_then(|&n| self.entries.get(n))
    }
}

fn requirement_catalogue() -> &'static Catalogue<Requirement> {
    static CATALOGUE: OnceLock<Catalogue<Requirement>> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        // The build script has read the YAML file, so that a run does not have to.
        let json = include_str!(concat!(env!("OUT_DIR"), "/requirements.json"));
        #[expect(clippy::expect_used, reason = "embedded; a test reads it")]
        Catalogue::new(
            serde_json::from_str(json).expect("the embedded catalogue is valid"),
            |r: &Requirement| &r.id,
        )
    })
}

fn promise_catalogue() -> &'static Catalogue<Promise> {
    static CATALOGUE: OnceLock<Catalogue<Promise>> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        let json = include_str!(concat!(env!("OUT_DIR"), "/promises.json"));
        #[expect(clippy::expect_used, reason = "embedded; a test reads it")]
        let said: Vec<Promise> = serde_json::from_str(json).expect("the embedded catalogue is valid");
        // Each field is a promise. Where nobody has said it as a sentence, the field says what it means.
        let fields = sparring_profiles::FIELDS.iter().filter(|field| field.is_promise());
        let mut entries: Vec<Promise> = fields
            .map(|field| {
                let sentence = said.iter().find(|promise| promise.id == field.id);
                sentence
                    .cloned()
                    .unwrap_or_else(|| Promise { id: field.id.into(), text: field.about.trim().into() })
            })
            .collect();
        let others = said.into_iter().filter(|promise| sparring_profiles::field(&promise.id).is_none());
        entries.extend(others);
        Catalogue::new(entries, |p: &Promise| &p.id)
    })
}

/// The requirement with this id.
pub fn requirement(id: &str) -> Option<&'static Requirement> {
    requirement_catalogue().get(id)
}

/// All requirements, in the order of the catalogue (by area).
pub fn requirements() -> impl Iterator<Item = &'static Requirement> {
    requirement_catalogue().entries.iter()
}

/// The promise with this id. Scenarios may name a value with it (`naming.max_len = 64`) or a part of a table
/// (`errors.codes.timeout`), which play no part here.
pub fn promise(id: &str) -> Option<&'static Promise> {
    let id = id.split(['=', '~', '!']).next().unwrap_or(id).trim();
    promise_catalogue().get(crate::profile::field_of(id))
}

/// All promises that scenarios and monitors can judge.
pub fn promises() -> impl Iterator<Item = &'static Promise> {
    promise_catalogue().entries.iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_catalogue_is_read_whole_and_its_ids_are_unique() {
        assert_eq!(requirements().count(), 681);
        let ids: HashSet<&str> = requirements().map(|r| r.id.as_str()).collect();
        assert_eq!(ids.len(), 681);
        let ids: HashSet<&str> = promises().map(|p| p.id.as_str()).collect();
        assert_eq!(ids.len(), promises().count());
    }

    #[test]
    fn entries_are_found_by_id() {
        let found = requirement("lifecycle-initialize-first").unwrap();
        assert_eq!(found.level, RequirementLevel::Must);
        assert!(found.holds(Revision::V2024_11_05, Transport::Stdio));
        // It is listed for http, but that revision has no such transport.
        assert!(!found.holds(Revision::V2024_11_05, Transport::Http));
        assert!(!found.holds(Revision::V2026_07_28, Transport::Stdio));
        assert!(requirement("no-such-thing").is_none());
        assert!(promise("naming.max_len").is_some());
        assert!(promise("driver.honest").is_some());
    }

    #[test]
    fn every_requirement_names_a_place_where_it_holds() {
        for entry in requirements() {
            let somewhere =
                entry.revisions.iter().any(|&r| entry.transports.iter().any(|&t| entry.holds(r, t)));
            // The legacy transport is kept by later revisions only as a way back to old servers.
            assert!(somewhere || entry.area == "legacy-sse", "{}", entry.id);
        }
    }

    #[test]
    fn sources_lead_to_pages() {
        assert_eq!(
            page_url("2025-11-25/basic/lifecycle#initialization"),
            "https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization"
        );
        assert!(page_url("schema/2025-11-25/schema.ts#Tool").starts_with("https://github.com/"));
        for entry in requirements() {
            assert!(entry.page_url().starts_with("https://"), "{}", entry.source);
        }
    }
}
