//! Tools that the model does not see at once, and how it comes to them.
//!
//! A deferred tool stands in a catalog only. The model searches ([`Search`]), and what it found is part of its
//! [`Conversation`], from which it is replayed. A found tool is called through a tool that dispatches, or joins the
//! list of tools, as [`FoundCall`] says.

mod catalog;
mod conversation;
mod levels;
mod own;
mod search;

pub use conversation::{Conversation, Exchange};
pub use levels::Levels;
pub use search::Search;

use crate::error::HostError;
use crate::model::{ModelTool, Route};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sparring_profiles::{
    Catalog, DisclosingSettings, Disclosure, FoundCall, InstructionsSettings, Level, Unfound,
};
use std::collections::{BTreeMap, BTreeSet};

/// Which tools are deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchMode {
    /// None.
    Full,
    /// All that can be.
    Lazy,
    /// None up to a threshold, all above it.
    Auto,
}

/// What a session chooses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DisclosureOptions {
    /// Which tools are deferred; as the host's settings say if missing.
    pub mode: Option<SearchMode>,
    /// With [`SearchMode::Auto`]: up to so many deferrable tools, none is deferred.
    pub auto_threshold: usize,
    /// Servers with a mode of their own.
    pub servers: BTreeMap<String, Disclosure>,
    /// Tools of the host's own that can be deferred too, by name.
    pub defer: BTreeSet<String>,
    /// Whether there is a tool that searches.
    pub tool: bool,
    /// How a found tool is called; as the settings say if missing.
    pub call: Option<FoundCall>,
    /// What the prompt shows of deferred tools; as the settings say if missing.
    pub catalog: Option<Catalog>,
    /// The forms in which tools are shown.
    pub levels: Levels,
}

impl Default for DisclosureOptions {
    fn default() -> Self {
        Self {
            mode: None,
            auto_threshold: 10,
            servers: BTreeMap::new(),
            defer: BTreeSet::new(),
            tool: true,
            call: None,
            catalog: None,
            levels: Levels::default(),
        }
    }
}

/// What disclosure is asked with.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The host's settings.
    pub settings: &'a DisclosingSettings,
    /// The session's choices.
    pub options: &'a DisclosureOptions,
    /// The tools that the session has.
    pub tools: &'a [ModelTool],
    /// What was found so far.
    pub conversation: &'a Conversation,
}

impl View<'_> {
    /// How a found tool is called.
    pub fn call(&self) -> FoundCall {
        self.options.call.unwrap_or(self.settings.call)
    }

    fn tool(&self, name: &str) -> Option<&ModelTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Decides what the model sees of its tools. The default is [`Progressive`].
pub trait DiscloseRules: Send + Sync {
    /// The names of the tools that are deferred, whether found or not.
    fn deferred(&self, view: &View<'_>) -> BTreeSet<String>;

    /// The names of the tools that a search finds, best first.
    fn search(&self, view: &View<'_>, deferred: &BTreeSet<String>, search: &Search) -> Vec<String>;

    /// The names of the tools that the conversation has found.
    fn found(&self, view: &View<'_>) -> BTreeSet<String>;

    /// Whether a call of a deferred tool is refused because it was not found before.
    fn refuses_unfound(&self, view: &View<'_>) -> bool;

    /// The form in which a tool is shown.
    fn level(&self, view: &View<'_>, tool: &ModelTool) -> Level;

    /// The whole definition of a tool.
    fn describe(&self, view: &View<'_>, tool: &ModelTool) -> Value;

    /// The text that stands for deferred tools in the prompt.
    fn catalog(&self, view: &View<'_>, deferred: &BTreeSet<String>) -> Option<String>;

    /// The tools of the host's own that there are now: those that search, dispatch and describe.
    fn own(&self, view: &View<'_>, deferred: &BTreeSet<String>) -> Vec<ModelTool>;

    /// What a call of the tool that dispatches means.
    ///
    /// # Errors
    /// It does not say what is meant, or means itself.
    fn unwrap(
        &self,
        view: &View<'_>,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Unwrapped, HostError>;

    /// What the model gets of a search that has found these tools.
    ///
    /// # Errors
    /// A failure, for the model.
    fn answer(
        &self,
        view: &View<'_>,
        search: &Search,
        found: Vec<Value>,
        names: &[String],
    ) -> Result<Value, String>;

    /// The text that stands for the instructions of servers, by name; those that have none say nothing.
    fn instructions(&self, settings: &InstructionsSettings, said: &[(String, String)]) -> Option<String>;
}

/// Disclosure as settings describe it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progressive;

impl Progressive {
    fn can_be_deferred(view: &View<'_>, tool: &ModelTool) -> bool {
        match &tool.route {
            Route::Tool { .. } => true,
            _ if tool.is_own() => false,
            _ => !view.settings.native_eager || view.options.defer.contains(&tool.name),
        }
    }
}

impl DiscloseRules for Progressive {
    fn deferred(&self, view: &View<'_>) -> BTreeSet<String> {
        let (settings, options) = (view.settings, view.options);
        let mode = match options.mode {
            Some(SearchMode::Auto) if !settings.auto => None,
            mode => mode,
        };
        let mode = mode.unwrap_or(match settings.default {
            Disclosure::Full => SearchMode::Full,
            Disclosure::Lazy => SearchMode::Lazy,
        });
        let of_server = |tool: &ModelTool| {
            let server = tool.server.as_ref().filter(|_| settings.per_server)?;
            options.servers.get(server).copied()
        };
        let deferred: BTreeSet<String> = view
            .tools
            .iter()
            .filter(|tool| Self::can_be_deferred(view, tool))
            .filter(|tool| of_server(tool).map_or(mode != SearchMode::Full, |own| own == Disclosure::Lazy))
            .map(|tool| tool.name.clone())
            .collect();
        match mode == SearchMode::Auto && deferred.len() <= options.auto_threshold {
            true => BTreeSet::new(),
            false => deferred,
        }
    }

    fn search(&self, view: &View<'_>, deferred: &BTreeSet<String>, search: &Search) -> Vec<String> {
        search.run(view, deferred)
    }

    fn found(&self, view: &View<'_>) -> BTreeSet<String> {
        view.conversation.found()
    }

    fn refuses_unfound(&self, view: &View<'_>) -> bool {
        view.settings.unfound == Unfound::Refused
    }

    fn level(&self, view: &View<'_>, tool: &ModelTool) -> Level {
        let level = view.options.levels.of(&tool.name);
        match tool.is_own() || !view.settings.levels.contains(&level) {
            true => Level::Full,
            false => level,
        }
    }

    fn describe(&self, _: &View<'_>, tool: &ModelTool) -> Value {
        levels::definition(tool, Level::Full)
    }

    fn catalog(&self, view: &View<'_>, deferred: &BTreeSet<String>) -> Option<String> {
        catalog::render(view, deferred)
    }

    fn own(&self, view: &View<'_>, deferred: &BTreeSet<String>) -> Vec<ModelTool> {
        let mut own = Vec::new();
        if !deferred.is_empty() {
            if view.options.tool {
                own.push(own::search(view.settings, view.call()));
            }
            if view.call() == FoundCall::Dispatch {
                own.push(own::dispatch(view.settings));
            }
        }
        if view.tools.iter().any(|tool| self.level(view, tool) != Level::Full) {
            own.push(own::describe(view.settings));
        }
        own
    }

    fn unwrap(
        &self,
        _: &View<'_>,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Unwrapped, HostError> {
        own::unwrap(name, arguments)
    }

    fn answer(
        &self,
        view: &View<'_>,
        search: &Search,
        found: Vec<Value>,
        names: &[String],
    ) -> Result<Value, String> {
        let mut answer = Map::new();
        answer.insert("tools".into(), found.into());
        let missing: Vec<&String> = search.names().iter().filter(|name| !names.contains(name)).collect();
        if !missing.is_empty() {
            answer.insert("notFound".into(), serde_json::json!(missing));
        }
        if !names.is_empty() && view.call() == FoundCall::Dispatch {
            let dispatch = &view.settings.dispatch_tool;
            answer.insert("hint".into(), format!("Call them through `{dispatch}`.").into());
        }
        Ok(Value::Object(answer))
    }

    fn instructions(&self, settings: &InstructionsSettings, said: &[(String, String)]) -> Option<String> {
        crate::prompt::instructions(settings, said)
    }
}

/// What a call means, after a tool that dispatches is taken away.
#[derive(Debug, Clone, PartialEq)]
pub struct Unwrapped {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Whether it came through the tool that dispatches.
    pub dispatched: bool,
}

/// A session's disclosure at one moment.
#[derive(Clone, Copy)]
pub struct Disclosing<'a> {
    /// The rules.
    pub rules: &'a dyn DiscloseRules,
    /// What they are asked with.
    pub view: View<'a>,
}

impl Disclosing<'_> {
    /// The tools of the host's own that there are now: those that search, dispatch and describe.
    pub fn own(&self) -> Vec<ModelTool> {
        self.rules.own(&self.view, &self.rules.deferred(&self.view))
    }

    /// What a tool of the host's own is, by its name.
    pub fn route(&self, name: &str) -> Option<Route> {
        // A tool can be described whether the model was shown all of it or not.
        match self.own().into_iter().find(|tool| tool.name == name) {
            Some(tool) => Some(tool.route),
            None if name == self.view.settings.describe_tool && self.view.tool(name).is_none() => {
                Some(Route::Describe)
            }
            None => None,
        }
    }

    /// The definitions that the model gets now, each in its form.
    pub fn definitions(&self) -> Vec<Value> {
        let view = &self.view;
        let mut hidden = self.rules.deferred(view);
        if view.call() == FoundCall::Unlock {
            let found = self.rules.found(view);
            hidden.retain(|name| !found.contains(name));
        }
        let own = self.own();
        let bound = view.tools.iter().filter(|tool| !hidden.contains(&tool.name));
        bound.chain(&own).map(|tool| levels::definition(tool, self.rules.level(view, tool))).collect()
    }

    /// The text that stands for deferred tools in the prompt; none without any.
    pub fn catalog(&self) -> Option<String> {
        let deferred = self.rules.deferred(&self.view);
        self.rules.catalog(&self.view, &deferred)
    }

    /// Takes the tool that dispatches away from a call. Everything that follows sees the tool that is meant.
    ///
    /// # Errors
    /// The call does not say what is meant, or means the tool that dispatches again.
    pub fn unwrap(&self, name: &str, arguments: Map<String, Value>) -> Result<Unwrapped, HostError> {
        if self.route(name) != Some(Route::Dispatch) {
            return Ok(Unwrapped { name: name.to_owned(), arguments, dispatched: false });
        }
        self.rules.unwrap(&self.view, name, arguments)
    }

    /// Whether a tool may be called as far as disclosure goes.
    ///
    /// # Errors
    /// It was not found before.
    pub fn admit(&self, name: &str) -> Result<(), HostError> {
        let view = &self.view;
        if self.rules.refuses_unfound(view)
            && self.rules.deferred(view).contains(name)
            && !self.rules.found(view).contains(name)
        {
            let why = match view.options.tool {
                true => format!("find it with `{}` first", view.settings.search_tool),
                false => "it was not found before".to_owned(),
            };
            return Err(HostError::Denied { tool: name.to_owned(), why });
        }
        Ok(())
    }

    /// Searches. The text for the model, and the names that were found.
    ///
    /// # Errors
    /// What is wrong with the arguments, for the model.
    pub fn search(&self, arguments: &Map<String, Value>) -> Result<(String, Vec<String>), String> {
        let view = &self.view;
        let search = Search::read(view.settings, arguments)?;
        let deferred = self.rules.deferred(view);
        let names = self.rules.search(view, &deferred, &search);
        let tools: Vec<Value> = names
            .iter()
            .filter_map(|name| view.tool(name))
            .map(|tool| self.rules.describe(view, tool))
            .collect();
        let answer = self.rules.answer(view, &search, tools, &names)?;
        Ok((answer.to_string(), names))
    }

    /// Describes a tool: the text for the model.
    ///
    /// # Errors
    /// What is wrong with the arguments, for the model.
    pub fn describe(&self, arguments: &Map<String, Value>) -> Result<String, String> {
        let Some(name) = arguments.get("tool").and_then(Value::as_str) else {
            return Err("`tool` is the name of a tool".to_owned());
        };
        match self.view.tool(name) {
            Some(tool) => Ok(self.rules.describe(&self.view, tool).to_string()),
            None => Err(format!("there is no tool {name:?}")),
        }
    }
}

#[cfg(test)]
mod tests;
