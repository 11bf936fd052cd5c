//! Grants without a user, and clients that sign.

use super::*;
use crate::auth::jwt::{Jwt, KeyPair};
use crate::auth::token::JWT_BEARER;
use crate::script::{GrantType, IdentityProvider, JsonText, Workload};

const UNIX: i64 = 1_800_000_000;
const TOKEN: &str = "http://127.0.0.1:2002/oauth/v2/token";

fn server(script: &AuthScript) -> AuthServer {
    AuthServer::new(script.clone(), Revision::V2025_11_25, RESOURCE.into(), AUTHORIZATION.into(), 7)
        .with_clock(UNIX)
}

/// A changed set of parameters: each of them with another value, or left out.
fn without<'a>(pairs: &[(&'a str, &'a str)], name: &str) -> Vec<(&'a str, &'a str)> {
    pairs.iter().filter(|(known, _)| *known != name).copied().collect()
}

fn with<'a>(pairs: &[(&'a str, &'a str)], name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut all = without(pairs, name);
    all.push((name, value));
    all
}

fn post(server: &mut AuthServer, url: &str, pairs: &[(&str, &str)], basic: Option<(&str, &str)>) -> Answer {
    let basic =
        basic.map(|(id, secret)| format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}"))));
    let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
    headers.extend(basic.as_deref().map(|basic| ("authorization", basic)));
    server.handle(&http("POST", url, &headers, &form(pairs)), Duration::ZERO)
}

fn works(server: &mut AuthServer, answer: &Answer) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let tokens: Value = serde_json::from_str(&answer.body).unwrap();
    assert!(tokens.get("refresh_token").is_none());
    let field = format!("Bearer {}", token_of(&tokens));
    let sent = http("POST", RESOURCE, &[("authorization", &field)], "{}");
    server.admit(&sent, Some("tools/list"), Duration::ZERO).unwrap();
}

fn reason(answer: &Answer) -> String {
    let document: Value = serde_json::from_str(&answer.body).unwrap();
    document["error_description"].as_str().unwrap().to_owned()
}

fn machine(methods: &[ClientAuthentication], secret: Option<&str>) -> AuthScript {
    AuthScript {
        no_registration: true,
        grants: vec![GrantType::ClientCredentials],
        preregistered: Some(PreregisteredClient {
            client_id: "machine".into(),
            client_secret: secret.map(str::to_owned),
            keys: None,
        }),
        client_authentication: methods.to_vec(),
        refresh: true,
        ..AuthScript::default()
    }
}

#[test]
fn client_credentials_with_a_secret() {
    let script = machine(&[ClientAuthentication::ClientSecretBasic], Some("machine-secret"));
    let mut server = server(&script);
    let good = [("grant_type", "client_credentials"), ("resource", RESOURCE), ("scope", "a")];
    let known = Some(("machine", "machine-secret"));
    let answer = post(&mut server, TOKEN, &good, known);
    works(&mut server, &answer);
    for (pairs, basic, error) in [
        (good.to_vec(), Some(("machine", "wrong")), "invalid_client"),
        (good.to_vec(), None, "invalid_client"),
        (without(&good, "resource"), known, "invalid_target"),
        (without(&good, "grant_type"), known, "invalid_request"),
        (with(&good, "grant_type", "password"), known, "unsupported_grant_type"),
        (with(&good, "grant_type", "authorization_code"), known, "unsupported_grant_type"),
        (with(&good, "grant_type", JWT_BEARER), known, "unsupported_grant_type"),
    ] {
        assert_eq!(error_of(&post(&mut server, TOKEN, &pairs, basic)), error, "{pairs:?}");
    }
    assert_eq!(
        Value::from(server.hand_out(Duration::ZERO)),
        json!({ "client_id": "machine",
        "client_secret": "machine-secret", "issuer": AUTHORIZATION })
    );
    let sent = http("GET", &format!("{AUTHORIZATION}/.well-known/oauth-authorization-server"), &[], "");
    let document: Value = serde_json::from_str(&server.handle(&sent, Duration::ZERO).body).unwrap();
    assert_eq!(document["grant_types_supported"], json!(["client_credentials", "refresh_token"]));
}

#[test]
fn client_credentials_need_a_client_that_authenticates() {
    let script = machine(&[ClientAuthentication::None], None);
    let mut server = server(&script);
    let pairs = [("grant_type", "client_credentials"), ("resource", RESOURCE), ("client_id", "machine")];
    assert_eq!(error_of(&post(&mut server, TOKEN, &pairs, None)), "unauthorized_client");
    // Nor is there a code to be had.
    let challenge = s256(VERIFIER);
    let query = form(&[
        ("response_type", "code"),
        ("client_id", "machine"),
        ("redirect_uri", CALLBACK),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("resource", RESOURCE),
    ]);
    let url = format!("{AUTHORIZATION}/oauth/v2/authorize?{query}");
    let answer = server.handle(&http("GET", &url, &[], ""), Duration::ZERO);
    assert_eq!(location(&answer)["error"], "unauthorized_client");
}

#[test]
fn private_key_jwt_is_checked_in_each_part() {
    let key = KeyPair::from_seed(5, "mine").unwrap();
    let mut script = machine(&[ClientAuthentication::PrivateKeyJwt], None);
    script.preregistered.as_mut().unwrap().keys = Some(JsonText(json!({ "keys": [key.jwk()] })));
    let mut server = server(&script);
    let claims = |number: u32| {
        json!({ "iss": "machine", "sub": "machine", "aud": AUTHORIZATION, "exp": UNIX + 60, "iat": UNIX,
            "jti": format!("assertion {number}") })
    };
    let mut ask = |assertion: &str, kind: &str| {
        let pairs = [
            ("grant_type", "client_credentials"),
            ("resource", RESOURCE),
            ("client_assertion_type", kind),
            ("client_assertion", assertion),
        ];
        let answer = post(&mut server, TOKEN, &pairs, None);
        if answer.status == 200 {
            works(&mut server, &answer);
            return "good".to_owned();
        }
        assert_eq!(error_of(&answer), "invalid_client");
        reason(&answer)
    };
    let sign = |claims: &Value| key.sign("JWT", &json!({}), claims);
    assert_eq!(ask(&sign(&claims(1)), ASSERTION_TYPE), "good");
    assert_eq!(ask(&sign(&claims(1)), ASSERTION_TYPE), "the assertion was used before");
    for (number, audience) in
        [(2, json!(format!("{AUTHORIZATION}/"))), (3, json!([TOKEN])), (4, json!(TOKEN))]
    {
        let mut claims = claims(number);
        claims["aud"] = audience;
        assert_eq!(ask(&sign(&claims), ASSERTION_TYPE), "good", "{claims}");
    }
    for (name, value, reason) in [
        ("iss", json!("other"), "`iss` of the assertion is not the client"),
        ("sub", json!(null), "`sub` of the assertion is missing"),
        ("aud", json!("https://wrong.example"), "`aud` of the assertion is not this server"),
        ("aud", json!(null), "`aud` of the assertion is not this server"),
        ("exp", json!(UNIX), "the assertion has expired, or does not say when"),
        ("exp", json!(null), "the assertion has expired, or does not say when"),
        ("iat", json!(UNIX + 61), "the assertion is not good yet"),
        ("nbf", json!(UNIX + 61), "the assertion is not good yet"),
    ] {
        let mut claims = claims(9);
        claims[name] = value;
        assert_eq!(ask(&sign(&claims), ASSERTION_TYPE), reason, "{claims}");
    }
    let mut unknown = claims(9);
    (unknown["iss"], unknown["sub"]) = (json!("nobody"), json!("nobody"));
    assert_eq!(ask(&sign(&unknown), ASSERTION_TYPE), "the client is unknown");
    let other = KeyPair::from_seed(6, "mine").unwrap().sign("JWT", &json!({}), &claims(9));
    assert_eq!(ask(&other, ASSERTION_TYPE), "the assertion is not signed by the client, with ES256 or RS256");
    assert_eq!(ask("no.jwt", ASSERTION_TYPE), "the assertion is no JWT");
    assert_eq!(ask(&sign(&claims(9)), "something"), "the type of the assertion is not known");
}

#[test]
fn the_key_of_the_hand_out_is_the_one_that_is_known() {
    let script = machine(&[ClientAuthentication::PrivateKeyJwt], None);
    let server = server(&script);
    let hand_out = server.hand_out(Duration::ZERO);
    assert_eq!(hand_out["signing_algorithm"], "ES256");
    let own = KeyPair::from_seed(7, "client").unwrap();
    assert_eq!(hand_out["private_key_pem"].as_str(), own.pem().as_deref());
    assert!(
        !format!("{server:?}").contains(own.pem().unwrap().lines().nth(1).unwrap()),
        "no secret is shown"
    );
}

#[test]
fn a_client_can_register_its_keys() {
    let script = AuthScript {
        client_authentication: vec![ClientAuthentication::PrivateKeyJwt],
        ..AuthScript::default()
    };
    let key = KeyPair::from_seed(5, "mine").unwrap();
    let mut server = server(&script);
    let mut register = |body: Value| {
        let url = format!("{AUTHORIZATION}/oauth/v2/register");
        let sent = http("POST", &url, &[("content-type", "application/json")], &body.to_string());
        server.handle(&sent, Duration::ZERO)
    };
    let mut body = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "private_key_jwt" });
    assert_eq!(error_of(&register(body.clone())), "invalid_client_metadata");
    body["jwks"] = json!({ "keys": [key.jwk()] });
    let answer: Value = serde_json::from_str(&register(body).body).unwrap();
    assert_eq!(answer["token_endpoint_auth_method"], "private_key_jwt");
    assert!(answer.get("client_secret").is_none());
}

#[test]
fn a_workload_gets_tokens_for_its_assertions() {
    let script = AuthScript {
        no_registration: true,
        grants: vec![GrantType::JwtBearer],
        workload: Some(Workload::default()),
        ..AuthScript::default()
    };
    let mut server = server(&script);
    let hand_out = server.hand_out(Duration::ZERO);
    assert_eq!(hand_out["client_id"], "conformance-wif-workload");
    let jwt = |name: &str| hand_out[name].as_str().unwrap().to_owned();
    let read = Jwt::read(&jwt("valid_jwt")).unwrap();
    assert_eq!(read.text("iss"), Some("https://idp.conformance-test.local"));
    assert_eq!(read.text("sub"), Some("conformance-workload"));
    let mut ask = |assertion: &str, more: &[(&str, &str)]| {
        let mut pairs = vec![("grant_type", JWT_BEARER), ("assertion", assertion)];
        pairs.extend(more);
        let answer = post(&mut server, TOKEN, &pairs, None);
        if answer.status == 200 {
            works(&mut server, &answer);
            return "good".to_owned();
        }
        format!("{}: {}", error_of(&answer), reason(&answer))
    };
    let good = jwt("valid_jwt");
    assert_eq!(ask(&good, &[]), "good");
    assert_eq!(ask(&good, &[("client_id", "conformance-wif-workload"), ("resource", RESOURCE)]), "good");
    assert_eq!(
        ask(&good, &[("resource", OTHER_RESOURCE)]),
        "invalid_target: `resource` is not the MCP endpoint"
    );
    assert_eq!(ask(&good, &[("client_id", "x")]), "invalid_client: the client is not named, or unknown");
    for (assertion, reason) in [
        (jwt("wrong_audience_jwt"), "`aud` of the assertion is not this server"),
        (jwt("expired_jwt"), "the assertion has expired, or does not say when"),
        ("nonsense".to_owned(), "the assertion is no JWT"),
    ] {
        assert_eq!(ask(&assertion, &[]), format!("invalid_grant: {reason}"));
    }
    let signer = KeyPair::from_seed(7, "workload").unwrap();
    let mut claims = Value::Object(read.claims);
    claims["sub"] = json!("another");
    let forged = signer.sign("JWT", &json!({}), &claims);
    assert_eq!(ask(&forged, &[]), "invalid_grant: `sub` of the assertion is not the workload");
    claims["iss"] = json!("https://elsewhere.example");
    let forged = signer.sign("JWT", &json!({}), &claims);
    assert_eq!(ask(&forged, &[]), "invalid_grant: the assertion is of an issuer that is not trusted");
    let (signed, _) = good.rsplit_once('.').unwrap();
    assert_eq!(ask(&format!("{signed}.AAAA"), &[]), "invalid_grant: the signature of the assertion is wrong");
}

#[test]
fn an_identity_assertion_is_exchanged_and_redeemed() {
    let script = AuthScript {
        no_registration: true,
        grants: vec![GrantType::JwtBearer],
        preregistered: Some(PreregisteredClient {
            client_id: "app".into(),
            client_secret: Some("app-secret".into()),
            keys: None,
        }),
        identity_provider: Some(IdentityProvider::default()),
        ..AuthScript::default()
    };
    let mut server = server(&script);
    let hand_out = server.hand_out(Duration::ZERO);
    let text = |name: &str| hand_out[name].as_str().unwrap().to_owned();
    let (provider, id_token) = (text("idp_token_endpoint"), text("idp_id_token"));
    assert_eq!(provider, format!("{}/token", text("idp_issuer")));
    let exchange = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
        ("subject_token", id_token.as_str()),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", AUTHORIZATION),
        ("resource", RESOURCE),
        ("client_id", "sparring-idp-client"),
    ];
    for (name, _) in exchange {
        assert_eq!(
            error_of(&post(&mut server, &provider, &without(&exchange, name), None)),
            "invalid_request"
        );
    }
    for (name, wrong, error) in [
        ("grant_type", "authorization_code", "unsupported_grant_type"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token", "invalid_request"),
        ("subject_token", "nonsense", "invalid_grant"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:saml2", "invalid_request"),
        ("audience", "https://wrong.example", "invalid_target"),
        ("resource", OTHER_RESOURCE, "invalid_target"),
        ("client_id", "app", "invalid_client"),
    ] {
        let answer = post(&mut server, &provider, &with(&exchange, name, wrong), None);
        assert_eq!(error_of(&answer), error, "{name}");
    }
    let answer = post(&mut server, &provider, &exchange, None);
    let document: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(document["issued_token_type"], "urn:ietf:params:oauth:token-type:id-jag");
    assert_eq!(document["token_type"], "N_A");
    let jag = document["access_token"].as_str().unwrap().to_owned();

    let redeem = [("grant_type", JWT_BEARER), ("assertion", jag.as_str())];
    assert_eq!(error_of(&post(&mut server, TOKEN, &redeem, Some(("app", "wrong")))), "invalid_client");
    let answer = post(&mut server, TOKEN, &redeem, Some(("app", "app-secret")));
    works(&mut server, &answer);
    let again = post(&mut server, TOKEN, &redeem, Some(("app", "app-secret")));
    assert_eq!(reason(&again), "the assertion was used before, or has no `jti`");

    // Each claim of the assertion is looked at.
    let signer = KeyPair::from_seed(7, "provider").unwrap();
    let claims = Value::Object(Jwt::read(&jag).unwrap().claims);
    for (name, value, expected) in [
        ("iss", json!("https://elsewhere.example"), "the assertion is of an issuer that is not trusted"),
        ("aud", json!(RESOURCE), "`aud` of the assertion is not this server"),
        ("client_id", json!("another"), "`client_id` of the assertion is not the client"),
        ("resource", json!(OTHER_RESOURCE), "`resource` of the assertion is not the MCP endpoint"),
        ("exp", json!(UNIX - 1), "the assertion has expired, or does not say when"),
        ("jti", json!(null), "the assertion was used before, or has no `jti`"),
    ] {
        let mut claims = claims.clone();
        claims["jti"] = json!("another");
        claims[name] = value;
        let forged = signer.sign("oauth-id-jag+jwt", &json!({}), &claims);
        let pairs = with(&redeem, "assertion", &forged);
        assert_eq!(reason(&post(&mut server, TOKEN, &pairs, Some(("app", "app-secret")))), expected);
    }
    let forged = signer.sign("JWT", &json!({}), &claims);
    let pairs = with(&redeem, "assertion", &forged);
    let refused = post(&mut server, TOKEN, &pairs, Some(("app", "app-secret")));
    assert_eq!(reason(&refused), "`typ` of the assertion is not `oauth-id-jag+jwt`");
    // The ID token is no assertion, and not for another client.
    let pairs = with(&redeem, "assertion", &id_token);
    assert_eq!(error_of(&post(&mut server, TOKEN, &pairs, Some(("app", "app-secret")))), "invalid_grant");
}
