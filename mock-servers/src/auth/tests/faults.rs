//! Each named fault changes just what its name says, compared with the faithful flow; so do changes of a script's own.

use super::*;
use crate::script::{AnswerChange, AuthAnswer, JsonText};

/// An answer as a set of facts: status, fields, members of the body, parameters of redirect and challenge.
fn facts(answer: &Answer) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::from([("status".to_owned(), answer.status.to_string())]);
    if let Ok(Value::Object(members)) = serde_json::from_str(&answer.body) {
        facts.extend(members.into_iter().map(|(name, value)| (format!("body.{name}"), value.to_string())));
    } else {
        facts.insert("body".to_owned(), answer.body.clone());
    }
    for (name, value) in &answer.headers {
        match name.as_str() {
            "location" if value.starts_with(CALLBACK) => {
                let url = Url::parse(value).unwrap();
                facts.extend(url.query_pairs().map(|(n, v)| (format!("redirect.{n}"), v.into_owned())));
            }
            "www-authenticate" => {}
            _ => {
                facts.insert(name.clone(), value.clone());
            }
        }
    }
    let challenge = bearer_challenge(answer).unwrap_or_default();
    facts.extend(challenge.into_iter().map(|(name, value)| (format!("challenge.{name}"), value)));
    facts
}

fn faithful() -> AuthScript {
    AuthScript {
        scopes_supported: vec!["a".into(), "b".into()],
        call_scope: Some("a".into()),
        refresh: true,
        rotate_refresh: true,
        ..AuthScript::default()
    }
}

/// What a client does that notices nothing and stops only when it gets no further.
fn careless_run(script: &AuthScript, revision: Revision) -> Vec<(String, Answer)> {
    fn run(client: &mut Client) -> Option<()> {
        let mut known = client.discover()?;
        // Where an endpoint can't be used, go on where a faithful server has it, to compare the rest.
        for (url, name) in [(&mut known.authorize, "authorize"), (&mut known.token, "token")] {
            if !url.starts_with(AUTHORIZATION) {
                *url = format!("{AUTHORIZATION}/oauth/v2/{name}");
            }
        }
        if known.resource.as_deref() == Some(OTHER_RESOURCE) {
            known.resource = Some(RESOURCE.into());
        }
        let code = location(&client.authorize(&known, &[("scope", Some("a b"))])).remove("code")?;
        let answer = client.redeem(&known, &code, &[]);
        let tokens: Value = serde_json::from_str(&answer.body).ok()?;
        client.rpc("list", "tools/list", Some(tokens["access_token"].as_str()?)).ok()?;
        client.rpc("call", "tools/call", Some(token_of(&tokens))).ok()?;
        let mut token = tokens["refresh_token"].as_str()?.to_owned();
        for _ in 0..2 {
            let answer = client.refresh(&known, &token, &[]);
            let tokens: Value = serde_json::from_str(&answer.body).ok()?;
            client.rpc("list", "tools/list", Some(tokens["access_token"].as_str()?)).ok()?;
            token = tokens["refresh_token"].as_str().unwrap_or(&token).to_owned();
        }
        Some(())
    }
    let mut client = Client::new(script, revision);
    client.server = client.server.with_other_origin("http://127.0.0.1:4004");
    run(&mut client);
    client.exchanges
}

/// By label: the facts in which two runs differ, up to where they part; for all labels up to there.
fn differences(
    expected: &[(String, Answer)],
    found: &[(String, Answer)],
) -> BTreeMap<String, BTreeSet<String>> {
    let mut differing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let parted = |all: &BTreeMap<String, BTreeSet<String>>| all.values().any(|names| !names.is_empty());
    for ((label, one), (other_label, other)) in expected.iter().zip(found) {
        // Where the other way leads nowhere, or the client asks for something else.
        if other.status == 502 || label != other_label {
            assert!(parted(&differing), "{label} {other_label}: they part without a reason");
            break;
        }
        let fails = one.status != other.status && other.status >= 300;
        let (one, other) = (facts(one), facts(other));
        let all: BTreeSet<_> = one.keys().chain(other.keys()).collect();
        let names: BTreeSet<_> =
            all.into_iter().filter(|name| one.get(*name) != other.get(*name)).cloned().collect();
        differing.entry(label.clone()).or_default().extend(names);
        // What comes now is a consequence.
        if fails {
            break;
        }
    }
    differing
}

/// Where an answer is seen in the run, and what its members are called there.
fn seen(of: AuthAnswer) -> Option<(&'static str, &'static str)> {
    Some(match of {
        AuthAnswer::Challenge => ("401", "challenge"),
        AuthAnswer::ResourceMetadata => ("resource metadata", "body"),
        AuthAnswer::ServerMetadata => ("server metadata", "body"),
        AuthAnswer::Registration => ("register", "body"),
        AuthAnswer::Authorization => ("authorize", "redirect"),
        AuthAnswer::Token => ("token", "body"),
        AuthAnswer::Refresh => ("refresh", "body"),
        _ => return None,
    })
}

#[test]
fn each_fault_differs_from_the_faithful_flow_in_what_it_names() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let expected = careless_run(&faithful(), revision);
        assert_eq!(expected.last().unwrap().0, "list");
        assert!(expected.iter().all(|(_, answer)| !answer.fault), "a perfect server");
        for fault in AuthFault::ALL {
            let changes = fault.changes();
            if changes.is_empty() || *fault == AuthFault::BareForbidden {
                continue;
            }
            let found = careless_run(&AuthScript { fault: (*fault).into(), ..faithful() }, revision);
            let shown = differences(&expected, &found);
            let mut allowed: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
            let mut whole = BTreeSet::new();
            for change in &changes {
                let Some((label, form)) = seen(change.of) else { continue };
                let names = allowed.entry(label).or_default();
                let set = change.set.iter().filter_map(|set| set.0.as_object()).flat_map(|set| set.keys());
                names.extend(set.chain(&change.without).map(|name| format!("{form}.{name}")));
                names.extend(change.headers.keys().cloned());
                names.extend(change.status.map(|_| "status".to_owned()));
                if change.body.is_some() {
                    whole.insert(label);
                }
            }
            for (label, names) in &shown {
                let allowed = allowed.get(label.as_str()).cloned().unwrap_or_default();
                assert!(
                    whole.contains(label.as_str()) || names.is_subset(&allowed),
                    "{fault:?} {revision} {label}: {names:?}, not only {allowed:?}"
                );
                // What should differ does.
                assert_eq!(names.is_empty(), allowed.is_empty(), "{fault:?} {revision} {label}");
            }
            assert!(allowed.keys().any(|label| shown.contains_key(*label)), "{fault:?}: not seen");
            let marked = found.iter().any(|(_, answer)| answer.fault);
            assert_eq!(marked, !fault.is_allowed(), "{fault:?}");
        }
    }
}

/// A placeholder in single braces would go out as it is.
#[test]
fn placeholders_of_faults_have_two_braces() {
    for fault in AuthFault::ALL {
        let text = serde_json::to_string(&fault.changes()).unwrap();
        for name in ["right", "resource", "origin", "issuer", "authorization", "host", "other"] {
            let count = |placeholder: String| text.matches(placeholder.as_str()).count();
            let (all, whole) = (count(format!("{{{name}}}")), count(format!("{{{{{name}}}}}")));
            assert_eq!(all, whole, "{fault:?}: {text}");
        }
    }
}

#[test]
fn faults_that_decide_differently_do_so_in_one_place() {
    use AuthFault as F;
    let table: &[(F, &str, &[&str])] = &[
        (F::RejectsAllTokens, "list", &["status", "body", "challenge.error"]),
        (F::NeverEnoughScope, "call", &["status", "body", "challenge.error"]),
        (F::NarrowerGrant, "token", &["body.scope"]),
        (F::RefreshNotReissued, "refresh", &["body.refresh_token"]),
    ];
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let expected = careless_run(&faithful(), revision);
        for (fault, label, names) in table {
            let found = careless_run(&AuthScript { fault: (*fault).into(), ..faithful() }, revision);
            let mut shown = differences(&expected, &found);
            shown.retain(|_, names| !names.is_empty());
            let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert!(names.is_subset(&shown[*label]), "{fault:?} {revision}: {shown:?}");
            match fault {
                // A refusal replaces an answer whole, and ends the run.
                F::RejectsAllTokens | F::NeverEnoughScope => {
                    assert_eq!(found.last().unwrap().0, *label, "{fault:?}");
                    assert_eq!(shown.len(), 1, "{fault:?} {revision}: {shown:?}");
                }
                // The scopes are in each token answer.
                F::NarrowerGrant => {
                    assert_eq!(shown.keys().collect::<Vec<_>>(), ["refresh", "token"]);
                    assert!(shown.values().all(|shown| *shown == names), "{shown:?}");
                }
                _ => assert_eq!(shown, BTreeMap::from([((*label).to_owned(), names)]), "{fault:?}"),
            }
            assert!(found.iter().all(|(_, answer)| !answer.fault), "{fault:?} is allowed");
        }
    }
    let acting: Vec<_> = AuthFault::ALL.iter().filter(|fault| fault.changes().is_empty()).collect();
    assert_eq!(acting.len(), table.len(), "{acting:?}");
    // Nothing was left out: each word that the reader of scripts knows.
    let unknown = serde_json::from_value::<AuthFault>(json!("no-such-fault")).unwrap_err().to_string();
    assert_eq!(unknown.matches('`').count() / 2 - 1, AuthFault::ALL.len(), "{unknown}");
    let names: BTreeSet<String> = AuthFault::ALL.iter().map(|fault| json!(fault).to_string()).collect();
    assert_eq!(names.len(), AuthFault::ALL.len());
}

#[test]
fn faults_can_be_a_list() {
    let script: AuthScript =
        serde_json::from_value(json!({ "fault": ["missing-state", "no-expires-in"] })).unwrap();
    assert_eq!(script.fault.0, [AuthFault::MissingState, AuthFault::NoExpiresIn]);
    let again: AuthScript = serde_json::from_value(serde_json::to_value(&script).unwrap()).unwrap();
    assert_eq!(again, script);
    let one: AuthScript = serde_json::from_value(json!({ "fault": "missing-state" })).unwrap();
    assert_eq!(one.fault, AuthFault::MissingState.into());
    assert_eq!(serde_json::to_value(&one).unwrap()["fault"], "missing-state");
    serde_json::from_value::<AuthScript>(json!({ "fault": ["nothing-of-that-name"] })).unwrap_err();

    let mut client = Client::new(&script, Revision::V2025_11_25);
    let (known, code) = client.code(&[]);
    assert!(!location(&client.exchanges.last().unwrap().1).contains_key("state"));
    let tokens: Value = serde_json::from_str(&client.redeem(&known, &code, &[]).body).unwrap();
    assert!(tokens["expires_in"].is_null());
}

fn change(of: AuthAnswer) -> AnswerChange {
    AnswerChange::new(of)
}

#[test]
fn answers_are_counted_from_the_first_that_could_be_changed() {
    let script = AuthScript {
        answers: vec![AnswerChange {
            nth: Some(2),
            times: Some(1),
            without: vec!["expires_in".into()],
            ..change(AuthAnswer::Token)
        }],
        ..AuthScript::default()
    };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let lacks: Vec<bool> = (0..3)
        .map(|_| {
            let (known, code) = client.code(&[]);
            // A refusal is not counted.
            assert_eq!(client.redeem(&known, "code-unknown", &[]).status, 400);
            let answer = client.redeem(&known, &code, &[]);
            assert_eq!(answer.fault, !answer.body.contains("expires_in"));
            answer.fault
        })
        .collect();
    assert_eq!(lacks, [false, true, false]);
}

#[test]
fn a_refused_answer_has_no_effect() {
    let script = AuthScript {
        refresh: true,
        rotate_refresh: true,
        answers: vec![
            AnswerChange { times: Some(1), status: Some(503), ..change(AuthAnswer::Refresh) },
            AnswerChange { times: Some(1), status: Some(500), ..change(AuthAnswer::Token) },
        ],
        ..AuthScript::default()
    };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let (known, code) = client.code(&[]);
    assert_eq!(client.redeem(&known, &code, &[]).status, 500);
    // The code is not spent, and neither is the refresh token.
    let tokens: Value = serde_json::from_str(&client.redeem(&known, &code, &[]).body).unwrap();
    let token = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(client.refresh(&known, token, &[]).status, 503);
    assert_eq!(client.refresh(&known, token, &[]).status, 200);
}

#[test]
fn names_in_texts_are_filled_in() {
    let script = AuthScript {
        answers: vec![
            AnswerChange {
                set: Some(JsonText(json!({
                    "authorization_servers": ["{{issuer}}", "{{other}}"],
                    "resource": "{{right}}#{{origin}}",
                    "x": { "deep": ["{{resource}}", 1] },
                }))),
                headers: BTreeMap::from([("X-Host".into(), "{{host}}".into())]),
                without_headers: vec!["Content-Type".into()],
                delay_ms: Some(20),
                allowed: true,
                ..change(AuthAnswer::ResourceMetadata)
            },
            AnswerChange {
                set: Some(JsonText(json!({ "scope": "more \"or\" less", "n": 1 }))),
                ..change(AuthAnswer::Challenge)
            },
        ],
        ..AuthScript::default()
    };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    client.server = client.server.with_other_origin("http://127.0.0.1:4004");
    let url = format!("{RESOURCE_ORIGIN}/.well-known/oauth-protected-resource/v1/mcp");
    let answer = client.get("", &url);
    let document: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(document["authorization_servers"], json!([AUTHORIZATION, "http://127.0.0.1:4004"]));
    assert_eq!(document["resource"], format!("{RESOURCE}#{RESOURCE_ORIGIN}"));
    assert_eq!(document["x"], json!({ "deep": [RESOURCE, 1] }));
    assert_eq!(answer.headers, [("x-host".to_owned(), "127.0.0.1:2002".to_owned())]);
    assert_eq!((answer.fault, answer.delay), (false, Duration::from_millis(20)));

    let answer = client.rpc("", "ping", None).unwrap_err();
    let challenge = bearer_challenge(&answer).unwrap();
    assert_eq!((challenge["scope"].as_str(), challenge["n"].as_str()), ("more \"or\" less", "1"));
    assert!(answer.fault);
}

#[test]
fn a_403_can_lack_its_challenge() {
    let script = AuthScript {
        fault: AuthFault::BareForbidden.into(),
        scopes_supported: vec!["a".into()],
        call_scope: Some("b".into()),
        ..AuthScript::default()
    };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let (_, tokens) = client.tokens();
    let refused = client.rpc("call", "tools/call", Some(token_of(&tokens))).unwrap_err();
    assert_eq!((refused.status, header(&refused, "www-authenticate")), (403, None));
    let script = AuthScript { fault: AuthFault::NoExpiresIn.into(), ..script };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    let (_, tokens) = client.tokens();
    let refused = client.rpc("call", "tools/call", Some(token_of(&tokens))).unwrap_err();
    assert_eq!(bearer_challenge(&refused).unwrap()["error"], "insufficient_scope");
}

#[test]
fn placeholders_that_there_are_not_are_refused() {
    let read = |set: &str| {
        serde_json::from_value::<AuthScript>(json!({"answers": [{"of": "token", "set": {"scope": set}}]}))
    };
    assert!(read("{{origin}}/{{open}}").is_ok());
    assert!(read("{origin}").is_ok(), "single braces are text");
    for wrong in ["{{nobody}}", "{{", "{{id}}"] {
        let said = read(wrong).unwrap_err().to_string();
        assert!(said.contains("is no placeholder"), "{said}");
    }
}
