//! Which revision a message is spoken in, and what the stateless one asks of a request.
//!
//! A server that speaks 2026-07-28 beside earlier revisions takes each request that says its version for a stateless
//! one; `initialize` opens a conversation in a revision that both ends speak.

use super::headers;
use super::{Pending, Scope, ServerCore};
use crate::model::{RpcError, invalid_params};
use crate::script::{CacheHint, ResultMember};
use serde_json::{Map, Value, json};
use sparring_wire::jsonrpc::{Envelope, codes};
use sparring_wire::transcript::HttpRequest;
use sparring_wire::{Revision, meta};

/// What is known of the client of a conversation with a handshake.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// What was agreed on.
    pub(super) revision: Option<Revision>,
    pub(super) capabilities: Value,
}

/// Methods whose results carry caching hints.
pub(crate) const CACHEABLE: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// Methods that may be answered with `input_required`.
pub(crate) const ASKING: [&str; 3] = ["prompts/get", "resources/read", "tools/call"];

/// The params' `_meta` member of that name.
pub(super) fn meta_of<'a>(params: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    params?.get("_meta")?.get(name)
}

impl ServerCore {
    /// The revision of a message. `header` is the `MCP-Protocol-Version` of its HTTP request.
    pub(super) fn revision_for(
        &self,
        envelope: &Envelope,
        header: Option<&str>,
        session: Option<&str>,
    ) -> Revision {
        let Some(legacy) = self.model.newest_legacy() else { return Revision::STATELESS };
        if self.model.speaks_stateless() {
            let stateless = matches!(envelope.method(), Some("server/discover" | "subscriptions/listen"))
                || meta_of(envelope.params(), meta::PROTOCOL_VERSION).is_some()
                || header.is_some_and(|v| v >= Revision::STATELESS.as_str());
            if stateless && envelope.method() != Some("initialize") {
                return Revision::STATELESS;
            }
        }
        self.peer(session).and_then(|p| p.revision).unwrap_or(legacy)
    }

    /// The revision in which something is said where no request is at hand.
    pub(super) fn revision_of(&self, request: Option<&Pending>, scope: &Scope) -> Revision {
        request.map_or_else(
            || self.revision_for(&Envelope::Unknown, None, scope.session.as_deref()),
            |request| request.revision,
        )
    }

    /// The client of a conversation with a handshake; `None` if its session is gone.
    pub(super) fn peer(&self, session: Option<&str>) -> Option<&Peer> {
        match session {
            Some(session) => self.http.peer(session),
            None => Some(&self.stdio.peer),
        }
    }

    fn peer_mut(&mut self, session: Option<&str>) -> Option<&mut Peer> {
        match session {
            Some(session) => self.http.peer_mut(session),
            None => Some(&mut self.stdio.peer),
        }
    }

    /// Notes who opens a conversation with a handshake; the revision that the request is spoken in.
    pub(super) fn note_peer(
        &mut self,
        method: &str,
        params: Option<&Value>,
        revision: Revision,
        scope: &Scope,
    ) -> Revision {
        if revision.is_stateless() || method != "initialize" {
            return revision;
        }
        let member = |name: &str| params.and_then(|p| p.get(name));
        let wanted = member("protocolVersion").and_then(|v| v.as_str()?.parse::<Revision>().ok());
        let spoken = |r: &Revision| r.has_handshake() && self.model.speaks().contains(r);
        let agreed = wanted.filter(spoken).or_else(|| self.model.newest_legacy()).unwrap_or(revision);
        let capabilities = member("capabilities").cloned().unwrap_or_default();
        if let Some(peer) = self.peer_mut(scope.session.as_deref()) {
            *peer = Peer { revision: Some(agreed), capabilities };
        }
        agreed
    }

    /// What the client of a request has declared.
    pub(super) fn declared<'a>(&'a self, request: &'a Pending, scope: &Scope) -> &'a Value {
        static NONE: Value = Value::Null;
        if request.revision.is_stateless() {
            meta_of(request.params.as_ref(), meta::CLIENT_CAPABILITIES).unwrap_or(&NONE)
        } else {
            self.peer(scope.session.as_deref()).map_or(&NONE, |p| &p.capabilities)
        }
    }

    /// Why the stateless revision does not take a request. `http` is what it came in.
    pub(super) fn refusal(
        &self,
        method: &str,
        params: Option<&Value>,
        http: Option<&HttpRequest>,
    ) -> Option<RpcError> {
        let fields = params.and_then(|p| p.get("_meta")).unwrap_or(&Value::Null);
        let version = fields.get(meta::PROTOCOL_VERSION);
        if let Some(http) = http {
            match (headers::field(http, "mcp-protocol-version"), version.and_then(Value::as_str)) {
                (None, _) => {
                    let mut error = mismatch("MCP-Protocol-Version is missing");
                    error.message = format!("{}; spoken are {}", error.message, self.model.versions());
                    error.data = Some(json!({"supported": self.model.versions()}));
                    return Some(error);
                }
                (Some(header), Some(version)) if header != version => {
                    return Some(mismatch(format!(
                        "MCP-Protocol-Version is `{header}`, but the body says `{version}`"
                    )));
                }
                _ => {}
            }
        }
        let version = match version {
            // An old client is told what would do; it may show that to its user.
            None if method == "initialize" => {
                return Some(self.unsupported(params.and_then(|p| p["protocolVersion"].as_str())));
            }
            Some(Value::String(version)) => version,
            _ => return Some(invalid_params(format!("`_meta` has no string `{}`", meta::PROTOCOL_VERSION))),
        };
        if *version != Revision::STATELESS.as_str() {
            return Some(self.unsupported(Some(version)));
        }
        if !fields.get(meta::CLIENT_CAPABILITIES).is_some_and(Value::is_object) {
            return Some(invalid_params(format!("`_meta` has no object `{}`", meta::CLIENT_CAPABILITIES)));
        }
        if let Some(info) = fields.get(meta::CLIENT_INFO)
            && !(info["name"].is_string() && info["version"].is_string())
        {
            return Some(invalid_params(format!("`{}` lacks `name` or `version`", meta::CLIENT_INFO)));
        }
        if let Some(level) = fields.get(meta::LOG_LEVEL)
            && !level.as_str().is_some_and(|level| meta::LOG_LEVELS.contains(&level))
        {
            return Some(invalid_params(format!("`{}` is no level", meta::LOG_LEVEL)));
        }
        if let Some(http) = http {
            let schema = params
                .filter(|_| method == "tools/call")
                .and_then(|p| self.model.input_schema(p["name"].as_str()?, Revision::STATELESS));
            if let Err(why) = headers::check(http, method, params.unwrap_or(&Value::Null), schema.as_ref()) {
                return Some(mismatch(why));
            }
        }
        self.refuse_round(method, params.unwrap_or(&Value::Null))
    }

    fn unsupported(&self, requested: Option<&str>) -> RpcError {
        RpcError {
            code: codes::UNSUPPORTED_PROTOCOL_VERSION,
            message: format!("unsupported protocol version; spoken are {}", self.model.versions()),
            data: Some(json!({
                "supported": self.model.versions(),
                "requested": requested.unwrap_or_default(),
            })),
        }
    }

    /// The HTTP status of an answer; `None` for 200.
    pub(super) fn status_of(request: &Pending, answer: &Value) -> Option<u16> {
        let code = answer.get("error")?.get("code")?.as_i64()?;
        if !request.revision.is_stateless() {
            return None;
        }
        match code {
            codes::HEADER_MISMATCH
            | codes::MISSING_CLIENT_CAPABILITY
            | codes::UNSUPPORTED_PROTOCOL_VERSION => Some(400),
            codes::METHOD_NOT_FOUND => Some(404),
            _ if request.refused.as_ref().is_some_and(|r| r.code == code) => Some(400),
            _ => None,
        }
    }

    /// Adds what every result of the stateless revision has, where the result does not have it by itself.
    pub(super) fn dress(&self, request: &Pending, result: &mut Value) {
        if !request.revision.is_stateless() {
            return;
        }
        let hint = self.cache_hint(request);
        let Value::Object(result) = result else { return };
        let kind = result.entry("resultType").or_insert_with(|| "complete".into());
        if kind == "complete" && CACHEABLE.contains(&request.method.as_str()) {
            result.entry("ttlMs").or_insert_with(|| hint.ttl_ms.into());
            result.entry("cacheScope").or_insert_with(|| hint.scope.as_str().into());
        }
        let fields = result.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(fields) = fields {
            fields.entry(meta::SERVER_INFO).or_insert_with(|| self.model.info().clone());
        }
        for member in &request.leave_out {
            match member {
                ResultMember::ResultType => result.remove("resultType"),
                ResultMember::TtlMs => result.remove("ttlMs"),
                ResultMember::CacheScope => result.remove("cacheScope"),
                ResultMember::ServerInfo => match result.get_mut("_meta") {
                    Some(Value::Object(fields)) => fields.remove(meta::SERVER_INFO),
                    _ => None,
                },
            };
        }
        if result.get("_meta").is_some_and(|m| m == &json!({})) {
            result.remove("_meta");
        }
    }

    fn cache_hint(&self, request: &Pending) -> CacheHint {
        let page = || {
            let cursor = request.params.as_ref().and_then(|p| p.get("cursor"));
            let page = self.model.page_number(cursor, self.model.length_of(&request.method)).unwrap_or(0);
            u32::try_from(page + 1).unwrap_or(u32::MAX)
        };
        let fits = |hint: &&CacheHint| {
            hint.on.as_ref().is_none_or(|on| *on == request.method) && hint.page.is_none_or(|p| p == page())
        };
        self.script.caching.iter().find(fits).cloned().unwrap_or_default()
    }

    /// Whether a request may be sent a log message of this level.
    pub(super) fn wants_log(&self, request: Option<&Pending>, scope: &Scope, level: &str) -> bool {
        let rank = |level: &str| meta::LOG_LEVELS.iter().position(|l| *l == level);
        let Some(rank_of_it) = rank(level) else { return false };
        if self.revision_of(request, scope).is_stateless() {
            let asked = request.and_then(|r| meta_of(r.params.as_ref(), meta::LOG_LEVEL)?.as_str());
            asked.and_then(rank).is_some_and(|least| rank_of_it >= least)
        } else {
            self.level_of(scope.session.as_ref()).is_none_or(|least| rank_of_it >= least as usize)
        }
    }
}

fn mismatch(why: impl Into<String>) -> RpcError {
    RpcError::new(codes::HEADER_MISMATCH, format!("header mismatch: {}", why.into()))
}

/// What a client would have to declare to be asked this; `None` if `declared` has it.
pub(crate) fn missing_capability(method: &str, params: &Value, declared: &Value) -> Option<Value> {
    let has = |path: &[&str]| path.iter().try_fold(declared, |at, key| at.get(*key)).is_some();
    let (present, needed) = match method {
        "elicitation/create" if params["mode"] == "url" => {
            (has(&["elicitation", "url"]), json!({"elicitation": {"url": {}}}))
        }
        // `{}` stands for the form mode alone.
        "elicitation/create" => {
            let form = has(&["elicitation", "form"]) || !has(&["elicitation", "url"]);
            (has(&["elicitation"]) && form, json!({"elicitation": {"form": {}}}))
        }
        "sampling/createMessage" if ["tools", "toolChoice"].iter().any(|key| params.get(*key).is_some()) => {
            (has(&["sampling", "tools"]), json!({"sampling": {"tools": {}}}))
        }
        "sampling/createMessage" => (has(&["sampling"]), json!({"sampling": {}})),
        "roots/list" => (has(&["roots"]), json!({"roots": {}})),
        _ => (true, Value::Null),
    };
    (!present).then_some(needed)
}

/// The error for a request that takes a capability which its client has not declared.
pub(super) fn missing_client_capability(needed: Value) -> RpcError {
    RpcError {
        code: codes::MISSING_CLIENT_CAPABILITY,
        message: "missing required client capability".into(),
        data: Some(json!({"requiredCapabilities": needed})),
    }
}
