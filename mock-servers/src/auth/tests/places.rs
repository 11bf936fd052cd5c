//! Where things stand and how they are named: identifiers, places of metadata, a second authorization server, the guard.

use super::*;
use crate::script::{GuardScript, ResourceForm, SecondServer, SecondServerRole};

#[test]
fn the_identifier_is_written_in_each_form() {
    for (identifier, written) in [
        (ResourceForm::OfPlace, RESOURCE.to_owned()),
        (ResourceForm::Origin, RESOURCE_ORIGIN.to_owned()),
        (ResourceForm::Slash, format!("{RESOURCE}/")),
        (ResourceForm::UpperCase, RESOURCE.replacen("http", "HTTP", 1)),
    ] {
        for exact_resource in [false, true] {
            let script = AuthScript { identifier, exact_resource, ..AuthScript::default() };
            let mut client = Client::new(&script, Revision::V2025_11_25);
            let known = client.discover().unwrap();
            assert_eq!(known.resource.as_deref(), Some(written.as_str()));
            let mut taken = |resource: &str| {
                let answer = client.authorize(&known, &[("resource", Some(resource))]);
                let redirect = location(&answer);
                redirect.contains_key("code") || {
                    assert_eq!(redirect["error"], "invalid_target");
                    false
                }
            };
            assert!(taken(&written));
            // The endpoint's own URL is good unless each byte counts; so is an origin with its slash.
            assert_eq!(taken(RESOURCE), !exact_resource || written == RESOURCE, "{identifier:?}");
            let slash = format!("{RESOURCE_ORIGIN}/");
            assert_eq!(
                taken(&slash),
                identifier == ResourceForm::Origin && !exact_resource,
                "{identifier:?}"
            );
            assert!(!taken(OTHER_RESOURCE));
        }
    }
}

#[test]
fn server_metadata_stands_where_the_script_says() {
    use ServerMetadataPlace as P;
    const OAUTH: &str = "/.well-known/oauth-authorization-server/tenant1";
    const OPENID: &str = "/.well-known/openid-configuration/tenant1";
    const APPENDED: &str = "/tenant1/.well-known/openid-configuration";
    for (place, there) in [
        (P::Oauth, &[OAUTH][..]),
        (P::Openid, &[OPENID]),
        (P::OpenidAppended, &[APPENDED]),
        (P::Everywhere, &[OAUTH, OPENID, APPENDED]),
        (P::OauthAppended, &["/tenant1/.well-known/oauth-authorization-server"]),
        (P::OauthRoot, &["/.well-known/oauth-authorization-server"]),
        (P::None, &[]),
    ] {
        let script = AuthScript {
            server_metadata: place,
            issuer_path: Some("tenant1/".into()),
            ..AuthScript::default()
        };
        let mut client = Client::new(&script, Revision::V2025_11_25);
        let mut documents = BTreeSet::new();
        for path in [
            OAUTH,
            OPENID,
            APPENDED,
            "/tenant1/.well-known/oauth-authorization-server",
            "/.well-known/oauth-authorization-server",
            "/.well-known/openid-configuration",
        ] {
            let answer = client.get("", &format!("{AUTHORIZATION}{path}"));
            assert_eq!(answer.status == 200, there.contains(&path), "{place:?} {path}");
            if answer.status == 200 {
                let document: Value = serde_json::from_str(&answer.body).unwrap();
                assert_eq!(document["issuer"], format!("{AUTHORIZATION}/tenant1"));
                documents.insert(answer.body);
            }
        }
        assert!(documents.len() <= 1, "the same document everywhere");
    }
}

fn second(role: SecondServerRole) -> AuthScript {
    let second = SecondServer { role, issuer_path: None, after: Some(2) };
    AuthScript { second_server: Some(second), refresh: true, ..AuthScript::default() }
}

fn resource_metadata(client: &mut Client, path: &str) -> Option<Value> {
    let sent = http("GET", &format!("{RESOURCE_ORIGIN}{path}"), &[], "");
    client.server.resource_metadata(&sent).map(|answer| serde_json::from_str(&answer.body).unwrap())
}

const PATH: &str = "/.well-known/oauth-protected-resource/v1/mcp";
const ROOT: &str = "/.well-known/oauth-protected-resource";
const SECOND: &str = "http://127.0.0.1:2002/second";

/// The endpoints of the second server for a client of the first.
fn at_second(known: &Known) -> Known {
    let there = |url: &String| url.replace(AUTHORIZATION, SECOND);
    Known {
        authorize: there(&known.authorize),
        token: there(&known.token),
        register: known.register.as_ref().map(there),
        ..known.clone()
    }
}

fn register(client: &mut Client, known: &Known) -> String {
    let url = known.register.clone().unwrap();
    let body = json!({ "redirect_uris": [CALLBACK] }).to_string();
    let answer = client.send(&http("POST", &url, &[("content-type", "application/json")], &body), &url);
    let registered: Value = serde_json::from_str(&answer.body).unwrap();
    registered["client_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_second_server_has_clients_and_tokens_of_its_own() {
    let mut client = Client::new(&second(SecondServerRole::Alternative), Revision::V2025_11_25);
    let document = resource_metadata(&mut client, PATH).unwrap();
    assert_eq!(document["authorization_servers"], json!([AUTHORIZATION, SECOND]));
    let answer = client.get("", &format!("{AUTHORIZATION}/.well-known/oauth-authorization-server/second"));
    let metadata: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(metadata["issuer"], SECOND);

    let (known, tokens) = client.tokens();
    let mut there = at_second(&known);
    assert_eq!(client.authorize(&there, &[]).status, 400, "the client is unknown there");
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(error_of(&client.refresh(&there, refresh, &[])), "invalid_client");
    there.client_id = register(&mut client, &there);
    assert_ne!(there.client_id, known.client_id);
    let redirect = location(&client.authorize(&there, &[]));
    assert_eq!(redirect["iss"], SECOND);
    let answer = client.redeem(&there, &redirect["code"], &[]);
    let other: Value = serde_json::from_str(&answer.body).unwrap();
    client.rpc("use", "ping", Some(token_of(&tokens))).unwrap();
    client.rpc("use", "ping", Some(token_of(&other))).unwrap();
}

#[test]
fn a_neighbour_is_named_at_the_other_places() {
    for (place, right, others) in [
        (ResourceMetadataPlace::HeaderAndPath, Some(PATH), &[ROOT][..]),
        (ResourceMetadataPlace::Path, Some(PATH), &[ROOT]),
        (ResourceMetadataPlace::HeaderOnly, Some(request::UNLISTED_RESOURCE_METADATA), &[ROOT, PATH]),
        (ResourceMetadataPlace::Root, Some(ROOT), &[]),
        (ResourceMetadataPlace::None, None, &[]),
    ] {
        let script = AuthScript { resource_metadata: place, ..second(SecondServerRole::Neighbour) };
        let mut client = Client::new(&script, Revision::V2025_11_25);
        for path in [ROOT, PATH, request::UNLISTED_RESOURCE_METADATA] {
            let document = resource_metadata(&mut client, path);
            let expected = if right == Some(path) {
                Some(json!([AUTHORIZATION]))
            } else {
                others.contains(&path).then(|| json!([SECOND]))
            };
            assert_eq!(document.map(|d| d["authorization_servers"].clone()), expected, "{place:?} {path}");
        }
    }
    let mut client = Client::new(&second(SecondServerRole::Neighbour), Revision::V2025_11_25);
    let known = client.discover().unwrap();
    let mut there = at_second(&known);
    there.client_id = register(&mut client, &there);
    let code = location(&client.authorize(&there, &[])).remove("code").unwrap();
    let tokens: Value = serde_json::from_str(&client.redeem(&there, &code, &[]).body).unwrap();
    assert_eq!(
        client.rpc("use", "ping", Some(token_of(&tokens))).unwrap_err().status,
        401,
        "not for this one"
    );
}

#[test]
fn a_successor_takes_over() {
    let mut client = Client::new(&second(SecondServerRole::Successor), Revision::V2026_07_28);
    let named =
        |client: &mut Client| resource_metadata(client, PATH).unwrap()["authorization_servers"].clone();
    assert_eq!(named(&mut client), json!([AUTHORIZATION]));
    let (known, tokens) = client.tokens();
    client.rpc("use", "ping", Some(token_of(&tokens))).unwrap();
    assert_eq!(named(&mut client), json!([AUTHORIZATION]));
    client.rpc("use", "ping", Some(token_of(&tokens))).unwrap();
    assert_eq!(named(&mut client), json!([SECOND]));
    assert_eq!(client.rpc("use", "ping", Some(token_of(&tokens))).unwrap_err().status, 401);
    let mut there = at_second(&known);
    there.client_id = register(&mut client, &there);
    let code = location(&client.authorize(&there, &[])).remove("code").unwrap();
    let tokens: Value = serde_json::from_str(&client.redeem(&there, &code, &[]).body).unwrap();
    client.rpc("use", "ping", Some(token_of(&tokens))).unwrap();
}

#[test]
fn the_guard_wants_tokens_for_what_the_script_says() {
    let open = |guard: GuardScript, requests: &[&str]| -> Vec<bool> {
        let mut client = Client::new(&AuthScript { guard, ..AuthScript::default() }, Revision::V2025_11_25);
        requests.iter().map(|method| client.rpc("", method, None).is_ok()).collect()
    };
    let words = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let all = ["initialize", "tools/list", "tools/call"];
    assert_eq!(open(GuardScript::default(), &all), [false, false, false]);
    let guard = GuardScript { from_request: Some(3), ..GuardScript::default() };
    assert_eq!(open(guard, &all), [true, true, false]);
    let guard = GuardScript { methods: words(&["tools/call"]), ..GuardScript::default() };
    assert_eq!(open(guard, &all), [true, true, false]);
    let guard = GuardScript { except: words(&["initialize"]), ..GuardScript::default() };
    assert_eq!(open(guard.clone(), &all), [true, false, false]);

    // A dead token is refused also where none is needed.
    let mut client = Client::new(&AuthScript { guard, ..AuthScript::default() }, Revision::V2025_11_25);
    assert_eq!(client.rpc("", "initialize", Some("at-dead")).unwrap_err().status, 401);
}
