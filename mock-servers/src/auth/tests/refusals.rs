//! What a server can be strict about, and what it can forget.

use super::*;
use crate::script::{JsonText, StepUpNames};

#[test]
fn an_application_type_has_to_fit_where_that_is_enforced() {
    for (kind, uri, good) in [
        (Some("native"), CALLBACK, true),
        (Some("native"), "https://client.example/cb", true),
        (Some("web"), CALLBACK, false),
        (Some("web"), "https://127.0.0.1/cb", false),
        (Some("web"), "https://client.example/cb", true),
        (None, CALLBACK, false),
        (None, "https://client.example/cb", true),
        (Some("other"), CALLBACK, false),
    ] {
        for enforce_application_type in [false, true] {
            let script = AuthScript { enforce_application_type, ..AuthScript::default() };
            let mut client = Client::new(&script, Revision::V2026_07_28);
            let mut body = json!({ "redirect_uris": [uri] });
            if let Some(kind) = kind {
                body["application_type"] = json!(kind);
            }
            let url = format!("{AUTHORIZATION}/oauth/v2/register");
            let headers = [("content-type", "application/json")];
            let answer = client.send(&http("POST", &url, &headers, &body.to_string()), &url);
            assert_eq!(answer.status == 201, good || !enforce_application_type, "{kind:?} {uri}");
        }
    }
}

#[test]
fn the_port_of_a_redirect_uri_can_count() {
    for exact_redirect in [false, true] {
        let script = AuthScript { exact_redirect, ..AuthScript::default() };
        let mut client = Client::new(&script, Revision::V2025_11_25);
        let known = client.discover().unwrap();
        let elsewhere = [("redirect_uri", Some("http://127.0.0.1:3004/callback"))];
        assert_eq!(client.authorize(&known, &elsewhere).status, if exact_redirect { 400 } else { 302 });
        assert_eq!(client.authorize(&known, &[]).status, 302);
    }
}

#[test]
fn a_registered_client_can_be_forgotten() {
    let script = AuthScript { client_grants: Some(2), refresh: true, ..AuthScript::default() };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let (known, tokens) = client.tokens();
    let refresh = tokens["refresh_token"].as_str().unwrap().to_owned();
    let answer = client.refresh(&known, &refresh, &[]);
    assert_eq!(answer.status, 200);
    let tokens: Value = serde_json::from_str(&answer.body).unwrap();
    client.rpc("use", "ping", Some(token_of(&tokens))).unwrap();
    assert_eq!(error_of(&client.refresh(&known, &refresh, &[])), "invalid_client");
    assert_eq!(client.authorize(&known, &[]).status, 400);
    // Who registers again is known.
    assert_eq!(client.tokens().1["token_type"], "Bearer");
}

#[test]
fn refresh_tokens_can_expire() {
    let script = AuthScript { refresh: true, refresh_expires_in: Some(60), ..AuthScript::default() };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let (known, tokens) = client.tokens();
    let refresh = tokens["refresh_token"].as_str().unwrap();
    client.now = Duration::from_millis(59_999);
    assert_eq!(client.refresh(&known, refresh, &[]).status, 200);
    client.now = seconds(60);
    assert_eq!(error_of(&client.refresh(&known, refresh, &[])), "invalid_grant");
}

#[test]
fn tokens_can_be_revoked() {
    let script = AuthScript { refresh: true, revocation: true, ..AuthScript::default() };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let answer = client.get("", &format!("{AUTHORIZATION}/.well-known/oauth-authorization-server"));
    let metadata: Value = serde_json::from_str(&answer.body).unwrap();
    let url = metadata["revocation_endpoint"].as_str().unwrap().to_owned();
    let (known, tokens) = client.tokens();
    let revoke = |client: &mut Client, token: &str| {
        let body = form(&[("token", token), ("client_id", &known.client_id)]);
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        client.send(&http("POST", &url, &headers, &body), &url).status
    };
    let again = |client: &mut Client| -> Value {
        let code = location(&client.authorize(&known, &[])).remove("code").unwrap();
        serde_json::from_str(&client.redeem(&known, &code, &[]).body).unwrap()
    };
    let other = again(&mut client);
    assert_eq!(revoke(&mut client, "at-unknown"), 200);
    assert_eq!(revoke(&mut client, token_of(&tokens)), 200);
    client.rpc("use", "ping", Some(token_of(&tokens))).unwrap_err();
    client.rpc("use", "ping", Some(token_of(&other))).unwrap();
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(client.refresh(&known, refresh, &[]).status, 200, "only the access token was revoked");
    let refresh = other["refresh_token"].as_str().unwrap();
    assert_eq!(revoke(&mut client, refresh), 200);
    client.rpc("use", "ping", Some(token_of(&other))).unwrap_err();
    assert_eq!(error_of(&client.refresh(&known, refresh, &[])), "invalid_grant");
    // Without the word there is no such endpoint.
    let mut client = Client::new(&AuthScript::default(), Revision::V2025_11_25);
    assert_eq!(client.send(&http("POST", &url, &[], ""), &url).status, 404);
}

#[test]
fn methods_can_need_scopes_of_their_own() {
    let script = AuthScript {
        scopes_supported: vec!["basic".into()],
        call_scope: Some("write".into()),
        method_scopes: BTreeMap::from([
            ("*".into(), "basic".into()),
            ("resources/read".into(), "read basic".into()),
        ]),
        ..AuthScript::default()
    };
    let mut client = Client::new(&script, Revision::V2026_07_28);
    let (_, tokens) = client.tokens();
    client.rpc("", "tools/list", Some(token_of(&tokens))).unwrap();
    for (method, needed) in [("resources/read", "read basic"), ("tools/call", "write")] {
        let refused = client.rpc("", method, Some(token_of(&tokens))).unwrap_err();
        assert_eq!(refused.status, 403);
        assert_eq!(bearer_challenge(&refused).unwrap()["scope"], needed);
    }
}

#[test]
fn a_403_names_the_scopes_that_the_script_says() {
    for (names, expected) in [
        (StepUpNames::Needed, Some("a b")),
        (StepUpNames::Missing, Some("b")),
        (StepUpNames::All, Some("a c b")),
        (StepUpNames::Nothing, None),
    ] {
        for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
            let script = AuthScript {
                scopes_supported: vec!["a".into(), "c".into()],
                call_scope: Some("a b".into()),
                step_up_names: Some(names),
                ..AuthScript::default()
            };
            let mut client = Client::new(&script, revision);
            let (_, tokens) = client.tokens();
            let refused = client.rpc("", "tools/call", Some(token_of(&tokens))).unwrap_err();
            let challenge = bearer_challenge(&refused).unwrap();
            assert_eq!(challenge.get("scope").map(String::as_str), expected, "{names:?}");
        }
    }
}

#[test]
fn metadata_documents_are_held_against_their_clients() {
    const URL: &str = "https://client.example/about.json";
    let good = json!({ "client_id": URL, "client_name": "c", "redirect_uris": [CALLBACK] });
    let known = |document: Value, url: &str, redirect: &str| {
        let script = AuthScript {
            client_id_metadata: true,
            client_documents: BTreeMap::from([(URL.to_owned(), JsonText(document))]),
            ..AuthScript::default()
        };
        let mut client = Client::new(&script, Revision::V2025_11_25);
        client.preset = Some((url.to_owned(), None));
        let known = client.discover().unwrap();
        let answer = client.authorize(&known, &[("redirect_uri", Some(redirect))]);
        answer.status == 302 && {
            let code = location(&answer).remove("code").unwrap();
            client.redeem(&known, &code, &[("redirect_uri", None)]).status == 200
        }
    };
    assert!(known(good.clone(), URL, CALLBACK));
    assert!(!known(good.clone(), URL, "http://127.0.0.1:3003/elsewhere"));
    assert!(!known(good.clone(), "https://client.example/other.json", CALLBACK));
    for (name, value) in [
        ("client_id", json!("https://client.example/About.json")),
        ("client_name", json!(null)),
        ("redirect_uris", json!([])),
        ("redirect_uris", json!(CALLBACK)),
        ("token_endpoint_auth_method", json!("client_secret_post")),
        // It is held to its own method, which is not used here.
        ("token_endpoint_auth_method", json!("private_key_jwt")),
    ] {
        let mut document = good.clone();
        document[name] = value;
        assert!(!known(document.clone(), URL, CALLBACK), "{document}");
    }
}
