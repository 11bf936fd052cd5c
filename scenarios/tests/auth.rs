//! The vocabulary of the authorization server: what each word is for, and that the examples do what they say.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use serde_json::{Value, json};
use sparring_mock_servers::auth::{Answer, AuthServer, jwt};
use sparring_mock_servers::script::{AuthFault, AuthScript};
use sparring_scenarios::{catalogue, load};
use sparring_wire::Revision;
use sparring_wire::transcript::HttpRequest;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

const RESOURCE: &str = "http://127.0.0.1:1001/mcp";
const AUTHORIZATION: &str = "http://127.0.0.1:2002";
const UNIX: i64 = 1_800_000_000;

// ---- requirements ----

/// What every word and every fault says that it serves.
fn served() -> impl Iterator<Item = (String, &'static str)> {
    let words = AuthScript::SERVES
        .iter()
        .flat_map(|(word, served)| served.iter().map(|id| ((*word).to_owned(), *id)));
    let faults = AuthFault::ALL
        .iter()
        .flat_map(|fault| fault.serves().iter().map(move |id| (format!("{fault:?}"), *id)));
    words.chain(faults)
}

#[test]
fn what_the_words_serve_is_in_the_catalogue() {
    for (word, id) in served() {
        let is_rfc = id.strip_prefix("RFC ").and_then(|rest| rest.split_once(" section ")).is_some_and(
            |(number, section)| {
                number.parse::<u16>().is_ok() && section.split('.').all(|part| part.parse::<u16>().is_ok())
            },
        );
        assert!(is_rfc || catalogue::requirement(id).is_some(), "{word}: there is no {id}");
    }
    assert!(AuthFault::ALL.iter().all(|fault| !fault.serves().is_empty()));
}

#[test]
fn each_word_says_what_it_serves() {
    let schema = schemars::schema_for!(AuthScript);
    let words: BTreeSet<&str> =
        schema.get("properties").unwrap().as_object().unwrap().keys().map(String::as_str).collect();
    let told: BTreeSet<&str> = AuthScript::SERVES.iter().map(|(word, _)| *word).collect();
    assert_eq!(words, told);
    assert_eq!(told.len(), AuthScript::SERVES.len(), "each once");
}

/// What is seen in any authorization flow, or is no matter of the authorization server's script.
const NOT_BY_A_WORD: &[&str] = &[
    // Any flow shows it.
    "auth-pkce-used",
    "auth-pkce-verifier-quality",
    "auth-state-used",
    "auth-resource-in-authorization-request",
    "auth-redirect-uri-localhost-or-https",
    "auth-response-type-code",
    "auth-token-bearer-header",
    "auth-token-not-in-query",
    "auth-sec-http-conforms",
    // The redirect of the endpoint itself: an action of a rule.
    "auth-token-redirect-not-followed-cross-origin",
    // Two servers in a scenario.
    "auth-token-per-resource",
    // At a place that the mock does not reach.
    "auth-reg-cimd-document-hosted",
    // The callback is the client's.
    "auth-sec-callback-loopback-only",
];

#[test]
fn what_has_to_be_provoked_can_be() {
    let served: BTreeSet<&str> = served().map(|(_, id)| id).collect();
    let missing: Vec<&str> = catalogue::requirements()
        .filter(|r| r.area.starts_with("auth-") && r.provoke && !r.observable.starts_with("unobservable"))
        .map(|r| r.id.as_str())
        .filter(|id| !served.contains(id) && !NOT_BY_A_WORD.contains(id))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let needless: Vec<_> = NOT_BY_A_WORD.iter().filter(|id| served.contains(*id)).collect();
    assert!(needless.is_empty(), "{needless:?}");
}

// ---- the examples ----

fn server(name: &str) -> AuthServer {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scripts/examples/auth-{name}.yaml"));
    let script = load::script(&path).unwrap_or_else(|wrong| panic!("{}", wrong.render(false)));
    let script = script.auth.unwrap();
    AuthServer::new(script, Revision::V2025_11_25, RESOURCE.into(), AUTHORIZATION.into(), 1)
        .with_clock(UNIX)
        .with_other_origin("http://127.0.0.1:4004")
}

fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> HttpRequest {
    HttpRequest {
        method: method.into(),
        target: target.into(),
        headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        body: body.into(),
        ..HttpRequest::default()
    }
}

fn get(server: &mut AuthServer, target: &str) -> Answer {
    server.handle(&request("GET", target, &[], ""), Duration::ZERO)
}

fn token(server: &mut AuthServer, target: &str, pairs: &[(&str, &str)]) -> Answer {
    let body: String = pairs
        .iter()
        .map(|(name, value)| {
            let value: String = value.bytes().map(|b| format!("%{b:02X}")).collect();
            format!("{name}={value}&")
        })
        .collect();
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    server.handle(&request("POST", target, &headers, body.trim_end_matches('&')), Duration::ZERO)
}

fn json_of(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"))
}

fn register(server: &mut AuthServer, body: &Value) -> Answer {
    let headers = [("content-type", "application/json")];
    server.handle(&request("POST", "/oauth/v2/register", &headers, &body.to_string()), Duration::ZERO)
}

fn call(server: &mut AuthServer, method: &str) -> Result<(), Answer> {
    server.admit(&request("POST", "/mcp", &[], "{}"), Some(method), Duration::ZERO)
}

fn challenge(answer: &Answer) -> &str {
    let field = answer.headers.iter().find(|(name, _)| name == "www-authenticate");
    field.map(|(_, value)| value.as_str()).unwrap()
}

#[test]
fn places() {
    let mut server = server("places");
    let refused = call(&mut server, "tools/list").unwrap_err();
    assert!(challenge(&refused).contains("/about/this-resource.json"));
    let metadata = |server: &mut AuthServer, path: &str| {
        json_of(&server.resource_metadata(&request("GET", path, &[], "")).unwrap())
    };
    let own = metadata(&mut server, "/about/this-resource.json");
    assert_eq!(own["resource"], "http://127.0.0.1:1001");
    assert_eq!(own["authorization_servers"], json!(["http://127.0.0.1:2002/tenant1"]));
    let other = metadata(&mut server, "/.well-known/oauth-protected-resource/mcp");
    assert_eq!(other["authorization_servers"], json!(["http://127.0.0.1:2002/tenant2"]));
    assert_eq!(get(&mut server, "/tenant1/.well-known/openid-configuration").status, 200);
    assert_eq!(get(&mut server, "/.well-known/openid-configuration/tenant1").status, 404);
}

#[test]
fn clients() {
    let mut server = server("clients");
    let document = json_of(&get(&mut server, "/.well-known/oauth-authorization-server"));
    assert_eq!(document["client_id_metadata_document_supported"], true);
    assert!(document["revocation_endpoint"].is_string());
    let mut body = json!({ "redirect_uris": ["http://127.0.0.1:3003/callback"] });
    assert_eq!(json_of(&register(&mut server, &body))["error"], "invalid_redirect_uri");
    body["application_type"] = json!("native");
    assert_eq!(json_of(&register(&mut server, &body))["token_endpoint_auth_method"], "client_secret_post");
}

#[test]
fn who_needs_a_token() {
    let mut some = server("scopes");
    assert!(call(&mut some, "tools/list").is_ok() && call(&mut some, "tools/list").is_ok());
    assert!(challenge(&call(&mut some, "tools/list").unwrap_err()).contains("scope=\"basic\""));
    assert!(call(&mut some, "initialize").is_ok());
    let mut calls = server("calls-only");
    assert!(calls.serves_on_resource_origin());
    assert!(call(&mut calls, "initialize").is_ok() && call(&mut calls, "tools/call").is_err());
}

#[test]
fn machines() {
    let mut server = server("machine");
    let pairs = [
        ("grant_type", "client_credentials"),
        ("resource", RESOURCE),
        ("client_id", "machine"),
        ("client_secret", "machine-secret"),
    ];
    // By post, which is not among the methods.
    assert_eq!(json_of(&token(&mut server, "/oauth/v2/token", &pairs))["error"], "invalid_client");
    let hand_out = server.hand_out(Duration::ZERO);
    assert!(hand_out["private_key_pem"].as_str().unwrap().starts_with("-----BEGIN PRIVATE KEY-----"));
    assert!(!self::server("own-key").hand_out(Duration::ZERO).contains_key("private_key_pem"));
}

#[test]
fn enterprise_and_workload() {
    let mut enterprise = server("enterprise");
    let hand_out = enterprise.hand_out(Duration::ZERO);
    assert_eq!(
        (&hand_out["client_id"], &hand_out["idp_client_id"]),
        (&json!("app"), &json!("app-at-provider"))
    );
    let id_token = hand_out["idp_id_token"].as_str().unwrap();
    assert_eq!(jwt::Jwt::read(id_token).unwrap().text("email"), Some("someone@example.com"));
    let pairs = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
        ("subject_token", id_token),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", AUTHORIZATION),
        ("resource", RESOURCE),
        ("client_id", "app-at-provider"),
    ];
    let exchanged = json_of(&token(&mut enterprise, "/idp/token", &pairs));
    let assertion = exchanged["access_token"].as_str().unwrap();
    assert_eq!(jwt::Jwt::read(assertion).unwrap().text("client_id"), Some("app"));

    let mut workload = server("workload");
    let hand_out = workload.hand_out(Duration::ZERO);
    for (name, status) in [("valid_jwt", 200), ("wrong_audience_jwt", 400), ("expired_jwt", 400)] {
        let pairs = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", hand_out[name].as_str().unwrap()),
            ("client_id", "builds"),
        ];
        assert_eq!(token(&mut workload, "/oauth/v2/token", &pairs).status, status, "{name}");
    }
}

#[test]
fn proofs() {
    let mut server = server("dpop");
    let refused = call(&mut server, "tools/list").unwrap_err();
    assert!(challenge(&refused).starts_with("DPoP "));
    let pairs = [("grant_type", "authorization_code"), ("code", "x")];
    assert_eq!(json_of(&token(&mut server, "/oauth/v2/token", &pairs))["error"], "invalid_dpop_proof");
}

#[test]
fn successors() {
    let mut server = server("move");
    for path in ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration/second"] {
        assert_eq!(get(&mut server, path).status, 200, "{path}");
    }
}

#[test]
fn faults() {
    let mut server = server("faults");
    let metadata = "/.well-known/oauth-authorization-server";
    let first = get(&mut server, metadata);
    assert_eq!((first.status, first.body.as_str(), first.fault), (503, "come back later", false));
    assert!(first.headers.contains(&("retry-after".to_owned(), "1".to_owned())));
    let methods = json_of(&get(&mut server, metadata))["code_challenge_methods_supported"].clone();
    assert_eq!(methods, json!(["plain", "S256"]));
    let answer = register(&mut server, &json!({ "redirect_uris": ["http://127.0.0.1:3003/callback"] }));
    assert_eq!(
        (json_of(&answer)["client_name"].as_str(), answer.fault),
        (Some("not what you asked for"), true)
    );
    assert!(!answer.headers.iter().any(|(name, _)| name == "cache-control"));
    let pairs = [("grant_type", "authorization_code"), ("code", "x")];
    let delays: Vec<Duration> = (0..2).map(|_| token(&mut server, "/oauth/v2/token", &pairs).delay).collect();
    assert_eq!(delays, [Duration::ZERO, Duration::from_millis(500)]);
    let refused = call(&mut server, "tools/list").unwrap_err();
    assert!(challenge(&refused).contains("resource_metadata=\"http://127.0.0.1:4004/metadata\""));
    assert!(challenge(&refused).contains("realm=\"127.0.0.1:2002\""));
}

/// Those of a file.
fn faults_in(path: &Path) -> Vec<AuthFault> {
    load::script(path).unwrap_or_else(|wrong| panic!("{}", wrong.render(false))).auth.unwrap().fault.0
}

#[test]
fn each_fault_is_in_one_catalogue() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/examples");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let catalogues =
        paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("auth-faults-"));
    let mut listed: Vec<String> =
        catalogues.flat_map(|path| faults_in(&path)).map(|fault| format!("{fault:?}")).collect();
    let mut all: Vec<String> = AuthFault::ALL.iter().map(|fault| format!("{fault:?}")).collect();
    listed.sort();
    all.sort();
    assert_eq!(listed, all);
}

/// Protected-resource metadata, where it stands for an endpoint with a path.
fn described(server: &mut AuthServer, path: &str) -> Value {
    let target = format!("/.well-known/oauth-protected-resource{path}");
    json_of(&server.resource_metadata(&request("GET", &target, &[], "")).unwrap())
}

#[test]
fn odd_places() {
    let mut choice = server("choice");
    let about = described(&mut choice, "/mcp");
    assert_eq!(about["resource"], "http://127.0.0.1:1001/mcp/");
    let servers = ["tenant1", "tenant2"].map(|tenant| format!("{AUTHORIZATION}/{tenant}"));
    assert_eq!(about["authorization_servers"], json!(servers));
    let mut root = server("wrong-root");
    assert_eq!(described(&mut root, "/mcp")["resource"], "HTTP://127.0.0.1:1001/mcp");
    for (server, place) in [
        (&mut choice, "/tenant1/.well-known/oauth-authorization-server"),
        (&mut root, "/.well-known/oauth-authorization-server"),
    ] {
        assert_eq!(get(server, place).status, 200);
        assert_eq!(get(server, "/.well-known/oauth-authorization-server/tenant1").status, 404);
    }
    assert_eq!(described(&mut server("step-up"), "")["resource"], "http://127.0.0.1:1001");
}

#[test]
fn who_wants_nonces_of_proofs() {
    let mut optional = server("dpop-optional");
    assert!(challenge(&call(&mut optional, "tools/list").unwrap_err()).contains("Bearer "));
    for name in ["dpop-token", "dpop-endpoint"] {
        let mut server = server(name);
        assert!(challenge(&call(&mut server, "tools/list").unwrap_err()).starts_with("DPoP "), "{name}");
    }
}

#[test]
fn changes_that_are_allowed() {
    let mut server = server("answers");
    let refused = call(&mut server, "tools/call").unwrap_err();
    assert!(challenge(&refused).contains("realm=\"127.0.0.1:2002\"") && !refused.fault);
    assert_eq!(described(&mut server, "/mcp")["resource_name"], "An endpoint");
    let metadata = get(&mut server, "/.well-known/openid-configuration");
    let document = json_of(&metadata);
    assert_eq!(document["service_documentation"], format!("{AUTHORIZATION}/help"));
    assert!(!metadata.fault);
    let keys = document["jwks_uri"].as_str().unwrap().strip_prefix(AUTHORIZATION).unwrap();
    let keys = get(&mut server, keys);
    assert!(keys.headers.contains(&("cache-control".to_owned(), "max-age=60".to_owned())));
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        // app:app-secret
        ("authorization", "Basic YXBwOmFwcC1zZWNyZXQ="),
    ];
    let body = format!(
        "grant_type=client_credentials&resource={}",
        RESOURCE.replace(':', "%3A").replace('/', "%2F")
    );
    let granted = server.handle(&request("POST", "/oauth/v2/token", &headers, &body), Duration::ZERO);
    assert_eq!(
        (granted.status, json_of(&granted)["environment"].as_str(), granted.fault),
        (200, Some("test"), false)
    );
}
