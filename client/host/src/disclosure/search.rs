//! Searching deferred tools.

use super::View;
use crate::model::ModelTool;
use serde_json::{Map, Value};
use sparring_profiles::{DisclosingSettings, SearchForm};
use std::collections::BTreeSet;

/// A search, understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    query: Option<Query>,
    names: Vec<String>,
    server: Option<String>,
    limit: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Query {
    Substring(String),
    Keywords(Vec<String>),
}

impl Search {
    /// Reads the arguments of the tool that searches, as far as the host has them.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(settings: &DisclosingSettings, arguments: &Map<String, Value>) -> Result<Self, String> {
        let argument = |name: &str| {
            let known = settings.search_args.iter().any(|known| known == name);
            arguments.get(name).filter(|value| known && !value.is_null())
        };
        let string = |name: &str| match argument(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(format!("`{name}` is a string")),
        };
        let mut search = Self { limit: settings.search_limit as usize, ..Self::default() };
        if let Some(limit) = argument("limit") {
            let limit = limit.as_u64().filter(|limit| *limit > 0);
            search.limit =
                limit.and_then(|limit| limit.try_into().ok()).ok_or("`limit` is a whole number above 0")?;
        }
        if let Some(names) = argument("names") {
            let names: Option<Vec<String>> = names
                .as_array()
                .and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
            search.names = names.ok_or("`names` is a list of names")?;
        }
        search.server = string("server")?.map(str::to_owned);
        let has = |form| settings.search_forms.contains(&form);
        if let Some(query) = string("query")? {
            match query.trim_start().strip_prefix("select:").filter(|_| has(SearchForm::Select)) {
                Some(names) => {
                    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
                    search.names.extend(names.map(str::to_owned));
                }
                None if has(SearchForm::Keywords) => {
                    let words = query.split_whitespace().map(str::to_lowercase).collect();
                    search.query = Some(Query::Keywords(words));
                }
                None if has(SearchForm::Substring) => {
                    search.query = Some(Query::Substring(query.to_lowercase()));
                }
                None => return Err("`query` is `select:` and names, with commas between them".to_owned()),
            }
        }
        Ok(search)
    }

    /// The same search without a limit.
    #[must_use]
    pub fn unlimited(&self) -> Self {
        Self { limit: usize::MAX, ..self.clone() }
    }

    /// The same search among the tools of all servers.
    #[must_use]
    pub fn everywhere(&self) -> Self {
        Self { server: None, ..self.clone() }
    }

    /// The exact names asked for.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Hits, best first. Exact names come whatever the limit, in the order asked for.
    pub(super) fn run(&self, view: &View<'_>, deferred: &BTreeSet<String>) -> Vec<String> {
        let tools: Vec<&ModelTool> = view
            .tools
            .iter()
            .filter(|tool| deferred.contains(&tool.name))
            .filter(|tool| self.server.is_none() || tool.server == self.server)
            .collect();
        let mut hits: Vec<&ModelTool> = Vec::new();
        for name in &self.names {
            let named = |tool: &&&ModelTool| tool.name == *name;
            // A server's own name does where it is the only one.
            let mut raw = tools.iter().filter(|tool| tool.raw() == Some(name));
            let by_raw = || raw.next().filter(|_| raw.next().is_none());
            if let Some(tool) = tools.iter().find(named).or_else(by_raw)
                && !hits.iter().any(|hit| hit.name == tool.name)
            {
                hits.push(tool);
            }
        }
        if self.query.is_some() || self.names.is_empty() {
            let mut rest: Vec<(Rank, &ModelTool)> =
                tools.iter().filter_map(|tool| Some((self.rank(tool)?, *tool))).collect();
            // Stable: equals stay in the order of the list.
            rest.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
            let fresh: Vec<&ModelTool> = rest
                .into_iter()
                .map(|(_, tool)| tool)
                .filter(|tool| !hits.iter().any(|hit| hit.name == tool.name))
                .take(self.limit.saturating_sub(hits.len()))
                .collect();
            hits.extend(fresh);
        }
        hits.into_iter().map(|tool| tool.name.clone()).collect()
    }

    fn rank(&self, tool: &ModelTool) -> Option<Rank> {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_lowercase();
        let name = tool.name.to_lowercase();
        let about = format!("{} {}", text(&tool.title), text(&tool.description));
        match &self.query {
            None => Some(Rank::default()),
            Some(Query::Substring(part)) => (name.contains(part) || about.contains(part)).then(Rank::default),
            Some(Query::Keywords(words)) => {
                let scores: Vec<u32> =
                    words.iter().map(|word| score(word, &name, &about)).filter(|score| *score > 0).collect();
                (!scores.is_empty() || words.is_empty())
                    .then(|| Rank { words: scores.len(), score: scores.iter().sum() })
            }
        }
    }
}

/// How good a hit is: by the number of words that match, then by how well they do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    words: usize,
    score: u32,
}

/// How well a word fits a tool; 0: not at all. Typing errors are forgiven in words of four letters or more.
fn score(word: &str, name: &str, about: &str) -> u32 {
    let place = |text: &str, whole: u32, part: u32, near: u32| {
        let mut tokens = text.split(|c: char| !c.is_alphanumeric()).filter(|token| !token.is_empty());
        if tokens.clone().any(|token| token == word) {
            return whole;
        }
        if text.contains(word) {
            return part;
        }
        let far = match word.chars().count() {
            0..4 => return 0,
            4..8 => 1,
            _ => 2,
        };
        if tokens.any(|token| strsim::osa_distance(token, word) <= far) { near } else { 0 }
    };
    place(name, 10, 6, 4).max(place(about, 3, 2, 1))
}
