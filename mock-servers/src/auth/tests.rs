//! The flow from end to end, against a client written out by hand; each fault; each check.

use super::request::{self, Endpoint, s256};
use super::*;
use crate::script::{
    AuthFault, ChallengeStyle, ClientAuthentication, DpopNonce, DpopScript, GrantType, IdentityProvider,
    PreregisteredClient, ResourceMetadataPlace, SecondServer, ServerMetadataPlace, Workload,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use url::{Url, form_urlencoded};

mod dpop;
mod faults;
mod grants;
mod in_core;
mod places;
mod refusals;

const RESOURCE: &str = "http://127.0.0.1:1001/v1/mcp";
const RESOURCE_ORIGIN: &str = "http://127.0.0.1:1001";
const AUTHORIZATION: &str = "http://127.0.0.1:2002";
const CALLBACK: &str = "http://127.0.0.1:3003/callback";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const REVISIONS: [Revision; 4] =
    [Revision::V2025_03_26, Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28];

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
}

fn form(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn http(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> HttpRequest {
    HttpRequest {
        method: method.into(),
        target: request::split_origin(url).1.into(),
        headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        body: body.into(),
        ..HttpRequest::default()
    }
}

/// A reader of `WWW-Authenticate` by the grammar of RFC 9110: the parameters of the Bearer challenge.
fn bearer_challenge(answer: &Answer) -> Option<BTreeMap<String, String>> {
    let mut found = None;
    for (_, field) in answer.headers.iter().filter(|(name, _)| name == "www-authenticate") {
        let mut rest = field.as_str();
        let mut scheme = String::new();
        loop {
            rest = rest.trim_start_matches([' ', ',']);
            if rest.is_empty() {
                break;
            }
            let end = rest.find([' ', ',', '=']).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let Some(value) = after.trim_start().strip_prefix('=') else {
                scheme = word.to_ascii_lowercase();
                if matches!(scheme.as_str(), "bearer" | "dpop") {
                    assert!(found.replace(BTreeMap::new()).is_none(), "two challenges");
                }
                rest = after;
                continue;
            };
            let value = value.trim_start();
            let mut text = String::new();
            if let Some(quoted) = value.strip_prefix('"') {
                let mut characters = quoted.char_indices();
                rest = loop {
                    match characters.next().expect("a closing quote") {
                        (at, '"') => break &quoted[at + 1..],
                        (_, '\\') => text.push(characters.next().expect("a quoted pair").1),
                        (_, c) => text.push(c),
                    }
                };
            } else {
                let end = value.find([' ', ',']).unwrap_or(value.len());
                text.push_str(&value[..end]);
                rest = &value[end..];
            }
            if matches!(scheme.as_str(), "bearer" | "dpop") {
                found.as_mut().expect("begun").insert(word.to_ascii_lowercase(), text);
            }
        }
    }
    found
}

/// A client with the state of one flow. Each exchange is noted with a label.
struct Client {
    server: AuthServer,
    revision: Revision,
    now: Duration,
    exchanges: Vec<(String, Answer)>,
    preset: Option<(String, Option<String>)>,
}

#[derive(Debug, Clone, Default)]
struct Known {
    authorize: String,
    token: String,
    register: Option<String>,
    client_id: String,
    secret: Option<String>,
    method: &'static str,
    resource: Option<String>,
}

impl Client {
    fn new(script: &AuthScript, revision: Revision) -> Self {
        let server = AuthServer::new(script.clone(), revision, RESOURCE.into(), AUTHORIZATION.into(), 7);
        Self { server, revision, now: Duration::ZERO, exchanges: Vec::new(), preset: None }
    }

    fn note(&mut self, label: &str, answer: &Answer) {
        self.exchanges.push((label.to_owned(), answer.clone()));
    }

    /// Sends a request to where its URL points, as the transport would.
    fn send(&mut self, request: &HttpRequest, url: &str) -> Answer {
        let origin = request::split_origin(url).0;
        if origin == RESOURCE_ORIGIN {
            if let Some(answer) = self.server.resource_metadata(request) {
                return answer;
            }
            if !self.server.serves_on_resource_origin() {
                return Answer::not_found();
            }
        } else if ["http://127.0.0.1:9", "http://169.254.169.254"].contains(&origin) {
            // Where some faults send a client.
            return Answer::text(502, "nobody is there");
        } else {
            assert_eq!(origin, AUTHORIZATION, "a request to elsewhere: {url}");
            assert!(!self.server.serves_on_resource_origin(), "the listener is not used");
        }
        self.server.handle(request, self.now)
    }

    fn get(&mut self, label: &str, url: &str) -> Answer {
        let answer = self.send(&http("GET", url, &[], ""), url);
        self.note(label, &answer);
        answer
    }

    fn rpc(&mut self, label: &str, method: &str, token: Option<&str>) -> Result<(), Answer> {
        let value = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = value.iter().map(|value| ("authorization", value.as_str())).collect();
        let outcome = self.server.admit(&http("POST", RESOURCE, &headers, "{}"), Some(method), self.now);
        let answer = outcome.clone().err().unwrap_or_else(|| Answer::text(200, "let through"));
        self.note(label, &answer);
        outcome
    }

    /// Finds everything, as the revision has it, and registers.
    fn discover(&mut self) -> Option<Known> {
        let refused = self.rpc("401", "initialize", None).expect_err("no token");
        assert_eq!(refused.status, 401);
        let challenge = bearer_challenge(&refused).unwrap_or_default();
        assert!(!challenge.contains_key("error"), "no attempt, no error: {challenge:?}");

        let mut issuer = RESOURCE_ORIGIN.to_owned();
        let mut resource = None;
        if self.revision >= Revision::V2025_06_18 {
            let places = match challenge.get("resource_metadata") {
                Some(place) => vec![place.clone()],
                None => vec![
                    format!("{RESOURCE_ORIGIN}/.well-known/oauth-protected-resource/v1/mcp"),
                    format!("{RESOURCE_ORIGIN}/.well-known/oauth-protected-resource"),
                ],
            };
            resource = Some(RESOURCE.to_owned());
            for place in places {
                let answer = self.get("resource metadata", &place);
                if answer.status == 200 {
                    let document: Value = serde_json::from_str(&answer.body).ok()?;
                    issuer = document["authorization_servers"][0].as_str()?.to_owned();
                    resource = Some(document["resource"].as_str()?.to_owned());
                    break;
                }
            }
        }

        let (origin, path) = request::split_origin(&issuer);
        let (origin, path) = (origin.to_owned(), path.to_owned());
        let mut document = None;
        for place in [
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
            format!("{origin}{path}/.well-known/openid-configuration"),
        ] {
            let answer = self.get("server metadata", &place);
            if answer.status == 200 {
                document = Some(serde_json::from_str::<Value>(&answer.body).ok()?);
                break;
            }
        }
        let mut known = Known { resource, ..Known::default() };
        let endpoint = |name: &str| match &document {
            Some(document) => document[name].as_str().map(str::to_owned),
            None => Some(format!("{origin}/{}", &name[..name.find('_').unwrap()])),
        };
        known.authorize = endpoint("authorization_endpoint")?.replace("authorization", "authorize");
        known.token = endpoint("token_endpoint")?;
        known.register = endpoint("registration_endpoint").map(|url| url.replace("registration", "register"));
        if let Some(document) = &document {
            // The faithful issuer; faults of the metadata are looked at elsewhere.
            let slash = format!("{issuer}/");
            let issuers = [issuer.as_str(), OTHER_ISSUER, &slash];
            assert!(issuers.contains(&document["issuer"].as_str().unwrap()));
        }

        if let Some((id, secret)) = self.preset.clone() {
            known.method = if secret.is_some() { "client_secret_basic" } else { "none" };
            if let Some(methods) = document.as_ref().map(|d| &d["token_endpoint_auth_methods_supported"])
                && methods[0] == "client_secret_post"
            {
                known.method = "client_secret_post";
            }
            (known.client_id, known.secret) = (id, secret);
            return Some(known);
        }
        let register = known.register.clone().expect("registration");
        let body = json!({ "client_name": "by hand", "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "none" });
        let sent = http("POST", &register, &[("content-type", "application/json")], &body.to_string());
        let answer = self.send(&sent, &register);
        self.note("register", &answer);
        let registered: Value = serde_json::from_str(&answer.body).ok()?;
        known.client_id = registered["client_id"].as_str()?.to_owned();
        known.secret = registered["client_secret"].as_str().map(str::to_owned);
        known.method = match registered["token_endpoint_auth_method"].as_str().unwrap() {
            "none" => "none",
            "client_secret_basic" => "client_secret_basic",
            "client_secret_post" => "client_secret_post",
            other => panic!("{other}"),
        };
        Some(known)
    }

    /// The faithful authorization request, with changes: a value, or `None` for a parameter that is left out.
    fn authorize(&mut self, known: &Known, changes: &[(&str, Option<&str>)]) -> Answer {
        let challenge = s256(VERIFIER);
        let mut pairs = vec![
            ("response_type", Some("code")),
            ("client_id", Some(known.client_id.as_str())),
            ("redirect_uri", Some(CALLBACK)),
            ("code_challenge", Some(challenge.as_str())),
            ("code_challenge_method", Some("S256")),
            ("state", Some("the state & more")),
            ("resource", known.resource.as_deref()),
        ];
        change(&mut pairs, changes);
        let pairs: Vec<_> = pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let separator = if known.authorize.contains('?') { '&' } else { '?' };
        let url = format!("{}{separator}{}", known.authorize, form(&pairs));
        self.get("authorize", &url)
    }

    fn post_token(&mut self, known: &Known, pairs: &[(&str, Option<&str>)], label: &str) -> Answer {
        let mut pairs: Vec<_> = pairs.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
        let basic = form(&[(known.client_id.as_str(), known.secret.as_deref().unwrap_or_default())])
            .replacen('=', ":", 1);
        let basic = format!("Basic {}", BASE64_STANDARD.encode(basic));
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
        match known.method {
            "client_secret_basic" => headers.push(("authorization", &basic)),
            "client_secret_post" => {
                pairs.push(("client_id", &known.client_id));
                pairs.push(("client_secret", known.secret.as_deref().unwrap_or_default()));
            }
            _ => pairs.push(("client_id", &known.client_id)),
        }
        let sent = http("POST", &known.token, &headers, &form(&pairs));
        let answer = self.send(&sent, &known.token);
        self.note(label, &answer);
        answer
    }

    fn redeem(&mut self, known: &Known, code: &str, changes: &[(&str, Option<&str>)]) -> Answer {
        let mut pairs = vec![
            ("grant_type", Some("authorization_code")),
            ("code", Some(code)),
            ("redirect_uri", Some(CALLBACK)),
            ("code_verifier", Some(VERIFIER)),
            ("resource", known.resource.as_deref()),
        ];
        change(&mut pairs, changes);
        self.post_token(known, &pairs, "token")
    }

    fn refresh(&mut self, known: &Known, token: &str, changes: &[(&str, Option<&str>)]) -> Answer {
        let mut pairs = vec![
            ("grant_type", Some("refresh_token")),
            ("refresh_token", Some(token)),
            ("resource", known.resource.as_deref()),
        ];
        change(&mut pairs, changes);
        self.post_token(known, &pairs, "refresh")
    }

    /// Discovery, registration, authorization: a code to redeem.
    fn code(&mut self, changes: &[(&str, Option<&str>)]) -> (Known, String) {
        let known = self.discover().unwrap();
        let answer = self.authorize(&known, changes);
        let code = location(&answer).remove("code").unwrap_or_else(|| panic!("{answer:?}"));
        (known, code)
    }

    /// All of it: a token answer.
    fn tokens(&mut self) -> (Known, Value) {
        let (known, code) = self.code(&[]);
        let answer = self.redeem(&known, &code, &[]);
        assert_eq!(answer.status, 200, "{answer:?}");
        (known, serde_json::from_str(&answer.body).unwrap())
    }
}

fn change<'a>(pairs: &mut Vec<(&'a str, Option<&'a str>)>, changes: &[(&'a str, Option<&'a str>)]) {
    for (name, value) in changes {
        match pairs.iter_mut().find(|(existing, _)| existing == name) {
            Some(pair) => pair.1 = *value,
            None => pairs.push((name, *value)),
        }
    }
}

/// The parameters of a redirect to the callback.
fn location(answer: &Answer) -> BTreeMap<String, String> {
    assert_eq!(answer.status, 302, "{answer:?}");
    let url = header(answer, "location").unwrap();
    assert!(url.starts_with(&format!("{CALLBACK}?")), "{url}");
    Url::parse(url).unwrap().query_pairs().into_owned().collect()
}

fn error_of(answer: &Answer) -> String {
    let document: Value = serde_json::from_str(&answer.body).unwrap();
    document["error"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

fn token_of(tokens: &Value) -> &str {
    tokens["access_token"].as_str().unwrap()
}

// ---- the flow ----

#[test]
fn the_whole_flow_works_for_each_place_and_revision() {
    let mut flows = BTreeSet::new();
    for revision in REVISIONS {
        for resource_metadata in [
            ResourceMetadataPlace::HeaderAndPath,
            ResourceMetadataPlace::Path,
            ResourceMetadataPlace::Root,
            ResourceMetadataPlace::HeaderOnly,
            ResourceMetadataPlace::None,
        ] {
            for server_metadata in [
                ServerMetadataPlace::Oauth,
                ServerMetadataPlace::Openid,
                ServerMetadataPlace::OpenidAppended,
                ServerMetadataPlace::None,
            ] {
                for issuer_path in [None, Some("/tenant1".to_owned())] {
                    let script = AuthScript {
                        resource_metadata,
                        server_metadata,
                        issuer_path: issuer_path.clone(),
                        refresh: true,
                        ..AuthScript::default()
                    };
                    let mut client = Client::new(&script, revision);
                    let at_origin =
                        revision == Revision::V2025_03_26 || resource_metadata == ResourceMetadataPlace::None;
                    assert_eq!(client.server.serves_on_resource_origin(), at_origin);
                    let (known, code) = client.code(&[]);
                    let redirect = location(&client.exchanges.last().unwrap().1);
                    assert_eq!(redirect["state"], "the state & more");
                    let issuer = if at_origin {
                        RESOURCE_ORIGIN.to_owned()
                    } else {
                        format!("{AUTHORIZATION}{}", issuer_path.as_deref().unwrap_or_default())
                    };
                    // Who has no metadata knows no issuer.
                    let told = (server_metadata != ServerMetadataPlace::None).then_some(issuer);
                    assert_eq!(redirect.get("iss").map(String::as_str), told.as_deref());
                    let answer = client.redeem(&known, &code, &[]);
                    assert_eq!(header(&answer, "cache-control"), Some("no-store"));
                    let tokens: Value = serde_json::from_str(&answer.body).unwrap();
                    assert!(code.starts_with("code-") && token_of(&tokens).starts_with("at-"), "{tokens}");
                    assert!(tokens["refresh_token"].as_str().unwrap().starts_with("rt-"), "{tokens}");
                    assert_eq!(
                        (&tokens["token_type"], &tokens["expires_in"]),
                        (&json!("Bearer"), &json!(3600))
                    );
                    client.rpc("use", "tools/call", Some(token_of(&tokens))).unwrap();
                    let again = client.refresh(&known, tokens["refresh_token"].as_str().unwrap(), &[]);
                    let again: Value = serde_json::from_str(&again.body).unwrap();
                    assert_ne!(token_of(&again), token_of(&tokens));
                    client.rpc("use", "ping", Some(token_of(&again))).unwrap();
                    let path: Vec<_> = client
                        .exchanges
                        .iter()
                        .map(|(label, answer)| format!("{label} {}", answer.status))
                        .collect();
                    flows.insert(path.join(", "));
                }
            }
        }
    }
    // Places differ in what is asked for before the first 200, in nothing else. Resource metadata is found at once,
    // second, nowhere, or not looked for; server metadata first, second, third or nowhere, third only where the issuer
    // has a path, which it has not at the resource's origin.
    assert_eq!(flows.len(), 2 * 4 + 2 * 3, "{flows:#?}");
}

#[test]
fn metadata_stands_at_one_place_only() {
    for (place, path, resource) in [
        (ResourceMetadataPlace::HeaderAndPath, "/.well-known/oauth-protected-resource/v1/mcp", RESOURCE),
        (ResourceMetadataPlace::Path, "/.well-known/oauth-protected-resource/v1/mcp", RESOURCE),
        (ResourceMetadataPlace::Root, "/.well-known/oauth-protected-resource", RESOURCE_ORIGIN),
        (ResourceMetadataPlace::HeaderOnly, request::UNLISTED_RESOURCE_METADATA, RESOURCE),
    ] {
        let script = AuthScript { resource_metadata: place, ..AuthScript::default() };
        let mut client = Client::new(&script, Revision::V2025_11_25);
        for candidate in [
            "/.well-known/oauth-protected-resource/v1/mcp",
            "/.well-known/oauth-protected-resource",
            request::UNLISTED_RESOURCE_METADATA,
            "/v1/mcp/.well-known/oauth-protected-resource",
        ] {
            let sent = http("GET", &format!("{RESOURCE_ORIGIN}{candidate}?x=1"), &[], "");
            let answer = client.server.resource_metadata(&sent);
            assert_eq!(answer.is_some(), candidate == path, "{place:?} {candidate}");
            if let Some(answer) = answer {
                let document: Value = serde_json::from_str(&answer.body).unwrap();
                assert_eq!(document["resource"], resource);
                assert_eq!(header(&answer, "content-type"), Some("application/json"));
            }
        }
        let named = bearer_challenge(&client.rpc("401", "ping", None).unwrap_err()).unwrap();
        let in_header =
            matches!(place, ResourceMetadataPlace::HeaderAndPath | ResourceMetadataPlace::HeaderOnly);
        let expected = in_header.then(|| format!("{RESOURCE_ORIGIN}{path}"));
        assert_eq!(named.get("resource_metadata"), expected.as_ref());
    }
    // An endpoint at the root has no path to insert.
    for url in ["http://127.0.0.1:1001", "http://127.0.0.1:1001/"] {
        let mut server = AuthServer::new(
            AuthScript::default(),
            Revision::V2025_11_25,
            url.into(),
            AUTHORIZATION.into(),
            1,
        );
        let sent = http("GET", &format!("{RESOURCE_ORIGIN}/.well-known/oauth-protected-resource"), &[], "");
        let document: Value = serde_json::from_str(&server.resource_metadata(&sent).unwrap().body).unwrap();
        assert_eq!(document["resource"], url);
    }
}

#[test]
fn without_resource_metadata_there_is_none_anywhere() {
    for (revision, place) in [
        (Revision::V2025_03_26, ResourceMetadataPlace::HeaderAndPath),
        (Revision::V2025_11_25, ResourceMetadataPlace::None),
    ] {
        let script = AuthScript { resource_metadata: place, ..AuthScript::default() };
        let mut client = Client::new(&script, revision);
        for path in ["/.well-known/oauth-protected-resource/v1/mcp", "/.well-known/oauth-protected-resource"]
        {
            assert_eq!(client.server.resource_metadata(&http("GET", path, &[], "")), None);
        }
        let challenge = bearer_challenge(&client.rpc("401", "ping", None).unwrap_err()).unwrap();
        assert!(challenge.is_empty(), "{challenge:?}");
    }
}

#[test]
fn guessed_endpoints_are_not_there_when_there_is_metadata() {
    let mut client = Client::new(&AuthScript::default(), Revision::V2025_11_25);
    for path in ["/authorize", "/token", "/register", "/", "/.well-known/openid-configuration"] {
        for method in ["GET", "POST"] {
            let answer = client.server.handle(&http(method, path, &[], ""), Duration::ZERO);
            assert_eq!(answer.status, 404, "{method} {path}");
        }
    }
    let known = client.discover().unwrap();
    for (url, wrong, allowed) in [
        (known.authorize, "POST", "GET"),
        (known.token, "GET", "POST"),
        (known.register.unwrap(), "GET", "POST"),
        (format!("{AUTHORIZATION}/.well-known/oauth-authorization-server"), "POST", "GET"),
    ] {
        let answer = client.send(&http(wrong, &url, &[], ""), &url);
        assert_eq!((answer.status, header(&answer, "allow")), (405, Some(allowed)), "{url}");
    }
}

#[test]
fn equal_seeds_give_equal_answers_and_others_other_names() {
    let script = AuthScript { refresh: true, ..AuthScript::default() };
    let run = |seed| {
        let mut client = Client::new(&script, Revision::V2025_11_25);
        client.server = AuthServer::new(
            script.clone(),
            Revision::V2025_11_25,
            RESOURCE.into(),
            AUTHORIZATION.into(),
            seed,
        );
        let (_, tokens) = client.tokens();
        (client.exchanges, tokens)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(token_of(&run(1).1), token_of(&run(2).1));
}

#[test]
fn challenges_say_the_same_in_each_style() {
    let read = |challenge, token: Option<&str>| {
        let script =
            AuthScript { challenge, challenge_scope: Some("files:read".into()), ..AuthScript::default() };
        let answer = Client::new(&script, Revision::V2025_11_25).rpc("401", "ping", token).unwrap_err();
        assert_eq!(answer.status, 401);
        bearer_challenge(&answer)
    };
    let mut plain = read(ChallengeStyle::Plain, Some("at-dead")).unwrap();
    assert_eq!(plain["error"], "invalid_token");
    assert_eq!(plain["scope"], "files:read");
    assert!(plain["resource_metadata"].ends_with("/.well-known/oauth-protected-resource/v1/mcp"));
    assert_eq!(read(ChallengeStyle::TwoFields, Some("at-dead")).as_ref(), Some(&plain));
    plain.insert("x-hint".into(), "none".into());
    assert_eq!(read(ChallengeStyle::Mixed, Some("at-dead")), Some(plain));
    assert_eq!(read(ChallengeStyle::Absent, Some("at-dead")), None);

    let script = AuthScript { challenge: ChallengeStyle::Mixed, ..AuthScript::default() };
    let answer = Client::new(&script, Revision::V2025_11_25).rpc("401", "ping", None).unwrap_err();
    assert_eq!(
        header(&answer, "www-authenticate"),
        Some(concat!(
            r#"Negotiate, Digest realm="a, Bearer resource_metadata=\"http://127.0.0.1:9/decoy\", scope=\"decoy\"", "#,
            r#"qop="auth,auth-int" ,  bearer x-hint=none ,resource_metadata = "#,
            r#""http://127.0.0.1:1001/.well-known/oauth-protected-resource/v1/mcp""#
        ))
    );
}

// ---- client identities ----

#[test]
fn each_way_of_authentication_works_and_only_that() {
    for method in [
        ClientAuthentication::None,
        ClientAuthentication::ClientSecretBasic,
        ClientAuthentication::ClientSecretPost,
    ] {
        let script = AuthScript { client_authentication: vec![method], ..AuthScript::default() };
        for used in ["none", "client_secret_basic", "client_secret_post"] {
            let mut client = Client::new(&script, Revision::V2025_11_25);
            let (mut known, code) = client.code(&[]);
            let right = json!(method) == json!(used);
            assert_eq!(known.secret.is_some(), method != ClientAuthentication::None);
            assert!(!right || known.method == used);
            known.method = used;
            if !right && known.secret.is_none() {
                // An empty one would count as left out.
                known.secret = Some("secret-invented".into());
            }
            let answer = client.redeem(&known, &code, &[]);
            if right {
                assert_eq!(answer.status, 200, "{method:?} {used}: {answer:?}");
            } else {
                assert_eq!(error_of(&answer), "invalid_client", "{method:?} {used}");
                let by_header = used == "client_secret_basic";
                assert_eq!(answer.status, if by_header { 401 } else { 400 });
                assert_eq!(header(&answer, "www-authenticate").is_some(), by_header);
            }
            if right && method != ClientAuthentication::None {
                let (mut known, code) = client.code(&[]);
                known.secret = Some("secret-wrong".into());
                assert_eq!(error_of(&client.redeem(&known, &code, &[])), "invalid_client");
            }
        }
    }
}

#[test]
fn two_ways_of_authentication_at_once_are_refused() {
    let script = AuthScript {
        client_authentication: vec![
            ClientAuthentication::ClientSecretBasic,
            ClientAuthentication::ClientSecretPost,
        ],
        ..AuthScript::default()
    };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let (known, code) = client.code(&[]);
    assert_eq!(known.method, "client_secret_basic", "the first, as `none` is not offered");
    let secret = known.secret.clone();
    let answer = client.redeem(&known, &code, &[("client_secret", secret.as_deref())]);
    assert_eq!(error_of(&answer), "invalid_request");
    let answer = client.redeem(&known, &code, &[("client_id", Some("another"))]);
    assert_eq!(error_of(&answer), "invalid_request");
    let answer = client.redeem(&known, &code, &[("client_assertion", Some("e30.e30."))]);
    assert_eq!(error_of(&answer), "invalid_request");
    // The id alone in the body beside the header is allowed, and none of the refusals spent the code.
    let id = known.client_id.clone();
    assert_eq!(client.redeem(&known, &code, &[("client_id", Some(&id))]).status, 200);
}

#[test]
fn a_preregistered_client_is_known() {
    for (secret, methods, expected) in [
        (None, vec![], "none"),
        (Some("s p:e%c+i&al=ü"), vec![], "client_secret_basic"),
        (Some("s p:e%c+i&al=ü"), vec![ClientAuthentication::ClientSecretPost], "client_secret_post"),
    ] {
        let secret = secret.map(str::to_owned);
        let script = AuthScript {
            no_registration: true,
            preregistered: Some(PreregisteredClient {
                client_id: "known: client".into(),
                client_secret: secret.clone(),
                keys: None,
            }),
            client_authentication: methods,
            ..AuthScript::default()
        };
        let mut client = Client::new(&script, Revision::V2025_11_25);
        client.preset = Some(("known: client".into(), secret.clone()));
        let (known, code) = client.code(&[]);
        assert_eq!((known.method, &known.register), (expected, &None));
        if secret.is_some() {
            let bare = Known { method: "none", ..known.clone() };
            assert_eq!(error_of(&client.redeem(&bare, &code, &[])), "invalid_client");
        }
        assert_eq!(client.redeem(&known, &code, &[]).status, 200);
        client.preset = Some(("someone else".into(), secret));
        let known = client.discover().unwrap();
        assert_eq!(client.authorize(&known, &[]).status, 400);
    }
}

#[test]
fn metadata_documents_are_taken_only_where_offered() {
    let id = "https://client.example/about.json";
    for offered in [true, false] {
        let script = AuthScript {
            client_id_metadata: offered,
            client_authentication: vec![ClientAuthentication::ClientSecretPost],
            ..AuthScript::default()
        };
        let mut client = Client::new(&script, Revision::V2025_11_25);
        client.preset = Some((id.into(), None));
        let mut known = client.discover().unwrap();
        known.method = "none";
        let document: Value = serde_json::from_str(&client.exchanges.last().unwrap().1.body).unwrap();
        assert_eq!(document["client_id_metadata_document_supported"] == true, offered);
        let methods = &document["token_endpoint_auth_methods_supported"];
        assert_eq!(methods.as_array().unwrap().contains(&json!("none")), offered);
        let answer = client.authorize(&known, &[]);
        assert_eq!(answer.status, if offered { 302 } else { 400 });
        if offered {
            let code = location(&answer).remove("code").unwrap();
            assert_eq!(client.redeem(&known, &code, &[]).status, 200);
            known.client_id = "http://client.example/about.json".into();
            assert_eq!(client.authorize(&known, &[]).status, 400);
        }
    }
}

#[test]
fn bad_registrations_are_refused() {
    let mut client = Client::new(&AuthScript::default(), Revision::V2025_11_25);
    let url = client.discover().unwrap().register.unwrap();
    let mut register = |content_type: &str, body: &str| {
        let answer = client.send(&http("POST", &url, &[("content-type", content_type)], body), &url);
        (answer.status == 201).then_some(()).ok_or_else(|| {
            assert_eq!(answer.status, 400, "{answer:?}");
            error_of(&answer)
        })
    };
    let json = "application/json";
    for body in [
        r#"{"redirect_uris":["http://127.0.0.1/cb"]}"#,
        r#"{"redirect_uris":["http://localhost/cb","https://client.example/cb"],"grant_types":["authorization_code","x"]}"#,
        r#"{"redirect_uris":["http://[::1]/cb"],"response_types":["code","id_token"],"token_endpoint_auth_method":"private_key_jwt"}"#,
    ] {
        assert_eq!(register(json, body), Ok(()), "{body}");
    }
    for (body, error) in [
        ("", "invalid_client_metadata"),
        ("[]", "invalid_client_metadata"),
        ("{}", "invalid_redirect_uri"),
        (r#"{"redirect_uris":[]}"#, "invalid_redirect_uri"),
        (r#"{"redirect_uris":"http://127.0.0.1/"}"#, "invalid_client_metadata"),
        (r#"{"redirect_uris":[1]}"#, "invalid_client_metadata"),
        (r#"{"redirect_uris":["http://127.0.0.1/","http://client.example/"]}"#, "invalid_redirect_uri"),
        (r#"{"redirect_uris":["myapp://callback"]}"#, "invalid_redirect_uri"),
        (r#"{"redirect_uris":["http://127.0.0.1/#f"]}"#, "invalid_redirect_uri"),
        (r#"{"redirect_uris":["http://127.0.0.1/"],"grant_types":["implicit"]}"#, "invalid_client_metadata"),
        (r#"{"redirect_uris":["http://127.0.0.1/"],"response_types":["token"]}"#, "invalid_client_metadata"),
        (
            r#"{"redirect_uris":["http://127.0.0.1/"],"token_endpoint_auth_method":7}"#,
            "invalid_client_metadata",
        ),
    ] {
        assert_eq!(register(json, body), Err(error.to_owned()), "{body}");
    }
    let good = r#"{"redirect_uris":["http://127.0.0.1/cb"]}"#;
    assert_eq!(register("application/x-www-form-urlencoded", good), Err("invalid_client_metadata".into()));
    let long = json!({ "redirect_uris": [format!("http://127.0.0.1/{}", "x".repeat(2048))] }).to_string();
    assert_eq!(register(json, &long), Err("invalid_redirect_uri".into()));
    let many: Vec<_> = (0..17).map(|n| format!("http://127.0.0.1/{n}")).collect();
    let many = json!({ "redirect_uris": many }).to_string();
    assert_eq!(register(json, &many), Err("invalid_redirect_uri".into()));

    let answer = client.send(&http("POST", &url, &[], &"x".repeat(65 * 1024)), &url);
    assert_eq!(answer.status, 413);
    let script = AuthScript { no_registration: true, ..AuthScript::default() };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    assert_eq!(client.send(&http("POST", &url, &[("content-type", json)], good), &url).status, 404);
}

// ---- the authorization endpoint ----

#[test]
fn bad_authorization_requests_are_refused() {
    let challenge = s256(VERIFIER);
    for revision in REVISIONS {
        let mut client = Client::new(&AuthScript::default(), revision);
        let known = client.discover().unwrap();
        // Nobody is redirected anywhere.
        for changes in [
            [("client_id", None)],
            [("client_id", Some("client-unknown"))],
            [("redirect_uri", Some("http://127.0.0.1:3003/elsewhere"))],
            [("redirect_uri", Some("https://attacker.example/"))],
        ] {
            let answer = client.authorize(&known, &changes);
            assert_eq!((answer.status, header(&answer, "location")), (400, None), "{changes:?}");
        }
        // The only registered URI may be left out; the port of a loopback URI is free.
        location(&client.authorize(&known, &[("redirect_uri", None)]));
        let answer = client.authorize(&known, &[("redirect_uri", Some("http://127.0.0.1:9/callback"))]);
        assert!(header(&answer, "location").unwrap().starts_with("http://127.0.0.1:9/callback?code="));

        let mut refused = vec![
            (("response_type", None), "invalid_request"),
            (("response_type", Some("token")), "unsupported_response_type"),
            (("code_challenge", None), "invalid_request"),
            (("code_challenge", Some("")), "invalid_request"),
            (("code_challenge", Some(&challenge[1..])), "invalid_request"),
            (("code_challenge_method", None), "invalid_request"),
            (("code_challenge_method", Some("plain")), "invalid_request"),
            (("scope", Some("a  b")), "invalid_scope"),
            (("scope", Some("\"")), "invalid_scope"),
        ];
        if revision >= Revision::V2025_06_18 {
            for resource in [
                None,
                Some(RESOURCE_ORIGIN),
                Some("http://127.0.0.1:1001/v1/mcp/"),
                Some("http://127.0.0.1:1001/v1/mcp#x"),
                Some("127.0.0.1:1001/v1/mcp"),
                Some(OTHER_RESOURCE),
            ] {
                refused.push((("resource", resource), "invalid_target"));
            }
            location(&client.authorize(&known, &[("resource", Some("HTTP://127.0.0.1:1001/v1/mcp"))]));
        } else {
            // Unknown there, and so ignored.
            let answer = client.authorize(&known, &[("resource", Some("anything"))]);
            assert!(location(&answer).contains_key("code"));
        }
        for (change, error) in refused {
            let answer = client.authorize(&known, &[change]);
            let redirect = location(&answer);
            assert_eq!(redirect["error"], error, "{revision} {change:?}");
            assert_eq!(redirect["state"], "the state & more");
            assert!(redirect.contains_key("iss") && !redirect.contains_key("code"));
        }
        let answer = client.authorize(&known, &[("state", None)]);
        assert!(!location(&answer).contains_key("state"));
        let again = |name: &str| {
            let authorize = format!("{}?{name}=http%3A%2F%2F127.0.0.1%3A1001%2Fv1%2Fmcp", known.authorize);
            Known { authorize, ..known.clone() }
        };
        let answer = client.authorize(&again("state"), &[]);
        assert_eq!(location(&answer)["error"], "invalid_request");
        let redirect = location(&client.authorize(&again("resource"), &[("resource", Some(OTHER_RESOURCE))]));
        if revision >= Revision::V2025_06_18 {
            assert_eq!(redirect["error"], "invalid_target");
        } else {
            assert!(redirect.contains_key("code"));
        }
    }
}

#[test]
fn the_query_of_a_redirect_uri_stays() {
    let mut client = Client::new(&AuthScript::default(), Revision::V2025_11_25);
    let known = client.discover().unwrap();
    let url = known.register.clone().unwrap();
    let body = json!({ "redirect_uris": ["https://client.example?keep=%20this"] }).to_string();
    let answer = client.send(&http("POST", &url, &[("content-type", "application/json")], &body), &url);
    let registered: Value = serde_json::from_str(&answer.body).unwrap();
    let known = Known { client_id: registered["client_id"].as_str().unwrap().into(), ..known };
    let answer = client.authorize(&known, &[("redirect_uri", None)]);
    let target = header(&answer, "location").unwrap();
    assert!(target.starts_with("https://client.example?keep=%20this&code=code-"), "{target}");
}

// ---- the token endpoint ----

#[test]
fn bad_token_requests_are_refused() {
    let other_verifier = "x".repeat(43);
    for revision in REVISIONS {
        let mut refused = vec![
            (("code_verifier", None), "invalid_request"),
            (("code_verifier", Some(other_verifier.as_str())), "invalid_grant"),
            (("code_verifier", Some("short")), "invalid_grant"),
            (("redirect_uri", Some("http://127.0.0.1:3004/callback")), "invalid_grant"),
            (("code", None), "invalid_request"),
            (("code", Some("code-guessed")), "invalid_grant"),
            (("grant_type", None), "invalid_request"),
            (("grant_type", Some("password")), "unsupported_grant_type"),
            (("grant_type", Some("refresh_token")), "unsupported_grant_type"),
        ];
        if revision >= Revision::V2025_06_18 {
            refused.push((("resource", None), "invalid_target"));
            refused.push((("resource", Some(OTHER_RESOURCE)), "invalid_target"));
        }
        for (change, error) in refused {
            let mut client = Client::new(&AuthScript::default(), revision);
            let (known, code) = client.code(&[]);
            let answer = client.redeem(&known, &code, &[change]);
            assert_eq!((answer.status, error_of(&answer).as_str()), (400, error), "{revision} {change:?}");
        }
        let mut client = Client::new(&AuthScript::default(), revision);
        let (known, code) = client.code(&[]);
        assert_eq!(client.redeem(&known, &code, &[("redirect_uri", None)]).status, 200);
    }
}

#[test]
fn the_body_of_a_token_request_is_a_form() {
    let mut client = Client::new(&AuthScript::default(), Revision::V2025_11_25);
    let (known, code) = client.code(&[]);
    let body = json!({ "grant_type": "authorization_code", "code": code, "client_id": known.client_id });
    let sent = http("POST", &known.token, &[("content-type", "application/json")], &body.to_string());
    assert_eq!(error_of(&client.send(&sent, &known.token)), "invalid_request");
    assert_eq!(client.redeem(&known, &code, &[]).status, 200);
}

#[test]
fn the_form_names_each_parameter_once() {
    let mut client = Client::new(&AuthScript::default(), Revision::V2025_11_25);
    let (known, code) = client.code(&[]);
    let body =
        format!("grant_type=authorization_code&client_id={0}&client_id={0}&code={code}", known.client_id);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let sent = http("POST", &known.token, &form, &body);
    assert_eq!(error_of(&client.send(&sent, &known.token)), "invalid_request");
}

#[test]
fn the_resource_stays_the_same_through_the_flow() {
    // With metadata at the root there are two names for the endpoint, but a flow has one.
    let script =
        AuthScript { resource_metadata: ResourceMetadataPlace::Root, refresh: true, ..AuthScript::default() };
    for resource in [RESOURCE, RESOURCE_ORIGIN] {
        let mut client = Client::new(&script, Revision::V2025_11_25);
        for (redeemed_for, fine) in
            [(RESOURCE, resource == RESOURCE), (RESOURCE_ORIGIN, resource != RESOURCE)]
        {
            let (known, code) = client.code(&[("resource", Some(resource))]);
            let answer = client.redeem(&known, &code, &[("resource", Some(redeemed_for))]);
            if !fine {
                assert_eq!(error_of(&answer), "invalid_target");
                continue;
            }
            let tokens: Value = serde_json::from_str(&answer.body).unwrap();
            let token = tokens["refresh_token"].as_str().unwrap();
            let other = if resource == RESOURCE { RESOURCE_ORIGIN } else { RESOURCE };
            let answer = client.refresh(&known, token, &[("resource", Some(other))]);
            assert_eq!(error_of(&answer), "invalid_target");
            assert_eq!(client.refresh(&known, token, &[("resource", Some(resource))]).status, 200);
        }
    }
}

#[test]
fn a_code_works_once_and_reuse_revokes() {
    let script = AuthScript { refresh: true, ..AuthScript::default() };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let (known, code) = client.code(&[]);
    let tokens: Value = serde_json::from_str(&client.redeem(&known, &code, &[]).body).unwrap();
    client.rpc("use", "ping", Some(token_of(&tokens))).unwrap();
    assert_eq!(error_of(&client.redeem(&known, &code, &[])), "invalid_grant");
    assert_eq!(client.rpc("use", "ping", Some(token_of(&tokens))).unwrap_err().status, 401);
    let answer = client.refresh(&known, tokens["refresh_token"].as_str().unwrap(), &[]);
    assert_eq!(error_of(&answer), "invalid_grant");

    // A failed attempt spends it too.
    let (known, code) = client.code(&[]);
    assert_eq!(error_of(&client.redeem(&known, &code, &[("code_verifier", Some("short"))])), "invalid_grant");
    assert_eq!(error_of(&client.redeem(&known, &code, &[])), "invalid_grant");
}

#[test]
fn a_code_expires_and_belongs_to_its_client() {
    let mut client = Client::new(&AuthScript::default(), Revision::V2025_11_25);
    let (known, code) = client.code(&[]);
    client.now = seconds(600);
    assert_eq!(error_of(&client.redeem(&known, &code, &[])), "invalid_grant");

    let (known, code) = client.code(&[]);
    let other = client.discover().unwrap();
    assert_ne!(other.client_id, known.client_id);
    assert_eq!(error_of(&client.redeem(&other, &code, &[])), "invalid_grant");
    client.now += seconds(599);
    assert_eq!(client.redeem(&known, &code, &[]).status, 200, "another's attempt does not spend it");
}

// ---- refresh ----

#[test]
fn refresh_tokens_rotate_and_reuse_revokes() {
    let script = AuthScript { refresh: true, rotate_refresh: true, ..AuthScript::default() };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let (known, first) = client.tokens();
    let old = first["refresh_token"].as_str().unwrap();
    let second: Value = serde_json::from_str(&client.refresh(&known, old, &[]).body).unwrap();
    let new = second["refresh_token"].as_str().unwrap();
    assert_ne!(old, new);
    let third: Value = serde_json::from_str(&client.refresh(&known, new, &[]).body).unwrap();
    client.rpc("use", "ping", Some(token_of(&third))).unwrap();

    assert_eq!(error_of(&client.refresh(&known, old, &[])), "invalid_grant");
    let newest = third["refresh_token"].as_str().unwrap();
    assert_eq!(error_of(&client.refresh(&known, newest, &[])), "invalid_grant", "revoked with the rest");
    assert_eq!(client.rpc("use", "ping", Some(token_of(&third))).unwrap_err().status, 401);
}

#[test]
fn without_rotation_a_refresh_token_stays() {
    let script = AuthScript { refresh: true, ..AuthScript::default() };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let (known, first) = client.tokens();
    let token = first["refresh_token"].as_str().unwrap();
    for _ in 0..2 {
        let again: Value = serde_json::from_str(&client.refresh(&known, token, &[]).body).unwrap();
        assert_eq!(again["refresh_token"], token);
        client.rpc("use", "ping", Some(token_of(&again))).unwrap();
    }
}

#[test]
fn bad_refreshes_are_refused() {
    let script = AuthScript { refresh: true, rotate_refresh: true, ..AuthScript::default() };
    for (revision, change, error) in [
        (Revision::V2025_06_18, ("resource", None), "invalid_target"),
        (Revision::V2025_11_25, ("resource", Some(RESOURCE_ORIGIN)), "invalid_target"),
        (Revision::V2025_11_25, ("refresh_token", None), "invalid_request"),
        (Revision::V2025_11_25, ("refresh_token", Some("rt-guessed")), "invalid_grant"),
        (Revision::V2025_03_26, ("scope", Some("more")), "invalid_scope"),
    ] {
        let mut client = Client::new(&script, revision);
        let (known, tokens) = client.tokens();
        let token = tokens["refresh_token"].as_str().unwrap();
        assert_eq!(error_of(&client.refresh(&known, token, &[change])), error, "{change:?}");
        let other = client.discover().unwrap();
        assert_eq!(error_of(&client.refresh(&other, token, &[])), "invalid_grant", "another client's");
        assert_eq!(client.refresh(&known, token, &[]).status, 200, "none of these spent it");
    }
}

#[test]
fn who_does_not_register_refresh_gets_none() {
    let script = AuthScript { refresh: true, ..AuthScript::default() };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let known = client.discover().unwrap();
    let url = known.register.clone().unwrap();
    let body = json!({ "redirect_uris": [CALLBACK], "grant_types": ["authorization_code"] }).to_string();
    let answer = client.send(&http("POST", &url, &[("content-type", "application/json")], &body), &url);
    let registered: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(registered["grant_types"], json!(["authorization_code"]));
    let known = Known { client_id: registered["client_id"].as_str().unwrap().into(), ..known };
    let code = location(&client.authorize(&known, &[])).remove("code").unwrap();
    let tokens: Value = serde_json::from_str(&client.redeem(&known, &code, &[]).body).unwrap();
    assert_eq!(tokens["refresh_token"], Value::Null);
    assert_eq!(error_of(&client.refresh(&known, "rt-x", &[])), "unauthorized_client");
}

// ---- the guard ----

#[test]
fn tokens_expire_by_time_and_by_use() {
    let script = AuthScript { expires_in: Some(60), ..AuthScript::default() };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    client.now = seconds(100);
    let (_, tokens) = client.tokens();
    assert_eq!(tokens["expires_in"], 60);
    client.now = Duration::from_millis(159_999);
    client.rpc("use", "ping", Some(token_of(&tokens))).unwrap();
    client.now = seconds(160);
    let refused = client.rpc("use", "ping", Some(token_of(&tokens))).unwrap_err();
    assert_eq!(
        (refused.status, bearer_challenge(&refused).unwrap()["error"].as_str()),
        (401, "invalid_token")
    );

    let script = AuthScript { uses_per_token: Some(2), ..AuthScript::default() };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let (_, tokens) = client.tokens();
    for _ in 0..2 {
        client.rpc("use", "ping", Some(token_of(&tokens))).unwrap();
    }
    assert_eq!(client.rpc("use", "ping", Some(token_of(&tokens))).unwrap_err().status, 401);
}

#[test]
fn a_token_is_taken_from_the_header_only() {
    let mut client = Client::new(&AuthScript::default(), Revision::V2025_11_25);
    let (known, tokens) = client.tokens();
    let token = token_of(&tokens);
    let mut admit = |target: &str, headers: &[(&str, &str)]| {
        let outcome = client.server.admit(&http("POST", target, headers, ""), None, Duration::ZERO);
        outcome.map_err(|answer| {
            (answer.status, bearer_challenge(&answer).unwrap().remove("error").unwrap_or_default())
        })
    };
    let good = format!("Bearer {token}");
    let none = Err((401, String::new()));
    let bad_request = Err((400, "invalid_request".to_owned()));
    assert_eq!(admit(RESOURCE, &[("authorization", &good)]), Ok(()));
    assert_eq!(admit(RESOURCE, &[("authorization", &format!("bearer {token}"))]), Ok(()));
    assert_eq!(admit(RESOURCE, &[]), none);
    assert_eq!(admit(RESOURCE, &[("authorization", &format!("Basic {token}"))]), none);
    assert_eq!(admit(RESOURCE, &[("authorization", token)]), none);
    assert_eq!(admit(RESOURCE, &[("cookie", &format!("access_token={token}"))]), none);
    let in_query = format!("{RESOURCE}?access_token={token}");
    assert_eq!(admit(&in_query, &[]), bad_request);
    assert_eq!(admit(&in_query, &[("authorization", &good)]), bad_request);
    assert_eq!(admit(RESOURCE, &[("authorization", &good), ("authorization", &good)]), bad_request);
    let foreign = format!("Bearer {}", known.client_id);
    assert_eq!(admit(RESOURCE, &[("authorization", &foreign)]), Err((401, "invalid_token".into())));
}

#[test]
fn a_call_can_need_more_scopes() {
    for (revision, asked_for) in
        [(Revision::V2025_11_25, "files:read files:write"), (Revision::V2026_07_28, "files:write")]
    {
        let script = AuthScript {
            challenge_scope: Some("files:read".into()),
            call_scope: Some("files:write".into()),
            ..AuthScript::default()
        };
        let mut client = Client::new(&script, revision);
        let (known, tokens) = client.tokens();
        assert_eq!(tokens["scope"], "files:read", "what the challenge asks for, if the client does not say");
        client.rpc("use", "tools/list", Some(token_of(&tokens))).unwrap();
        let refused = client.rpc("use", "tools/call", Some(token_of(&tokens))).unwrap_err();
        let challenge = bearer_challenge(&refused).unwrap();
        assert_eq!((refused.status, challenge["error"].as_str()), (403, "insufficient_scope"));
        assert_eq!(challenge["scope"], asked_for);
        assert!(challenge.contains_key("resource_metadata"));

        let answer = client.authorize(&known, &[("scope", Some(asked_for))]);
        let code = location(&answer).remove("code").unwrap();
        let tokens: Value = serde_json::from_str(&client.redeem(&known, &code, &[]).body).unwrap();
        client.rpc("use", "tools/call", Some(token_of(&tokens))).unwrap();
    }
}

#[test]
fn scopes_are_granted_as_far_as_they_are_known() {
    let granted = |script: &AuthScript, scope: Option<&str>| {
        let mut client = Client::new(script, Revision::V2025_11_25);
        let known = client.discover().unwrap();
        let mut redirect = location(&client.authorize(&known, &[("scope", scope)]));
        let Some(code) = redirect.remove("code") else { return redirect["error"].clone() };
        let tokens: Value = serde_json::from_str(&client.redeem(&known, &code, &[]).body).unwrap();
        tokens["scope"].as_str().unwrap_or("-").to_owned()
    };
    let none = AuthScript::default();
    assert_eq!(granted(&none, None), "-");
    assert_eq!(granted(&none, Some("openid x")), "openid x");
    let some = AuthScript { scopes_supported: vec!["a".into(), "b".into()], ..AuthScript::default() };
    assert_eq!(granted(&some, None), "a b");
    assert_eq!(granted(&some, Some("b c b")), "b");
    assert_eq!(granted(&some, Some(FOREIGN_SCOPE)), "invalid_scope");
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut client = Client::new(&AuthScript::default(), Revision::V2025_11_25);
    let (known, first) = client.tokens();
    for _ in 0..1024 {
        let code = location(&client.authorize(&known, &[])).remove("code").unwrap();
        assert_eq!(client.redeem(&known, &code, &[]).status, 200);
        client.exchanges.clear();
    }
    assert_eq!(client.rpc("use", "ping", Some(token_of(&first))).unwrap_err().status, 401);
}

// ---- one fault by itself ----

#[test]
fn plain_is_taken_only_where_it_is_offered() {
    let script = AuthScript { fault: AuthFault::PlainPkceOnly.into(), ..AuthScript::default() };
    for method in [Some("plain"), None] {
        let mut client = Client::new(&script, Revision::V2025_11_25);
        let changes = [("code_challenge", Some(VERIFIER)), ("code_challenge_method", method)];
        let (known, code) = client.code(&changes);
        assert_eq!(client.redeem(&known, &code, &[]).status, 200);
        let other = "x".repeat(43);
        let (known, code) = client.code(&changes);
        let answer = client.redeem(&known, &code, &[("code_verifier", Some(&other))]);
        assert_eq!(error_of(&answer), "invalid_grant");
    }
}

#[test]
fn every_request_of_the_flow_is_told_by_its_path() {
    let mut client = Client::new(&AuthScript::default(), Revision::V2025_11_25);
    let known = client.discover().unwrap();
    for (url, endpoint) in [
        (known.authorize, Endpoint::Authorization),
        (known.token, Endpoint::Token),
        (known.register.unwrap(), Endpoint::Registration),
    ] {
        assert_eq!(Endpoint::of(&http("POST", &url, &[], "")), Some(endpoint));
    }
    assert_eq!(Endpoint::of(&http("POST", RESOURCE, &[], "")), None);
}

// ---- arbitrary input ----

fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "code",
            "state",
            "client_id",
            "redirect_uri",
            "=",
            "&",
            "?",
            "#",
            "%",
            "%ff",
            "+",
            "/",
            ":",
            "://",
            "http://127.0.0.1:1/",
            "https://c.example/x",
            "code_challenge",
            "S256",
            "grant_type",
            "authorization_code",
            "refresh_token",
            "Bearer ",
            "Basic ",
            "YTpi",
            "access_token",
            "{",
            "}",
            "[",
            "]",
            "\"redirect_uris\":",
            "\"",
            "\\",
            ",",
            "known",
            "\r\n",
            "\u{0}",
            "ü",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(fragment(), 0..12).prop_map(|parts| parts.concat())
}

fn target() -> impl Strategy<Value = String> {
    let path = prop::sample::select(vec![
        "/oauth/v2/authorize",
        "/oauth/v2/token",
        "/oauth/v2/register",
        "/oauth/v2/keys",
        "/oauth/v2/revoke",
        "/second/oauth/v2/token",
        "/idp/token",
        "/v1/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource/v1/mcp",
        "http://x/oauth/v2/authorize",
        "*",
        "",
    ]);
    (path, text()).prop_map(|(path, rest)| format!("{path}?{rest}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_requests_are_answered(
        method in prop::sample::select(vec!["GET", "POST", "PUT", ""]),
        target in prop_oneof![target(), text()],
        authorization in prop::option::of(text()),
        proof in prop::option::of(text().prop_map(|t| format!("e30.e30.{t}"))),
        content_type in prop::sample::select(vec!["application/json", "application/x-www-form-urlencoded", ";"]),
        body in prop_oneof![
            text(),
            text().prop_map(|t| format!("{{\"redirect_uris\":[{}]}}", json!(t))),
            text().prop_map(|t| format!("grant_type=authorization_code&client_id=known&code={t}")),
            text().prop_map(|t| format!("grant_type={}&assertion=e30.{t}.", token::JWT_BEARER)),
            text().prop_map(|t| format!("client_assertion_type={ASSERTION_TYPE}&client_assertion=e30.e30.{t}")),
        ],
        revision in prop::sample::select(Revision::ALL.to_vec()),
        seconds in any::<u64>(),
    ) {
        let script = AuthScript {
            client_id_metadata: true,
            preregistered: Some(PreregisteredClient { client_id: "known".into(), client_secret: None, keys: None }),
            refresh: true,
            expires_in: Some(u64::MAX),
            refresh_expires_in: Some(u64::MAX),
            client_authentication: vec![ClientAuthentication::None, ClientAuthentication::PrivateKeyJwt],
            grants: vec![GrantType::AuthorizationCode, GrantType::JwtBearer],
            identity_provider: Some(IdentityProvider::default()),
            workload: Some(Workload::default()),
            dpop: Some(DpopScript { nonce: DpopNonce::Both, ..DpopScript::default() }),
            revocation: true,
            second_server: Some(SecondServer::default()),
            ..AuthScript::default()
        };
        let mut server = AuthServer::new(script, revision, RESOURCE.into(), AUTHORIZATION.into(), 1);
        let mut headers = vec![("content-type".to_owned(), content_type.to_owned())];
        headers.extend(authorization.map(|value| ("authorization".to_owned(), value)));
        headers.extend(proof.map(|value| ("dpop".to_owned(), value)));
        let request = HttpRequest { method: method.into(), target, headers, body, ..HttpRequest::default() };
        let now = Duration::from_secs(seconds);
        let _ = Endpoint::of(&request);
        let answers = [
            Some(server.handle(&request, now)),
            server.resource_metadata(&request),
            server.admit(&request, Some("tools/call"), now).err(),
        ];
        for answer in answers.into_iter().flatten() {
            prop_assert!((200..500).contains(&answer.status));
            for (name, value) in &answer.headers {
                prop_assert!(value.bytes().all(|b| (0x20..0x7f).contains(&b)), "{name}: {value:?}");
            }
        }
    }
}
