//! Calls, from the name that the model says to what it gets.

use super::Session;
use super::registry::Registry;
use crate::entry::ServerEntry;
use crate::error::HostError;
use crate::model::{ModelResult, ModelTool, Route};
use crate::policy::{Answer, Change, Decision, GatedCall, Question, Scope, Standing, Withheld};
use crate::pool::Share;
use crate::server::Wish;
use crate::wrappers::{self, concerned};
use serde_json::{Map, Value, json};
use sparring_client::{CallOptions, Connection};
use sparring_profiles::{AlwaysAllow, Connect, EventName, OnChange, RetryFailed, Trigger, Visible as When};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Session {
    /// Calls a tool by its composed name.
    ///
    /// # Errors
    /// [`HostError::NoTool`] if there is none; otherwise whatever keeps the result away. A failure that the tool itself
    /// reports is a [`ModelResult`].
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<ModelResult, HostError> {
        let result = self.called(name, arguments, options).await;
        result.map_err(|error| self.context().parts.redact.failure(error))
    }

    async fn called(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<ModelResult, HostError> {
        let settings = self.settings();
        if matches!(settings.startup.connect, Connect::FirstRun | Connect::Session | Connect::Launch) {
            self.bootstrap().await?;
        }
        let registry = self.registry()?;
        let stage = self.stage(&registry);
        let disclosing = stage.disclosing(self.context(), &settings);
        let meant = disclosing.unwrap(name, arguments)?;
        let (name, arguments, dispatched) = (meant.name, meant.arguments, meant.dispatched);
        let is_called = |own: &ModelTool| own.name == name;
        let own = disclosing.own();
        if let Some(own) = own.iter().find(|own| is_called(own))
            && !self.own(&stage, &disclosing).iter().any(is_called)
        {
            return Err(Withheld::NotAllowed.refusal(&own.name));
        }
        match disclosing.route(&name) {
            Some(Route::Search) => {
                return Ok(match disclosing.search(&arguments) {
                    Ok((text, found)) => {
                        super::lock(&self.inner.conversation).answered(found);
                        ModelResult::of_text(text)
                    }
                    Err(wrong) => ModelResult::of_failure(wrong),
                });
            }
            Some(Route::Describe) => {
                return Ok(match disclosing.describe(&arguments) {
                    Ok(text) => ModelResult::of_text(text),
                    Err(wrong) => ModelResult::of_failure(wrong),
                });
            }
            _ => {}
        }
        let (registry, tool) = self.look_up(registry, &name).await?;
        if let Some(withheld) = self.withheld(&tool) {
            return Err(withheld.refusal(&tool.name));
        }
        disclosing.admit(&tool.name)?;
        if dispatched {
            // The model got this schema from a search, so nobody has compared the arguments with it.
            sparring_client::schema::check(&tool.input_schema, &Value::Object(arguments.clone())).map_err(
                |error| HostError::Denied {
                    tool: tool.name.clone(),
                    why: format!("its arguments do not fit: {error}"),
                },
            )?;
        }
        let (arguments, seconds) = self.admit(&tool, arguments).await?;
        self.carry_out(&registry, &tool, arguments, seconds, options).await
    }

    /// The tool of a name. What is out of date, or was never started, is asked first.
    async fn look_up(
        &self,
        registry: Arc<Registry>,
        name: &str,
    ) -> Result<(Arc<Registry>, ModelTool), HostError> {
        let settings = self.settings();
        let late = settings.list_changed.tools == OnChange::BeforeNextCall;
        let known = registry.find(name).cloned();
        if let Some(tool) = known {
            let shows = late || settings.list_changed.visible == When::NextCall;
            let Some(server) = tool.server.clone().filter(|_| shows) else { return Ok((registry, tool)) };
            self.catch_up(&[server], late).await;
            // The server says by itself if the tool is gone.
            let registry = self.registry()?;
            return Ok((registry, tool));
        }
        let entries = self.entries();
        if late {
            let all: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
            self.catch_up(&all, true).await;
        }
        let starts = |entry: &ServerEntry| {
            let failed = self.server(entry).is_some_and(|server| server.has_failed());
            settings.startup.connect == Connect::FirstCall
                || (failed && settings.startup.retry_failed == RetryFailed::NextCall)
        };
        for entry in &entries {
            if self.could_be_of(name, &entry.name) && self.latest(entry).is_none() && starts(entry) {
                self.start(entry, Wish::Call).await?;
            }
        }
        let registry = self.registry()?;
        let tool = registry.find(name).cloned().ok_or_else(|| self.unknown(name))?;
        Ok((registry, tool))
    }

    /// Why there is no tool of that name: perhaps because its server could not be started.
    fn unknown(&self, name: &str) -> HostError {
        for entry in self.entries() {
            if let Some(known) = self.server(&entry)
                && let (_, Some(HostError::NeedsLogin { server })) = known.status()
                && self.could_be_of(name, &entry.name)
            {
                return HostError::NeedsLogin { server };
            }
        }
        let on = self.entries();
        let is_on = |server: &str| on.iter().any(|entry| entry.name == server);
        let configured = self.configured();
        let mut off = configured.iter().filter(|entry| !self.inner.without_servers && !is_on(&entry.name));
        if off.any(|entry| self.could_be_of(name, &entry.name)) {
            return HostError::Disabled(name.to_owned(), "its server is switched off".to_owned());
        }
        match on.iter().any(|entry| self.could_be_of(name, &entry.name)) {
            true => HostError::NoTool(name.to_owned()),
            false => self.unknown_server(name).unwrap_or_else(|| HostError::NoTool(name.to_owned())),
        }
    }

    /// That there is no such server, if the name reads like one of a tool of another server.
    fn unknown_server(&self, name: &str) -> Option<HostError> {
        let settings = self.settings();
        let (before, rest) = settings.naming.template.split_once("{server}")?;
        let (between, after) = rest.split_once("{tool}")?;
        let inner = name.strip_prefix(before)?.strip_suffix(after)?;
        let (server, _) = inner
            .split_once(between)
            .filter(|(server, tool)| !between.is_empty() && !server.is_empty() && !tool.is_empty())?;
        Some(HostError::NoServer(server.to_owned()))
    }

    /// Asks rules, gates, and the user. The arguments as they are sent, and the budget that the policy gives.
    async fn admit(
        &self,
        tool: &ModelTool,
        arguments: Map<String, Value>,
    ) -> Result<(Map<String, Value>, Option<f64>), HostError> {
        let (context, settings) = (self.context(), self.settings());
        let parts = &context.parts;
        let rules = self.rules();
        let standing = Standing { settings: &settings.policy, rules: &rules };
        let ruling = parts.policy.ruling(&standing, tool);
        let decision = parts.policy.decision(&standing, tool, &ruling, &arguments);
        if decision == Decision::Off {
            return Err(HostError::Disabled(tool.name.clone(), "its mode is `off`".to_owned()));
        }
        let denied = |why: String| HostError::Denied { tool: tool.name.clone(), why };
        let refused = super::lock(&self.inner.refused).clone();
        let call = GatedCall {
            tool: &tool.name,
            server: tool.server.as_deref(),
            arguments: &arguments,
            refused: &refused,
        };
        parts.gate.check(call).await.map_err(denied)?;
        let arguments = (parts.paths)(&settings, &self.inner.place).arguments(arguments)?;
        if decision == Decision::Ask {
            let question = Question {
                tool: tool.name.clone(),
                server: tool.server.clone(),
                arguments: arguments.clone(),
                rule: ruling.rule.clone(),
            };
            match parts.approver.ask(question).await {
                Answer::Approve => {}
                Answer::Always => self.always(tool)?,
                Answer::Deny(why) => return Err(denied(why)),
            }
        }
        Ok((arguments, ruling.timeout()))
    }

    /// Writes down that the user does not want to be asked again.
    fn always(&self, tool: &ModelTool) -> Result<(), HostError> {
        let settings = self.settings();
        let scope = match (settings.policy.always_allow, &tool.server) {
            (AlwaysAllow::All, _) => Scope::App,
            (AlwaysAllow::Server, Some(server)) => Scope::Server(server.clone()),
            (AlwaysAllow::Tool, _) | (AlwaysAllow::Server, None) => Scope::Tool(tool.name.clone()),
        };
        let modes = !settings.policy.default.contains_key("approval");
        let word = if modes { ("mode", "allow") } else { ("approval", "never") };
        let rule = Map::from_iter([(word.0.to_owned(), json!(word.1))]);
        self.context().keep_rule(&Change { scope, rule: Some(rule) })
    }

    async fn carry_out(
        &self,
        registry: &Registry,
        tool: &ModelTool,
        arguments: Map<String, Value>,
        policy: Option<f64>,
        options: CallOptions,
    ) -> Result<ModelResult, HostError> {
        let (context, settings) = (self.context(), self.settings());
        let told = |kind: EventName, fields: Vec<(&str, Value)>| {
            let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
            let named = std::iter::once(("tool".to_owned(), json!(tool.name)));
            context.emit(kind, tool.server.as_deref(), Some(self.inner.id), named.chain(fields));
        };
        told(EventName::ToolCall, vec![("arguments", json!(arguments))]);
        let result = match &tool.route {
            Route::Tool { server, tool: raw } => {
                self.call_server(server, raw, &tool.name, arguments, policy, options).await
            }
            _ => self.call_wrapper(registry, tool, arguments).await,
        };
        match &result {
            Ok(result) => told(EventName::ToolResult, vec![("ok", json!(!result.is_error))]),
            Err(error) => told(
                EventName::ToolResult,
                vec![("ok", json!(false)), ("error", json!(error.shown(&settings.errors)))],
            ),
        }
        result
    }

    /// A hold on a server that may be called.
    fn armed(&self, server: &str, name: &str) -> Result<Arc<Share>, HostError> {
        let share = self.share_of(server)?;
        let settings = self.settings();
        let manual = settings.restart.trigger == Trigger::Manual && share.server.restarts(&settings);
        if manual && !share.armed() {
            let why = "its server has ended, and is started again by hand or in a new session".to_owned();
            return Err(HostError::Disabled(name.to_owned(), why));
        }
        Ok(share)
    }

    async fn call_server(
        &self,
        server: &str,
        raw: &str,
        name: &str,
        arguments: Map<String, Value>,
        policy: Option<f64>,
        options: CallOptions,
    ) -> Result<ModelResult, HostError> {
        let share = self.armed(server, name)?;
        let mut options = self.budget(&share, raw, policy, options);
        if !self.settings().results.streams {
            options.progress = None;
        }
        let result = share.server.call(self.inner.id, raw, arguments, options).await?;
        let results = &self.context().parts.results;
        let result = result.into_json();
        let read = match results.wants(&result) {
            uris if uris.is_empty() => BTreeMap::new(),
            uris => self.fetch(server, uris).await,
        };
        results.map(result, &read)
    }

    /// Linked resources; what can't be read is missing.
    async fn fetch(&self, server: &str, uris: Vec<String>) -> BTreeMap<String, Value> {
        let mut read = BTreeMap::new();
        if let Some(connection) = self.connection(server) {
            for uri in uris {
                if let Ok(result) = connection.read(&uri).await {
                    read.insert(uri, result);
                }
            }
        }
        read
    }

    async fn call_wrapper(
        &self,
        registry: &Registry,
        tool: &ModelTool,
        arguments: Map<String, Value>,
    ) -> Result<ModelResult, HostError> {
        let offering = registry.with_resources();
        let servers: Vec<&str> = match &tool.route {
            Route::ListResources(None) => match concerned(None, &arguments, &offering) {
                Ok(one) if arguments.contains_key("server") => vec![one],
                Err(error) if arguments.contains_key("server") => return Err(error),
                _ => offering.iter().map(String::as_str).collect(),
            },
            Route::ListResources(own) | Route::ReadResource(own) => {
                vec![concerned(own.as_deref(), &arguments, &offering)?]
            }
            Route::ListPrompts(own) | Route::GetPrompt(own) => vec![own.as_str()],
            _ => return Err(HostError::NoTool(tool.name.clone())),
        };
        let mut connections: Vec<Connection> = Vec::new();
        for server in &servers {
            match self.armed(server, &tool.name)?.server.ready(Wish::Call).await {
                Ok((connection, _)) => connections.push(connection),
                Err(error) if servers.len() == 1 => return Err(error),
                // One that fails does not take the others' along.
                Err(_) => {}
            }
        }
        let parts = &self.context().parts;
        let mut result = wrappers::call(&*parts.wrappers, &tool.route, &arguments, &connections).await?;
        match &tool.route {
            Route::ReadResource(_) => parts.results.limit_read(&mut result),
            _ => parts.results.limit(&mut result),
        }
        Ok(result)
    }

    /// The time that a call may take.
    fn budget(&self, share: &Share, raw: &str, policy: Option<f64>, mut options: CallOptions) -> CallOptions {
        let (context, settings) = (self.context(), self.settings());
        // What the policy says of all tools is the host's budget, which has a setting of its own.
        let of_all = settings.policy.default.get("timeout").and_then(Value::as_f64);
        let policy = policy.filter(|seconds| of_all != Some(*seconds));
        let per_tool = share.entry.per_tool_timeout.get(raw).copied().or(policy);
        let per_tool = per_tool.filter(|_| settings.timeouts.per_tool);
        let seconds = per_tool.or(share.entry.tool_timeout).unwrap_or(settings.timeouts.tool_s);
        let wait = context.parts.clock.seconds(seconds);
        options.request.timeout = options.request.timeout.or(Some(wait));
        options
    }
}
