//! Grants without a person, and tokens that are bound to a key.

use crate::oauth_world::{Person, Verdict, World, client, oauth, with};
use crate::support::{Request, Server, args};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sparring_client::oauth::{
    Assertion, ClientKey, CredentialStore, EnterpriseGrant, Grant, MemoryStore, TokenKind,
};
use sparring_client::{Connection, Error, OauthSettings, RegisteredClient};
use std::collections::HashSet;
use std::sync::Arc;

/// A key that is used here only.
const PEM: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2
OF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r
1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G
-----END PRIVATE KEY-----
";

/// Its public half.
fn jwk() -> Value {
    json!({"x": "EVs_o5-uQbTjL3chynL4wXgUg2R9q9UU8I5mEovUf84", "y": "kGe5DgSIycKp8w9aJmoHhB1sB3QTugfnRWm5nU_TzsY"})
}

/// Header and claims of a token that this key signed.
fn read(token: &str, jwk: &Value) -> (Value, Value) {
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
    let mut point = vec![4];
    point.extend(bytes(jwk["x"].as_str().unwrap()));
    point.extend(bytes(jwk["y"].as_str().unwrap()));
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let key = VerifyingKey::from_sec1_bytes(&point).unwrap();
    key.verify(signed.as_bytes(), &Signature::from_slice(&bytes(signature)).unwrap()).unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let json = |text: &str| serde_json::from_slice(&bytes(text)).unwrap();
    (json(header), json(claims))
}

fn machine(grant: Grant, secret: Option<&str>) -> OauthSettings {
    let known = RegisteredClient { issuer: None, id: "me".into(), secret: secret.map(str::to_owned) };
    OauthSettings { grant, registered: vec![known], ..OauthSettings::default() }
}

async fn connect(server: &Server, oauth: OauthSettings) -> Result<Connection, Error> {
    let store = Arc::new(MemoryStore::default()) as Arc<dyn CredentialStore>;
    // Nobody is there to be asked.
    client(
        &Arc::new(Person { answer: Some(("code=", "error=nobody&x=")), ..Person::default() }),
        &store,
        with(oauth),
    )
    .connect("s", &server.target())
    .await
}

#[tokio::test]
async fn a_client_acts_for_itself_by_its_secret() {
    let mut world = World::new();
    world.resource = json!({"scopes_supported": ["read"]});
    world.server = json!({"authorization_endpoint": null, "token_endpoint_auth_methods_supported": ["client_secret_basic"]});
    let server = world.start().await;
    connect(&server, machine(Grant::ClientCredentials, Some("se cret")))
        .await
        .unwrap()
        .tools()
        .await
        .unwrap();
    let [token] = server.log.of("/as/token").try_into().unwrap();
    let expected = format!("Basic {}", STANDARD.encode("me:se+cret"));
    assert_eq!(token.header("authorization"), Some(expected.as_str()));
    let resource = format!("{}/mcp", server.origin);
    for (name, value) in [("grant_type", "client_credentials"), ("resource", &resource), ("scope", "read")] {
        assert_eq!(token.field(name).as_deref(), Some(value), "{name}");
    }
    assert!(token.field("client_secret").is_none() && server.log.of("/as/register").is_empty());
}

#[tokio::test]
async fn a_client_acts_for_itself_by_its_key() {
    let mut world = World::new();
    world.server = json!({"token_endpoint_auth_methods_supported": ["private_key_jwt"]});
    let server = world.start().await;
    let key = ClientKey::from_pem(PEM).unwrap().named("k1");
    let oauth = OauthSettings { key: Some(key), ..machine(Grant::ClientCredentials, None) };
    let connection = connect(&server, oauth.clone()).await.unwrap();
    connection.tools().await.unwrap();
    connect(&server, oauth).await.unwrap();
    let tokens = server.log.of("/as/token");
    let claims: Vec<Value> = tokens
        .iter()
        .map(|token| {
            assert_eq!(
                token.field("client_assertion_type").as_deref(),
                Some("urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
            );
            assert!(token.field("client_id").is_none() && token.header("authorization").is_none());
            let (header, claims) = read(&token.field("client_assertion").unwrap(), &jwk());
            assert_eq!((&header["alg"], &header["kid"]), (&json!("ES256"), &json!("k1")));
            claims
        })
        .collect();
    assert_eq!((&claims[0]["iss"], &claims[0]["sub"]), (&json!("me"), &json!("me")));
    assert_eq!(claims[0]["aud"], server.origin.as_str());
    let lifetime = claims[0]["exp"].as_u64().unwrap() - claims[0]["iat"].as_u64().unwrap();
    assert!((1..=300).contains(&lifetime));
    assert_ne!(claims[0]["jti"], claims[1]["jti"]);
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let server = World::new().start().await;
    let none = OauthSettings { grant: Grant::ClientCredentials, ..OauthSettings::default() };
    for (oauth, words) in [
        (none, "the settings have none"),
        (machine(Grant::ClientCredentials, None), "neither a secret nor a key"),
        (machine(Grant::Workload(Assertion::File("/nonexistent/token".into())), None), "/nonexistent/token"),
    ] {
        let error = connect(&server, oauth).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(server.log.of("/as/token").is_empty());
}

#[tokio::test]
async fn a_machine_renews_its_token_before_it_expires() {
    let mut world = World::new();
    world.tokens = Arc::new(|n, _| {
        (200, json!({"access_token": format!("t{n}"), "token_type": "Bearer", "expires_in": 1}))
    });
    let server = world.start().await;
    let connection = connect(&server, machine(Grant::ClientCredentials, Some("s"))).await.unwrap();
    connection.call("echo", args("x")).await.unwrap();
    let sent: Vec<_> =
        server.log.of("/mcp").iter().map(|r| r.header("authorization").map(str::to_owned)).collect();
    assert!(sent[0].is_none() && sent[1..].iter().all(Option::is_some), "{sent:?}");
    assert_ne!(sent[1], *sent.last().unwrap());
}

fn enterprise(idp: &str) -> Grant {
    Grant::Enterprise(EnterpriseGrant {
        token_endpoint: format!("{idp}/as/token"),
        client_id: "at-idp".into(),
        client_secret: Some("idp-secret".into()),
        subject: Assertion::Text("the-id-token".into()),
        subject_type: EnterpriseGrant::ID_TOKEN.into(),
    })
}

/// An identity provider that answers with this.
async fn idp(status: u16, answer: Value) -> Server {
    World { tokens: Arc::new(move |_, _| (status, answer.clone())), ..World::new() }.start().await
}

#[tokio::test]
async fn an_enterprise_vouches_for_its_people() {
    let jag = "urn:ietf:params:oauth:token-type:id-jag";
    let idp =
        idp(200, json!({"issued_token_type": jag, "access_token": "the-jag", "token_type": "N_A"})).await;
    let mut world = World::new();
    world.resource = json!({"scopes_supported": ["read"]});
    let server = world.start().await;
    connect(&server, machine(enterprise(&idp.origin), Some("secret"))).await.unwrap();
    let exchange = &idp.log.of("/as/token")[0];
    let resource = format!("{}/mcp", server.origin);
    for (name, value) in [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", jag),
        ("audience", &server.origin),
        ("resource", &resource),
        ("scope", "read"),
        ("subject_token", "the-id-token"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("client_id", "at-idp"),
        ("client_secret", "idp-secret"),
    ] {
        assert_eq!(exchange.field(name).as_deref(), Some(value), "{name}");
    }
    let token = &server.log.of("/as/token")[0];
    assert_eq!(token.field("grant_type").as_deref(), Some("urn:ietf:params:oauth:grant-type:jwt-bearer"));
    assert_eq!(token.field("assertion").as_deref(), Some("the-jag"));
    let expected = format!("Basic {}", STANDARD.encode("me:secret"));
    assert_eq!(token.header("authorization"), Some(expected.as_str()));
    // Neither side sees what is meant for the other.
    for request in server.log.all() {
        assert!(!request.body.contains("the-id-token") && !request.body.contains("idp-secret"));
    }
}

#[tokio::test]
async fn an_identity_provider_may_say_no() {
    let no = (400, json!({"error": "invalid_grant", "error_description": "not for you"}));
    let other = (200, json!({"issued_token_type": "urn:x:access_token", "access_token": "a"}));
    for ((status, answer), words) in [(no, "not for you"), (other, "something else than was asked for")] {
        let idp = idp(status, answer).await;
        let server = World::new().start().await;
        let error = connect(&server, machine(enterprise(&idp.origin), Some("s"))).await.unwrap_err();
        assert!(
            error.to_string().contains("identity provider") && error.to_string().contains(words),
            "{error}"
        );
        assert!(server.log.of("/as/token").is_empty());
    }
}

#[tokio::test]
async fn a_workload_shows_what_its_platform_gave_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "the-assertion\n").unwrap();
    let server = World::new().start().await;
    connect(&server, machine(Grant::Workload(Assertion::File(path)), None)).await.unwrap();
    let token = &server.log.of("/as/token")[0];
    assert_eq!(token.field("assertion").as_deref(), Some("the-assertion"));
    assert_eq!(token.field("client_id").as_deref(), Some("me"));

    // The assertion alone may do.
    let oauth =
        OauthSettings { grant: Grant::Workload(Assertion::Text("alone".into())), ..OauthSettings::default() };
    connect(&server, oauth).await.unwrap();
    let token = &server.log.of("/as/token")[1];
    assert_eq!((token.field("assertion").as_deref(), token.field("client_id")), (Some("alone"), None));
}

#[tokio::test]
async fn a_refusal_of_an_assertion_is_final() {
    let mut world = World::new();
    world.tokens = Arc::new(|_, _| (400, json!({"error": "invalid_grant"})));
    let server = world.start().await;
    let grant = Grant::Workload(Assertion::Text("a".into()));
    let error = connect(&server, machine(grant, None)).await.unwrap_err();
    assert!(error.to_string().contains("invalid_grant"), "{error}");
    assert_eq!(server.log.of("/as/token").len(), 1);
    assert!(server.log.of("/as/register").is_empty());
}

// ---- proofs ----

/// Demands bound tokens, and nonces in their proofs if told so.
async fn bound(nonces: bool) -> Server {
    let nonce = |request: &Request| {
        let proof = request.header("dpop").unwrap();
        let (header, _) = proof.split_once('.').unwrap();
        let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
        read(proof, &header["jwk"]).1["nonce"].as_str().map(str::to_owned)
    };
    let mut world = World::new();
    world.server = json!({"dpop_signing_alg_values_supported": ["RS256", "ES256"]});
    world.tokens = Arc::new(|n, _| {
        (
            200,
            json!({"access_token": format!("t{n}"), "token_type": "dpop", "refresh_token": "r", "expires_in": 1}),
        )
    });
    world.judge = Arc::new(|_, _| Verdict::Good);
    Server::start(move |mut x| {
        let world = world.clone();
        Box::pin(async move {
            let bare = x.request.header("authorization").is_none();
            let path = x.request.path().to_owned();
            match path.as_str() {
                "/mcp" if bare => {
                    x.reply(401, &[("WWW-Authenticate", r#"DPoP algs="ES256""#)], "").await;
                }
                "/mcp" if nonces && nonce(&x.request).as_deref() != Some("of-rs") => {
                    let challenge = ("WWW-Authenticate", r#"DPoP error="use_dpop_nonce""#);
                    x.reply(401, &[challenge, ("DPoP-Nonce", "of-rs")], "").await;
                }
                "/as/token" if nonces && nonce(&x.request).as_deref() != Some("of-as") => {
                    let body = r#"{"error": "use_dpop_nonce"}"#;
                    x.reply(400, &[("DPoP-Nonce", "of-as")], body).await;
                }
                _ => world.answer(x).await,
            }
        })
    })
    .await
}

#[tokio::test]
async fn bound_tokens_come_with_fresh_proofs() {
    for nonces in [false, true] {
        let server = bound(nonces).await;
        let (person, store) =
            (Arc::new(Person::default()), Arc::new(MemoryStore::default()) as Arc<dyn CredentialStore>);
        let client = client(&person, &store, with(oauth()));
        let connection = client.connect("s", &server.target()).await.unwrap();
        connection.call("echo", args("x")).await.unwrap();
        connection.close().await;

        let records = store.of_server(&format!("{}/mcp", server.origin)).await.unwrap();
        assert_eq!(records[0].1.tokens.as_ref().unwrap().kind, TokenKind::Dpop);
        let (mut ids, mut keys) = (HashSet::new(), HashSet::new());
        for request in server.log.all() {
            let target = format!("{}{}", server.origin, request.path());
            let Some(proof) = request.header("dpop") else {
                assert!(request.header("authorization").is_none() && request.path() != "/as/token");
                continue;
            };
            let (header, _) = proof.split_once('.').unwrap();
            let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
            let (header, claims) = read(proof, &header["jwk"]);
            assert!(header["jwk"].get("d").is_none());
            assert_eq!((&claims["htm"], &claims["htu"]), (&json!(request.method), &json!(target)));
            assert!(ids.insert(claims["jti"].to_string()), "a proof came twice");
            keys.insert(header["jwk"].to_string());
            match request.header("authorization") {
                Some(sent) => {
                    let token = sent.strip_prefix("DPoP ").unwrap();
                    let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(token));
                    assert_eq!(claims["ath"], hash);
                }
                None => assert!(claims.get("ath").is_none()),
            }
        }
        assert_eq!(keys.len(), 1, "the tokens, refreshed ones too, are bound to one key");
        assert!(server.log.of("/as/token").len() > 2);

        // Another process has the key from the store.
        let again = Arc::new(Person::default());
        let other = crate::oauth_world::client(&again, &store, with(oauth()));
        other.connect("s", &server.target()).await.unwrap().tools().await.unwrap();
        assert_eq!(again.count(), 0);
    }
}

#[tokio::test]
async fn tokens_are_bound_only_where_that_is_wanted_and_possible() {
    for (listed, required, settings, bound) in [
        (json!(["ES256"]), true, oauth(), true),
        (json!(["ES256"]), false, oauth(), false),
        (json!(["RS256"]), true, oauth(), false),
        (json!(["ES256"]), true, OauthSettings { proofs: false, ..oauth() }, false),
    ] {
        let mut world = World::new();
        world.server = json!({"dpop_signing_alg_values_supported": listed});
        world.resource = json!({"dpop_bound_access_tokens_required": required});
        let server = world.start().await;
        crate::oauth_world::connect(&server, &Arc::default(), with(settings)).await.unwrap();
        assert_eq!(server.log.of("/as/token")[0].header("dpop").is_some(), bound);
    }
}
