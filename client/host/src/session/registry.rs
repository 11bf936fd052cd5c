//! The tools that a session has, under their names.

use super::{Session, lock};
use crate::context::Context;
use crate::disclosure::{Conversation, Disclosing, DisclosureOptions, View};
use crate::entry::ServerEntry;
use crate::error::HostError;
use crate::filter::{ToolFilters, supplied};
use crate::model::{ModelTool, Route};
use crate::naming::{Claim, NameTable};
use crate::policy::{Standing, Visible, Withheld};
use crate::server::{cache_key, entries};
use crate::wrappers::Advertised;
use serde_json::{Value, json};
use sparring_client::{Connection, Entry, ListKind};
use sparring_profiles::{Settings, Visible as When};
use std::sync::Arc;

/// What a server has to do with tools.
#[derive(Clone)]
struct Source {
    advertised: Advertised,
    list: Arc<Vec<Entry>>,
}

/// All tools of all servers, under their names.
pub(super) struct Registry {
    /// What it was made of, to see whether that is still so.
    sources: Vec<Source>,
    settings: Arc<Settings>,
    /// The tools that have a name.
    pub(super) tools: Vec<ModelTool>,
    table: NameTable,
    /// From a claim to the place in `tools`.
    places: Vec<Option<usize>>,
}

impl Registry {
    /// The tool of that name, or of that other name.
    pub(super) fn find(&self, name: &str) -> Option<&ModelTool> {
        let place = self.places.get(self.table.find(name)?).copied()??;
        self.tools.get(place)
    }

    /// Servers that offer resources.
    pub(super) fn with_resources(&self) -> Vec<String> {
        let offering = self.sources.iter().filter(|source| source.advertised.resources);
        offering.map(|source| source.advertised.server.clone()).collect()
    }

    fn is_of(&self, sources: &[Source], settings: &Arc<Settings>) -> bool {
        Arc::ptr_eq(&self.settings, settings)
            && self.sources.len() == sources.len()
            && self
                .sources
                .iter()
                .zip(sources)
                .all(|(one, other)| one.advertised == other.advertised && Arc::ptr_eq(&one.list, &other.list))
    }
}

/// What holds for a session at one moment.
pub(super) struct Stage {
    visible: Visible,
    disclosure: DisclosureOptions,
    conversation: Conversation,
    /// The tools that the session has.
    pub(super) tools: Vec<ModelTool>,
}

impl Stage {
    pub(super) fn disclosing<'a>(&'a self, context: &'a Context, settings: &'a Settings) -> Disclosing<'a> {
        let view = View {
            settings: &settings.disclosure,
            options: &self.disclosure,
            tools: &self.tools,
            conversation: &self.conversation,
        };
        Disclosing { rules: &*context.parts.disclosure, view }
    }
}

impl Session {
    /// What holds now.
    pub(super) fn stage(&self, registry: &Registry) -> Stage {
        let visible = self.visible();
        let mut stage = Stage {
            disclosure: lock(&self.inner.disclosure).clone(),
            conversation: self.conversation(),
            tools: Vec::new(),
            visible,
        };
        let kept = registry.tools.iter().filter(|tool| self.withheld_by(&stage.visible, tool).is_none());
        stage.tools = kept.cloned().collect();
        stage
    }

    /// Why the model does not have a tool.
    pub(super) fn withheld(&self, tool: &ModelTool) -> Option<Withheld> {
        self.withheld_by(&self.visible(), tool)
    }

    fn withheld_by(&self, visible: &Visible, tool: &ModelTool) -> Option<Withheld> {
        let settings = self.settings();
        let rules = self.rules();
        let standing = Standing { settings: &settings.policy, rules: &rules };
        let policy = &self.context().parts.policy;
        policy.filtered(visible, tool, false).or_else(|| policy.withheld(&standing, tool))
    }

    /// The tools of the host's own that the session has: one that is restricted has not all of them.
    pub(super) fn own(&self, stage: &Stage, disclosing: &Disclosing<'_>) -> Vec<ModelTool> {
        let exempt = |tool: &ModelTool| match tool.route {
            // It calls only what the session has.
            Route::Dispatch => true,
            Route::Search => self.settings().disclosure.search_exempt,
            _ => false,
        };
        let own = disclosing.own().into_iter();
        let policy = &self.context().parts.policy;
        own.filter(|tool| policy.filtered(&stage.visible, tool, exempt(tool)).is_none()).collect()
    }

    /// The definitions that the model gets now.
    pub(super) fn shown(&self, stage: &Stage, disclosing: &Disclosing<'_>) -> Vec<Value> {
        let has = self.own(stage, disclosing);
        let is_missing = |name: &Value| {
            let own = disclosing.own();
            own.iter().any(|tool| *name == tool.name) && !has.iter().any(|tool| *name == tool.name)
        };
        let mut shown = disclosing.definitions();
        shown.retain(|tool| !tool.get("name").is_some_and(is_missing));
        shown
    }

    /// Makes the model see what is there.
    pub(super) fn rebuild(&self) {
        lock(&self.inner.view).clear();
    }

    /// What the model sees of a server: the list as it was when it was last made visible.
    fn seen(&self, entry: &ServerEntry) -> Arc<Vec<Entry>> {
        let latest = self.latest(entry);
        let at_once = self.settings().list_changed.visible == When::AtOnce;
        let mut view = lock(&self.inner.view);
        match (view.get(&entry.name), latest) {
            (Some(seen), _) if !at_once => Arc::clone(seen),
            (_, Some(latest)) => {
                view.insert(entry.name.clone(), Arc::clone(&latest));
                latest
            }
            (Some(seen), None) => Arc::clone(seen),
            (None, None) => Arc::default(),
        }
    }

    /// The tools of a server as last known: of the running one, of the last run, of the cache.
    pub(super) fn latest(&self, entry: &ServerEntry) -> Option<Arc<Vec<Entry>>> {
        let live = self.server(entry).and_then(|server| server.tools());
        live.or_else(|| supplied(&self.settings().discovery, entry).map(Arc::new)).or_else(|| {
            let key = cache_key(&self.inner.place, entry);
            let remembered = self.context().parts.cache.get(&key)?;
            let mut recalled = lock(&self.inner.recalled);
            // Made into entries once only, so that it is the same list as long as the same is remembered.
            match recalled.get(&entry.name).filter(|(from, _)| Arc::ptr_eq(from, &remembered)) {
                Some((_, tools)) => Some(Arc::clone(tools)),
                None => {
                    let tools = Arc::new(entries(&remembered));
                    recalled.insert(entry.name.clone(), (remembered, Arc::clone(&tools)));
                    Some(tools)
                }
            }
        })
    }

    fn source(&self, entry: &ServerEntry) -> Source {
        let capabilities = self.connection(&entry.name).and_then(|connection| connection.negotiated());
        let has =
            |name: &str| capabilities.as_ref().is_some_and(|known| known.capabilities.contains_key(name));
        Source {
            advertised: Advertised {
                server: entry.name.clone(),
                resources: has("resources"),
                prompts: has("prompts"),
            },
            list: self.seen(entry),
        }
    }

    /// All tools, under their names.
    ///
    /// # Errors
    /// If two claim one name, where that is a mistake of the configuration.
    pub(super) fn registry(&self) -> Result<Arc<Registry>, HostError> {
        let settings = self.settings();
        let configured = self.entries();
        let sources: Vec<Source> = configured.iter().map(|entry| self.source(entry)).collect();
        if let Some(known) =
            lock(&self.inner.registry).as_ref().filter(|known| known.is_of(&sources, &settings))
        {
            return Ok(Arc::clone(known));
        }
        let registry = Arc::new(self.compose(settings, &configured, sources)?);
        *lock(&self.inner.registry) = Some(Arc::clone(&registry));
        Ok(registry)
    }

    fn compose(
        &self,
        settings: Arc<Settings>,
        configured: &[ServerEntry],
        sources: Vec<Source>,
    ) -> Result<Registry, HostError> {
        let parts = &self.context().parts;
        let own = [
            &settings.disclosure.search_tool,
            &settings.disclosure.dispatch_tool,
            &settings.disclosure.describe_tool,
        ];
        let mut claims: Vec<Claim> = own.into_iter().map(|name| Claim::Own(name.clone())).collect();
        let mut tools: Vec<Option<ModelTool>> = vec![None; claims.len()];
        let advertised: Vec<Advertised> = sources.iter().map(|source| source.advertised.clone()).collect();
        for (claim, tool) in parts.wrappers.tools(&advertised) {
            claims.push(claim);
            tools.push(Some(tool));
        }
        for (entry, source) in configured.iter().zip(&sources) {
            let filters = ToolFilters::new(&settings.discovery, entry, parts.predicate.clone());
            for tool in source.list.iter().filter(|tool| filters.passes_raw(tool)) {
                claims.push(Claim::tool(&entry.name, &tool.key));
                tools.push(Some(self.model_tool(&entry.name, tool)));
            }
        }
        let composed = parts.naming.compose(&claims)?;
        for warning in &composed.warnings {
            self.context().warn_once(warning);
        }
        let table = NameTable::new(&*parts.naming, &claims, &composed.names);
        let filters: Vec<(&str, ToolFilters)> = configured
            .iter()
            .map(|entry| (entry.name.as_str(), ToolFilters::new(&settings.discovery, entry, None)))
            .collect();
        let passes = |tool: &ModelTool, name: &str| {
            let of = tool.raw().and(tool.server.as_deref());
            of.is_none_or(|server| filters.iter().any(|(n, f)| *n == server && f.passes_composed(name)))
        };
        let mut named = Vec::new();
        let mut places = Vec::new();
        for (tool, name) in tools.into_iter().zip(composed.names) {
            let tool = tool.zip(name).filter(|(tool, name)| passes(tool, name));
            places.push(tool.as_ref().map(|_| named.len()));
            named.extend(tool.map(|(tool, name)| ModelTool { name, ..tool }));
        }
        Ok(Registry { sources, settings, tools: named, table, places })
    }

    fn model_tool(&self, server: &str, tool: &Entry) -> ModelTool {
        let text = |member: &str| tool.json.get(member).and_then(Value::as_str).map(str::to_owned);
        let schema = tool.json.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object"}));
        ModelTool {
            name: String::new(),
            server: Some(server.to_owned()),
            route: Route::Tool { server: server.to_owned(), tool: tool.key.clone() },
            title: text("title"),
            description: text("description"),
            input_schema: self.context().parts.shaping.shape(&schema),
            output_schema: tool.json.get("outputSchema").cloned(),
            annotations: tool.json.get("annotations").cloned(),
        }
    }

    /// Whether a name looks like one of a server's tools, which are not known yet.
    pub(super) fn could_be_of(&self, name: &str, server: &str) -> bool {
        let probe = "x";
        let claim = Claim::tool(server, probe);
        let naming = &self.context().parts.naming;
        let composed = naming.compose(std::slice::from_ref(&claim)).map(|composed| composed.names);
        let composed = composed.unwrap_or_default().into_iter().flatten();
        composed.chain(naming.aliases(&claim)).any(|composed| match composed.rsplit_once(probe) {
            Some((before, after)) => name.starts_with(before) && name.ends_with(after),
            None => false,
        })
    }

    /// A call begins: lists that are known to have changed are read again, if that waits for calls, and the model sees
    /// what is there, if that does.
    pub(super) async fn catch_up(&self, servers: &[String], read: bool) {
        for server in servers {
            // What was never read, since the tools are supplied or there are none, can't be out of date.
            let was_read = |connection: &Connection| connection.cached(ListKind::Tools).is_some();
            if let Some(connection) = self.connection(server).filter(|it| read && was_read(it)) {
                // A list that can't be had leaves things as they are.
                drop(connection.known(ListKind::Tools).await);
            }
            if self.settings().list_changed.visible == When::NextCall {
                lock(&self.inner.view).remove(server);
            }
        }
    }
}
