//! Authorization: the flow's requests, and where tokens go.

use super::{Findings, Monitor, Scope, monitor};
use crate::judge::redact::is_redacted;
use crate::judge::view::{self, View};
use serde_json::Value;
use sparring_mock_servers::auth::request::{self, Endpoint};
use sparring_wire::transcript::{HttpRole, What};
use std::collections::{HashMap, HashSet};

pub(super) const MONITORS: &[Monitor] = &[
    monitor(
        "auth.token-in-header",
        &["auth-token-bearer-header"],
        "a token was issued, and the client sends a request that carries it",
        "it stands in `Authorization: Bearer`",
        &["token-with-other-scheme"],
        token_in_header,
    ),
    monitor(
        "auth.token-not-in-query",
        &["auth-token-not-in-query"],
        "a token was issued",
        "no query has it",
        &["token-in-query"],
        token_not_in_query,
    ),
    monitor(
        "auth.token-with-every-request",
        &["auth-token-every-request"],
        "the server accepts a token, and the client goes on",
        "every later request of the session has one",
        &["no-token-on-get"],
        token_with_every_request,
    ),
    monitor(
        "auth.token-of-own-server",
        &["auth-token-only-from-own-server"],
        "the client sends a token to an MCP server that has an authorization server",
        "it is one that this authorization server issued",
        &["one-token-for-all-servers", "sends-refresh-token"],
        token_of_own_server,
    ),
    monitor(
        "auth.token-to-nobody-else",
        &["auth-token-redirect-not-followed-cross-origin"],
        "a token was issued, and the client sends a request to something else than its MCP server",
        "the request does not have it",
        &["takes-token-across-origins"],
        token_to_nobody_else,
    ),
    monitor(
        "auth.rejected-token-not-repeated",
        &["auth-token-401-after-expiry"],
        "a request with a token is answered 401",
        "it is not sent again with that token",
        &["repeats-dead-token"],
        rejected_token,
    ),
    monitor(
        "auth.refresh-rotation",
        &["auth-token-refresh-rotation"],
        "a refresh returns a new refresh token",
        "the next refresh uses that",
        &["keeps-first-refresh-token"],
        refresh_rotation,
    ),
    monitor(
        "auth.pkce",
        &["auth-pkce-used"],
        "the client starts an authorization, or redeems a code",
        "the former has `code_challenge`, the latter the `code_verifier` that fits it",
        &["omits-pkce", "verifier-of-another-flow"],
        pkce,
    ),
    monitor(
        "auth.pkce-s256",
        &["auth-pkce-s256"],
        "the client starts an authorization with a challenge",
        "`code_challenge_method` is S256",
        &["pkce-plain"],
        |scope| {
            authorizations(scope, |_, parameters| {
                view::parameter(parameters, "code_challenge")?;
                let method = view::parameter(parameters, "code_challenge_method").unwrap_or("plain");
                (method != "S256").then(|| format!("the challenge method is {method}"))
            })
        },
    ),
    monitor(
        "auth.pkce-verifier",
        &["auth-pkce-verifier-quality"],
        "the client redeems a code with a verifier",
        "it has 43 to 128 unreserved characters, and each authorization its own",
        &["short-verifier", "reuses-verifier"],
        pkce_verifier,
    ),
    monitor(
        "auth.state",
        &["auth-state-used"],
        "the client starts an authorization",
        "it has a `state`",
        &["omits-state"],
        |scope| authorizations(scope, |_, parameters| missing(parameters, "state")),
    ),
    monitor(
        "auth.response-type",
        &["auth-response-type-code"],
        "the client starts an authorization",
        "`response_type` is `code`",
        &["asks-implicit-grant"],
        |scope| {
            authorizations(scope, |_, parameters| {
                let found = view::parameter(parameters, "response_type");
                (found != Some("code")).then(|| format!("`response_type` is {}", found.unwrap_or("missing")))
            })
        },
    ),
    monitor(
        "auth.redirect-uri",
        &["auth-redirect-uri-localhost-or-https"],
        "the client starts an authorization with a redirect URI",
        "it is https, or http on loopback",
        &["registers-plain-http-redirect"],
        |scope| {
            authorizations(scope, |_, parameters| {
                let uri = view::parameter(parameters, "redirect_uri")?;
                (!request::is_allowed_redirect(uri)).then(|| format!("the redirect URI is {uri}"))
            })
        },
    ),
    monitor(
        "auth.resource-in-authorization",
        &["auth-resource-in-authorization-request"],
        "the client starts an authorization",
        "it has the `resource`",
        &["authorizes-without-resource"],
        |scope| authorizations(scope, |_, parameters| missing(parameters, "resource")),
    ),
    monitor(
        "auth.resource-in-token-request",
        &["auth-resource-in-token-request"],
        "the client redeems a code",
        "the request has the same `resource` as the authorization",
        &["exchanges-without-resource"],
        resource_in_token_request,
    ),
    monitor(
        "auth.resource-canonical",
        &["auth-resource-canonical"],
        "the client names a `resource`",
        "it is an absolute URI without fragment",
        &["resource-with-fragment"],
        resource_canonical,
    ),
    monitor(
        "auth.code-used-once",
        &["auth-sec-code-single-use"],
        "the client redeems a code",
        "no code is redeemed twice",
        &["sends-code-again"],
        code_used_once,
    ),
];

/// A token that an authorization server issued.
struct Issued<'v> {
    event: usize,
    server: &'v Option<String>,
    refresh: bool,
}

/// A request to start an authorization.
struct Authorization {
    event: usize,
    parameters: Vec<(String, String)>,
}

/// A request for a token, and what came of it.
struct TokenRequest<'v> {
    event: usize,
    server: &'v Option<String>,
    form: Vec<(String, String)>,
    answered: Option<usize>,
    status: Option<u16>,
    access: Option<String>,
    refresh: Option<String>,
    refused_with: Option<String>,
}

impl TokenRequest<'_> {
    fn grants(&self, kind: &str) -> bool {
        view::parameter(&self.form, "grant_type") == Some(kind)
    }
}

/// What the transcript shows of authorization.
struct Flow<'v> {
    /// By token; two servers may issue the same.
    tokens: HashMap<String, Vec<Issued<'v>>>,
    authorizations: Vec<Authorization>,
    token_requests: Vec<TokenRequest<'v>>,
    /// Which authorization a code of a server came from.
    codes: HashMap<(&'v Option<String>, String), usize>,
    /// Header values that the scenario gave to the client, so that they are its own to send.
    configured: HashSet<String>,
    /// Servers of which an authorization server was seen.
    guarded: HashSet<&'v Option<String>>,
}

impl<'v> Flow<'v> {
    fn of(view: &'v View<'_>) -> Self {
        let mut flow = Self {
            tokens: HashMap::new(),
            authorizations: Vec::new(),
            token_requests: Vec::new(),
            codes: HashMap::new(),
            configured: HashSet::new(),
            guarded: HashSet::new(),
        };
        for (event, seen) in view.events() {
            match &seen.what {
                What::StepStarted { arguments, .. } => {
                    let headers = arguments.get("headers").and_then(Value::as_object);
                    let values = headers.into_iter().flat_map(|headers| headers.values());
                    flow.configured.extend(values.filter_map(Value::as_str).map(str::to_owned));
                }
                What::HttpRequest(request) if request.role != HttpRole::Other => {
                    let answered = view.exchange(request.exchange).and_then(|e| e.response);
                    let response = view.http_response(request.exchange);
                    match Endpoint::of(request) {
                        Some(Endpoint::Authorization) => {
                            let mut parameters = view::form(view::query(&request.target));
                            if request.method == "POST" {
                                parameters.extend(view::form(&request.body));
                            }
                            let code =
                                response.and_then(|r| view::header(&r.headers, "location")).and_then(|to| {
                                    view::parameter(&view::form(view::query(to)), "code").map(str::to_owned)
                                });
                            if let Some(code) = code {
                                flow.codes.insert((&seen.server, code), flow.authorizations.len());
                            }
                            flow.authorizations.push(Authorization { event, parameters });
                        }
                        Some(Endpoint::Token) if request.method == "POST" => {
                            let body: Value = response
                                .and_then(|r| r.body.as_deref())
                                .and_then(|body| serde_json::from_str(body).ok())
                                .unwrap_or_default();
                            let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
                            let asked = TokenRequest {
                                event,
                                server: &seen.server,
                                form: view::form(&request.body),
                                answered,
                                status: response.map(|r| r.status),
                                access: text("access_token"),
                                refresh: text("refresh_token"),
                                refused_with: text("error"),
                            };
                            let issued = answered.unwrap_or(event);
                            for (token, refresh) in [(&asked.access, false), (&asked.refresh, true)] {
                                if let Some(token) = token.clone() {
                                    let entry = Issued { event: issued, server: &seen.server, refresh };
                                    flow.tokens.entry(token).or_default().push(entry);
                                }
                            }
                            flow.token_requests.push(asked);
                        }
                        _ => {}
                    }
                    if request.role == HttpRole::AuthorizationServer || Endpoint::of(request).is_some() {
                        flow.guarded.insert(&seen.server);
                    }
                }
                _ => {}
            }
        }
        flow
    }

    /// The access tokens that had been issued before an event.
    fn access_tokens(&self, before: usize) -> impl Iterator<Item = &str> {
        self.tokens
            .iter()
            .filter(move |(_, issued)| issued.iter().any(|i| !i.refresh && i.event < before))
            .map(|(token, _)| token.as_str())
    }

    /// The authorization that the code of a token request came from.
    fn authorization(&self, asked: &TokenRequest<'v>) -> Option<&Authorization> {
        let code = view::parameter(&asked.form, "code")?.to_owned();
        self.authorizations.get(*self.codes.get(&(asked.server, code))?)
    }

    fn redemptions(&self) -> impl Iterator<Item = &TokenRequest<'v>> {
        self.token_requests.iter().filter(|asked| asked.grants("authorization_code"))
    }
}

/// An access token that stands somewhere in a text.
fn leaked<'f>(flow: &'f Flow<'_>, before: usize, text: &str) -> Option<&'f str> {
    flow.access_tokens(before).find(|token| text.contains(token))
}

fn token_in_header(scope: &Scope<'_, '_>) -> Findings {
    /// Bodies beyond this are not searched.
    const SEARCHED: usize = 64 * 1024;
    let flow = Flow::of(scope.view);
    let mut findings = Findings::default();
    if flow.tokens.is_empty() {
        return findings;
    }
    for (event, request) in scope.all_requests() {
        if request::bearer_token(request).is_some_and(|token| flow.tokens.contains_key(token)) {
            findings.saw(event);
        } else if request::dpop_token(request).is_some_and(|token| flow.tokens.contains_key(token))
            && request.headers.iter().any(|(name, _)| name == "dpop")
        {
            // With a proof of possession the scheme is another one (RFC 9449 section 7.1), and not this rule's.
        } else {
            for (name, value) in &request.headers {
                if leaked(&flow, event, value).is_some() {
                    let name = crate::judge::pattern::field_name(name);
                    findings.against(&[event], format!("the token stands in {name}, but not as `Bearer`"));
                }
            }
            if request.body.len() <= SEARCHED && leaked(&flow, event, &request.body).is_some() {
                findings.against(&[event], "the token stands in the body");
            }
        }
    }
    findings
}

fn token_not_in_query(scope: &Scope<'_, '_>) -> Findings {
    let flow = Flow::of(scope.view);
    let mut findings = Findings::default();
    let Some(first) = flow.tokens.values().flatten().map(|issued| issued.event).min() else {
        return findings;
    };
    findings.saw(first);
    for (event, _, request) in scope.view.http_requests().filter(|(event, ..)| *event > first) {
        let query = view::form(view::query(&request.target));
        let leak =
            query.iter().any(|(name, value)| name == "access_token" || flow.tokens.contains_key(value));
        if leak {
            findings.against(&[event], "the query has a token");
        }
    }
    findings
}

fn token_with_every_request(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        let mut accepted = None;
        for (event, request) in scope.requests(conversation) {
            let exchange = scope.view.exchange(request.exchange);
            let status = scope.view.http_response(request.exchange).map_or(0, |r| r.status);
            let has_one = view::header(&request.headers, "authorization").is_some();
            if let Some(before) = accepted.filter(|&before| before < event) {
                findings.saw(event);
                if !has_one {
                    findings.against(&[before, event], "the request has no `Authorization`");
                }
            }
            // A refused token may be dropped, until there is a new one.
            if matches!(status, 401 | 403) {
                accepted = None;
            } else if has_one && (200..300).contains(&status) && accepted.is_none() {
                accepted = exchange.and_then(|e| e.response);
            }
        }
    }
    findings
}

fn token_of_own_server(scope: &Scope<'_, '_>) -> Findings {
    let flow = Flow::of(scope.view);
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        for (event, request) in scope.requests(conversation) {
            let Some(token) = request::bearer_token(request) else { continue };
            let value = view::header(&request.headers, "authorization").unwrap_or_default();
            let configured = flow.configured.contains(value) || flow.configured.contains(token);
            match flow.tokens.get(token) {
                _ if configured => {}
                Some(issued) => {
                    findings.saw(event);
                    match issued.iter().find(|i| *i.server == conversation.server).or_else(|| issued.first())
                    {
                        Some(i) if *i.server != conversation.server => {
                            findings.against(&[i.event, event], "the token was issued for another server");
                        }
                        Some(i) if i.refresh => {
                            findings.against(&[i.event, event], "a refresh token is sent as access token");
                        }
                        _ => {}
                    }
                }
                None if flow.guarded.contains(&conversation.server) => {
                    findings
                        .against(&[event], "the token was not issued by this server's authorization server");
                }
                None => {}
            }
        }
    }
    findings
}

fn token_to_nobody_else(scope: &Scope<'_, '_>) -> Findings {
    let flow = Flow::of(scope.view);
    let mut findings = Findings::default();
    for (event, _, request) in scope.view.http_requests().filter(|(_, _, r)| !view::is_endpoint(r)) {
        if flow.access_tokens(event).next().is_none() {
            continue;
        }
        findings.saw(event);
        let leak = request.headers.iter().any(|(_, value)| leaked(&flow, event, value).is_some())
            || (request.role == HttpRole::Other && leaked(&flow, event, &request.body).is_some());
        if leak {
            findings.against(&[event], "the request has the access token");
        }
    }
    findings
}

fn rejected_token(scope: &Scope<'_, '_>) -> Findings {
    let mut findings = Findings::default();
    for conversation in scope.conversations() {
        // What was refused: the token, and the body or the kind of request.
        let mut refused: HashMap<(&str, &str, &str), (usize, usize)> = HashMap::new();
        for (event, request) in scope.requests(conversation) {
            let Some(token) = request::bearer_token(request) else { continue };
            let key = (token, request.method.as_str(), request.body.as_str());
            if let Some(&(first, refusal)) = refused.get(&key)
                && event > refusal
            {
                findings.against(&[first, refusal, event], "the request is repeated with the refused token");
            }
            let refusal = scope.view.exchange(request.exchange).and_then(|e| e.response);
            if let Some(refusal) = refusal
                && scope.view.http_response(request.exchange).is_some_and(|r| r.status == 401)
            {
                findings.saw(refusal);
                // Two streams may be opened with one token; only messages are known to be the same.
                if request.method == "POST" {
                    refused.entry(key).or_insert((event, refusal));
                }
            }
        }
    }
    // An `initialize` opens a conversation each time it is sent.
    initialize_repeated(scope, &mut findings);
    findings
}

fn initialize_repeated(scope: &Scope<'_, '_>, findings: &mut Findings) {
    let mut refused: HashMap<(&Option<String>, &str, &str), (usize, usize)> = HashMap::new();
    for conversation in scope.conversations() {
        let Some((event, request)) = scope.requests(conversation).next() else { continue };
        let initializes = scope.view.messages_of(event).iter().any(|m| m.is_client_request("initialize"));
        let Some(token) = request::bearer_token(request).filter(|_| initializes) else { continue };
        let key = (&conversation.server, token, request.body.as_str());
        if let Some(&(first, refusal)) = refused.get(&key)
            && event > refusal
        {
            findings.against(&[first, refusal, event], "the request is repeated with the refused token");
        }
        if let Some(refusal) = scope.view.exchange(request.exchange).and_then(|e| e.response)
            && scope.view.http_response(request.exchange).is_some_and(|r| r.status == 401)
        {
            refused.entry(key).or_insert((event, refusal));
        }
    }
}

fn refresh_rotation(scope: &Scope<'_, '_>) -> Findings {
    let flow = Flow::of(scope.view);
    let mut findings = Findings::default();
    // A token that was replaced: when, and by which access token one can tell that the client has the answer.
    let mut replaced: HashMap<(&Option<String>, String), (usize, String)> = HashMap::new();
    let used_since = |access: &str, since: usize, before: usize| {
        scope.view.http_requests().any(|(event, _, request)| {
            event > since && event < before && request::bearer_token(request) == Some(access)
        })
    };
    for asked in flow.token_requests.iter().filter(|asked| asked.grants("refresh_token")) {
        let Some(token) = view::parameter(&asked.form, "refresh_token") else { continue };
        if let Some((since, access)) = replaced.get(&(asked.server, token.to_owned()))
            && asked.event > *since
            && used_since(access, *since, asked.event)
        {
            findings.against(&[*since, asked.event], "the replaced refresh token is used again");
        }
        if let (Some(answered), Some(access), Some(new)) = (asked.answered, &asked.access, &asked.refresh)
            && new != token
        {
            findings.saw(answered);
            replaced.entry((asked.server, token.to_owned())).or_insert_with(|| (answered, access.clone()));
        }
    }
    findings
}

fn missing(parameters: &[(String, String)], name: &str) -> Option<String> {
    let found = view::parameter(parameters, name).is_some_and(|value| !value.is_empty());
    (!found).then(|| format!("`{name}` is missing"))
}

/// Judges each request that starts an authorization.
fn authorizations(
    scope: &Scope<'_, '_>,
    wrong: impl Fn(&Flow<'_>, &[(String, String)]) -> Option<String>,
) -> Findings {
    let flow = Flow::of(scope.view);
    let mut findings = Findings::default();
    for authorization in &flow.authorizations {
        findings.saw(authorization.event);
        if let Some(why) = wrong(&flow, &authorization.parameters) {
            findings.against(&[authorization.event], why);
        }
    }
    findings
}

fn pkce(scope: &Scope<'_, '_>) -> Findings {
    let flow = Flow::of(scope.view);
    let mut findings = authorizations(scope, |_, parameters| missing(parameters, "code_challenge"));
    for asked in flow.redemptions() {
        findings.saw(asked.event);
        let Some(verifier) = view::parameter(&asked.form, "code_verifier") else {
            findings.against(&[asked.event], "`code_verifier` is missing");
            continue;
        };
        let Some(authorization) = flow.authorization(asked).filter(|_| !is_redacted(verifier)) else {
            continue;
        };
        let Some(challenge) = view::parameter(&authorization.parameters, "code_challenge") else { continue };
        let fits = match view::parameter(&authorization.parameters, "code_challenge_method") {
            Some("S256") => request::s256(verifier) == challenge,
            _ => verifier == challenge,
        };
        if !fits {
            findings.against(&[authorization.event, asked.event], "the verifier does not fit the challenge");
        }
    }
    findings
}

fn pkce_verifier(scope: &Scope<'_, '_>) -> Findings {
    let flow = Flow::of(scope.view);
    let mut findings = Findings::default();
    for asked in flow.redemptions() {
        let Some(verifier) = view::parameter(&asked.form, "code_verifier") else { continue };
        findings.saw(asked.event);
        if !is_redacted(verifier) && !request::is_verifier(verifier) {
            let length = verifier.len();
            findings.against(
                &[asked.event],
                format!("the verifier has {length} characters, or others than unreserved ones"),
            );
        }
    }
    // A browser may load an authorization URL twice; then everything in it is the same.
    let mut used: HashMap<&str, &Authorization> = HashMap::new();
    for authorization in &flow.authorizations {
        let Some(challenge) = view::parameter(&authorization.parameters, "code_challenge") else { continue };
        if let Some(before) = used.insert(challenge, authorization)
            && before.parameters != authorization.parameters
        {
            findings.against(&[before.event, authorization.event], "two authorizations have one challenge");
        }
    }
    findings
}

fn resource_in_token_request(scope: &Scope<'_, '_>) -> Findings {
    let flow = Flow::of(scope.view);
    let mut findings = Findings::default();
    for asked in flow.redemptions() {
        findings.saw(asked.event);
        let Some(resource) = view::parameter(&asked.form, "resource") else {
            findings.against(&[asked.event], "`resource` is missing");
            continue;
        };
        let Some(authorization) = flow.authorization(asked) else { continue };
        if let Some(before) = view::parameter(&authorization.parameters, "resource")
            && before != resource
            && !request::is_same_resource(before, resource)
        {
            findings.against(
                &[authorization.event, asked.event],
                format!("`resource` is {resource}; it was {before}"),
            );
        }
    }
    findings
}

fn resource_canonical(scope: &Scope<'_, '_>) -> Findings {
    let flow = Flow::of(scope.view);
    let mut findings = Findings::default();
    let named = flow
        .authorizations
        .iter()
        .map(|a| (a.event, &a.parameters))
        .chain(flow.token_requests.iter().map(|t| (t.event, &t.form)));
    for (event, parameters) in named {
        let Some(resource) = view::parameter(parameters, "resource") else { continue };
        findings.saw(event);
        let canonical = url::Url::parse(resource)
            .is_ok_and(|url| url.fragment().is_none() && !url.cannot_be_a_base() && resource.contains("://"));
        if !canonical {
            findings.against(&[event], format!("`resource` is {resource}"));
        }
    }
    findings
}

fn code_used_once(scope: &Scope<'_, '_>) -> Findings {
    let flow = Flow::of(scope.view);
    let mut findings = Findings::default();
    let mut used: HashMap<(&Option<String>, &str), &TokenRequest<'_>> = HashMap::new();
    for asked in flow.redemptions() {
        let Some(code) = view::parameter(&asked.form, "code") else { continue };
        findings.saw(asked.event);
        // A code that the server did not get to look at is not used up.
        let looked_at = |before: &TokenRequest<'_>| {
            before.status.is_some_and(|status| (200..300).contains(&status))
                || before.refused_with.as_deref() == Some("invalid_grant")
        };
        if let Some(before) = used.insert((asked.server, code), asked)
            && looked_at(before)
        {
            findings.against(&[before.event, asked.event], "the code is redeemed again");
        }
    }
    findings
}
