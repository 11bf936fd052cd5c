//! Flows of the authorization server that depend on a clock and on what is handed out beforehand, over real sockets.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use sparring_mock_servers::auth::jwt::KeyPair;
use sparring_mock_servers::auth::request::s256;
use sparring_mock_servers::http::{HttpMock, HttpSpec};
use sparring_mock_servers::script::ServerScript;
use sparring_mock_servers::sink::Sink;
use sparring_wire::Revision;
use sparring_wire::transcript::What;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

struct Nowhere;

impl Sink for Nowhere {
    fn event(&self, _: &str, _: Option<u32>, _: u64, _: What) {}
}

struct Fixture {
    mock: HttpMock,
    client: Client,
}

fn start(auth: &Value) -> Fixture {
    let script: ServerScript = serde_json::from_value(json!({ "tools": ["echo"], "auth": auth })).unwrap();
    let mock = HttpMock::start(HttpSpec {
        name: "mock".into(),
        script,
        revision: Revision::V2025_11_25,
        transport: sparring_wire::Transport::Http,
        seed: 1,
        sink: Arc::new(Nowhere),
        quiet: false,
        numbers: Arc::default(),
        port: 0,
    })
    .unwrap();
    let client = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    Fixture { mock, client }
}

impl Fixture {
    fn authorization(&self) -> &str {
        self.mock.authorization_origin().unwrap()
    }

    fn told(&self, name: &str) -> &str {
        self.mock.hand_out()[name].as_str().unwrap()
    }

    fn token_endpoint(&self) -> String {
        format!("{}/oauth/v2/token", self.authorization())
    }

    fn post(&self, url: &str, pairs: &[(&str, &str)]) -> RequestBuilder {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.client.post(url).header("content-type", "application/x-www-form-urlencoded").body(body)
    }

    fn initialize(&self) -> RequestBuilder {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "c", "version": "1" } });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        self.client
            .post(self.mock.url())
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(message.to_string())
    }
}

async fn answer(request: RequestBuilder) -> (StatusCode, Map<String, Value>) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_default())
}

fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")))
}

#[tokio::test]
async fn an_enterprise_manages_the_authorization() {
    let f = start(&json!({ "no_registration": true, "grants": ["jwt_bearer"],
        "preregistered": { "client_id": "app", "client_secret": "s" }, "identity_provider": {} }));
    let exchange = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
        ("subject_token", f.told("idp_id_token")),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", f.authorization()),
        ("resource", f.mock.url()),
        ("client_id", f.told("idp_client_id")),
    ];
    let (status, exchanged) = answer(f.post(f.told("idp_token_endpoint"), &exchange)).await;
    assert_eq!(status, StatusCode::OK, "{exchanged:?}");
    let assertion = exchanged["access_token"].as_str().unwrap();
    let pairs = [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", assertion)];
    let request = f.post(&f.token_endpoint(), &pairs).header("authorization", basic("app", "s"));
    let (status, tokens) = answer(request).await;
    assert_eq!(status, StatusCode::OK, "{tokens:?}");
    let field = format!("Bearer {}", tokens["access_token"].as_str().unwrap());
    assert_eq!(answer(f.initialize().header("authorization", field)).await.0, StatusCode::OK);
    f.mock.shutdown().await;
}

#[tokio::test]
async fn a_workload_is_known_by_its_assertion() {
    let f = start(&json!({ "no_registration": true, "grants": ["jwt_bearer"], "workload": {} }));
    for (name, expected) in [
        ("expired_jwt", StatusCode::BAD_REQUEST),
        ("wrong_audience_jwt", StatusCode::BAD_REQUEST),
        ("valid_jwt", StatusCode::OK),
    ] {
        let pairs =
            [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", f.told(name))];
        assert_eq!(answer(f.post(&f.token_endpoint(), &pairs)).await.0, expected, "{name}");
    }
    f.mock.shutdown().await;
}

#[tokio::test]
async fn a_token_is_bound_to_a_key_with_nonces_at_both() {
    let f = start(&json!({ "dpop": { "required": true, "nonce": "both" } }));
    let key = KeyPair::from_seed(3, "the client's").unwrap();
    let proof = |number: u32, url: &str, token: Option<&str>, nonce: Option<&str>| {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({ "htm": "POST", "htu": url, "iat": unix, "jti": number.to_string() });
        if let Some(token) = token {
            claims["ath"] = json!(BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(token)));
        }
        if let Some(nonce) = nonce {
            claims["nonce"] = json!(nonce);
        }
        key.sign("dpop+jwt", &json!({ "jwk": key.jwk() }), &claims)
    };
    let callback = "http://127.0.0.1:9/callback";
    let register = f
        .client
        .post(format!("{}/oauth/v2/register", f.authorization()))
        .header("content-type", "application/json")
        .body(json!({ "redirect_uris": [callback], "token_endpoint_auth_method": "none" }).to_string());
    let registered = answer(register).await.1;
    let id = registered["client_id"].as_str().unwrap();
    let verifier = "v".repeat(50);
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("response_type", "code"),
            ("client_id", id),
            ("redirect_uri", callback),
            ("code_challenge", &s256(&verifier)),
            ("code_challenge_method", "S256"),
            ("resource", f.mock.url()),
        ])
        .finish();
    let authorize = format!("{}/oauth/v2/authorize?{query}", f.authorization());
    let redirect = f.client.get(authorize).send().await.unwrap();
    let location = url::Url::parse(redirect.headers()["location"].to_str().unwrap()).unwrap();
    let code = location.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();

    let pairs = [
        ("grant_type", "authorization_code"),
        ("client_id", id),
        ("code", &code),
        ("code_verifier", &verifier),
        ("resource", f.mock.url()),
    ];
    let endpoint = f.token_endpoint();
    let first =
        f.post(&endpoint, &pairs).header("dpop", proof(1, &endpoint, None, None)).send().await.unwrap();
    assert_eq!(first.status(), StatusCode::BAD_REQUEST);
    let nonce = first.headers()["dpop-nonce"].to_str().unwrap().to_owned();
    let request = f.post(&endpoint, &pairs).header("dpop", proof(2, &endpoint, None, Some(&nonce)));
    let (status, tokens) = answer(request).await;
    assert_eq!((status, &tokens["token_type"]), (StatusCode::OK, &json!("DPoP")), "{tokens:?}");

    let token = tokens["access_token"].as_str().unwrap();
    let send = async |number: u32, nonce: Option<&str>| {
        let request = f.initialize().header("authorization", format!("DPoP {token}"));
        request.header("dpop", proof(number, f.mock.url(), Some(token), nonce)).send().await.unwrap()
    };
    let refused = send(3, Some(&nonce)).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "the nonce is that of the other server");
    let own = refused.headers()["dpop-nonce"].to_str().unwrap().to_owned();
    assert_eq!(send(4, Some(&own)).await.status(), StatusCode::OK);
    assert_eq!(send(4, Some(&own)).await.status(), StatusCode::UNAUTHORIZED, "a proof is used once");
    f.mock.shutdown().await;
}
