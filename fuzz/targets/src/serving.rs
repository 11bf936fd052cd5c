//! The server cores, and the authorization server.

use crate::input::Input;
use sparring_mock_servers::auth::AuthServer;
use sparring_mock_servers::core::{Effect, Input as Happening, Origins, ServerCore};
use sparring_mock_servers::script::ServerScript;
use sparring_scenarios::load;
use sparring_wire::Revision;
use sparring_wire::framing::Line;
use sparring_wire::jsonrpc::{self, Fault};
use sparring_wire::transcript::{Direction, HttpRequest, HttpRole, What};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The most that happens in one run.
const MOST: usize = 60;

/// The scripts of all scenarios.
static SCRIPTS: LazyLock<Vec<Arc<ServerScript>>> = LazyLock::new(|| {
    let all = load::embedded().unwrap_or_default();
    all.iter()
        .flat_map(|l| l.scenario.scripts().into_values().cloned().map(Arc::new).collect::<Vec<_>>())
        .collect()
});

const ORIGIN: &str = "http://127.0.0.1:4000";
const OTHER: &str = "http://127.0.0.1:4001";
const AUTHORIZATION: &str = "http://127.0.0.1:4002";

/// A script, chosen by two bytes.
fn script(input: &mut Input<'_>) -> Arc<ServerScript> {
    let number = usize::from(input.byte()) * 256 + usize::from(input.byte());
    Arc::clone(&SCRIPTS[number % SCRIPTS.len()])
}

fn auth_of(script: &ServerScript, revision: Revision) -> Option<AuthServer> {
    let url = format!("{ORIGIN}/mcp");
    let auth = script.auth.clone()?;
    Some(AuthServer::new(auth, revision, url, AUTHORIZATION.to_owned(), 1).with_other_origin(OTHER))
}

/// Runs twice and asserts that both runs are one: the same script, seed and inputs give the same effects.
fn twice<T: PartialEq + std::fmt::Debug>(bytes: &[u8], run: impl Fn(&mut Input<'_>) -> T) -> T {
    let first = run(&mut Input::new(bytes));
    assert!(run(&mut Input::new(bytes)) == first, "two runs with the same inputs differ");
    first
}

/// Whatever the core says that no rule asked for is a valid message.
fn own_messages_are_valid(effects: &[Effect]) {
    for effect in effects {
        let (text, fault) = match effect {
            Effect::Observe(What::Line(line)) if line.direction == Direction::Sent => {
                (line.text.as_str(), line.scripted_fault)
            }
            Effect::Observe(What::StreamEvent(sent)) => {
                (sent.data.as_deref().unwrap_or_default(), sent.scripted_fault || sent.event.is_some())
            }
            _ => continue,
        };
        if fault || text.is_empty() {
            continue;
        }
        let seen = jsonrpc::inspect(text);
        for message in seen.messages() {
            // An error that answers something unreadable has no id to name.
            let wrong = message.faults.iter().find(|f| !matches!(f, Fault::MissingId | Fault::NullId));
            assert!(wrong.is_none(), "{wrong:?} in {text}");
        }
    }
}

/// Timers that were set and have not expired.
fn note_timers(timers: &mut Vec<u64>, effects: &[Effect]) {
    timers.extend(effects.iter().filter_map(|effect| match effect {
        Effect::Timer { id, .. } => Some(*id),
        _ => None,
    }));
}

/// The core over stdio: no panic, the same again, and valid messages.
pub(crate) fn core_stdio(bytes: &[u8]) {
    let effects = twice(bytes, |input| {
        let (script, revision) = (script(input), input.revision());
        let mut core = ServerCore::stdio(script, revision, 1, 7);
        let mut now = Duration::ZERO;
        let mut all = core.handle(now, Happening::Start);
        let mut timers = Vec::new();
        for _ in 0..MOST {
            if input.is_empty() {
                break;
            }
            now += Duration::from_millis(u64::from(input.byte()));
            let happening = match input.byte() % 10 {
                0 => Happening::Eof,
                1 => Happening::Signal("SIGTERM"),
                2 | 3 if !timers.is_empty() => {
                    let at = input.below(timers.len());
                    Happening::Timer(timers.remove(at))
                }
                4 => Happening::Line(Line {
                    bytes: input.piece().to_vec(),
                    carriage_return: true,
                    terminated: false,
                }),
                _ => Happening::Line(Line {
                    bytes: input.client_message().into_bytes(),
                    carriage_return: false,
                    terminated: true,
                }),
            };
            let effects = core.handle(now, happening);
            note_timers(&mut timers, &effects);
            all.extend(effects);
        }
        all
    });
    own_messages_are_valid(&effects);
    let last = effects.iter().position(|e| matches!(e, Effect::Exit(_) | Effect::Die(_)));
    assert!(last.is_none_or(|at| at + 1 == effects.len()), "nothing follows the end");
}

fn request(input: &mut Input<'_>, exchange: u64, path: &str, sessions: &[String]) -> HttpRequest {
    let method = *input.one(&["POST", "POST", "POST", "POST", "GET", "DELETE", "PUT"]);
    let mut headers: Vec<(String, String)> = vec![
        ("accept".into(), "application/json, text/event-stream".into()),
        ("content-type".into(), "application/json".into()),
    ];
    if let Some(session) = sessions.last().filter(|_| input.byte() < 200) {
        headers.push(("mcp-session-id".into(), session.clone()));
    }
    match input.byte() % 6 {
        0 => headers.push(("mcp-protocol-version".into(), input.revision().as_str().into())),
        1 => headers.push(("last-event-id".into(), input.text())),
        2 => headers.push(("authorization".into(), format!("Bearer {}", input.text()))),
        3 => headers.push((input.text(), input.text())),
        _ => {}
    }
    let target = match input.byte() % 8 {
        0 => input.text(),
        _ => path.to_owned(),
    };
    let body = if method == "POST" { input.client_message() } else { String::new() };
    HttpRequest {
        exchange,
        connection: 1 + exchange / 3,
        method: method.to_owned(),
        target,
        headers,
        body,
        invalid_utf8: false,
        role: HttpRole::Mcp,
    }
}

/// The core over HTTP: no panic, the same again, valid messages, and each exchange answered once and in order.
pub(crate) fn core_http(bytes: &[u8]) {
    let effects = twice(bytes, |input| {
        let (script, revision) = (script(input), input.revision());
        let origins = Origins { own: ORIGIN.to_owned(), other: OTHER.to_owned() };
        let path = sparring_mock_servers::core::endpoint_path(&script).to_owned();
        let auth = auth_of(&script, revision);
        let mut core = ServerCore::http(script, revision, 7, origins, auth);
        let mut now = Duration::ZERO;
        let mut all = core.handle(now, Happening::Start);
        let mut timers = Vec::new();
        let mut exchange = 0;
        for _ in 0..MOST {
            if input.is_empty() {
                break;
            }
            now += Duration::from_millis(u64::from(input.byte()));
            let happening = match input.byte() % 8 {
                0 if exchange > 0 => Happening::Gone { exchange: 1 + u64::from(input.byte()) % exchange },
                1 | 2 if !timers.is_empty() => {
                    let at = input.below(timers.len());
                    Happening::Timer(timers.remove(at))
                }
                _ => {
                    exchange += 1;
                    Happening::Request(Box::new(request(input, exchange, &path, &core.sessions())))
                }
            };
            let effects = core.handle(now, happening);
            note_timers(&mut timers, &effects);
            all.extend(effects);
        }
        all
    });
    own_messages_are_valid(&effects);
    let (mut begun, mut over) = (BTreeSet::new(), BTreeSet::new());
    for effect in &effects {
        match effect {
            Effect::Respond { exchange, .. } => {
                assert!(!begun.contains(exchange) && over.insert(*exchange), "#{exchange} is answered twice");
            }
            Effect::Head { exchange, .. } => {
                assert!(!over.contains(exchange) && begun.insert(*exchange), "#{exchange} begins twice");
            }
            Effect::Chunk { exchange, .. } => {
                assert!(begun.contains(exchange) && !over.contains(exchange), "#{exchange} has no stream");
            }
            Effect::End { exchange } => assert!(over.insert(*exchange), "#{exchange} ends twice"),
            _ => {}
        }
    }
}

/// The authorization server: no panic, and the same again.
pub(crate) fn auth(bytes: &[u8]) {
    twice(bytes, |input| {
        let with_auth: Vec<_> = SCRIPTS.iter().filter(|script| script.auth.is_some()).collect();
        let number = usize::from(input.byte());
        let script = with_auth[number % with_auth.len()];
        let revision = input.revision();
        let mut server = auth_of(script, revision).expect("it has one");
        let mut now = Duration::ZERO;
        let mut answers = Vec::new();
        for exchange in 1..20 {
            if input.is_empty() {
                break;
            }
            now += Duration::from_millis(u64::from(input.byte()) * 100);
            const PATHS: [&str; 8] = [
                "/authorize?response_type=code&client_id=c&redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcb&code_challenge=abc&code_challenge_method=S256&state=s&resource=",
                "/token",
                "/register",
                "/revoke",
                "/.well-known/oauth-authorization-server",
                "/.well-known/oauth-protected-resource",
                "/.well-known/openid-configuration",
                "/mcp",
            ];
            let mut target = (*input.one(&PATHS)).to_owned();
            if input.byte() < 128 {
                target.push_str(&input.text());
            }
            let body = match input.byte() % 4 {
                0 => input.text(),
                1 => {
                    format!("grant_type=authorization_code&code={}&code_verifier=v&client_id=c", input.text())
                }
                2 => format!("grant_type=refresh_token&refresh_token={}", input.text()),
                _ => r#"{"redirect_uris":["http://127.0.0.1:1/cb"],"client_name":"c"}"#.to_owned(),
            };
            let request = HttpRequest {
                exchange,
                connection: 1,
                method: (*input.one(&["GET", "POST", "PUT"])).to_owned(),
                target,
                headers: vec![("authorization".into(), input.text()), ("content-type".into(), input.text())],
                body,
                invalid_utf8: false,
                role: HttpRole::AuthorizationServer,
            };
            answers.push(server.handle(&request, now));
            answers.extend(server.resource_metadata(&request));
        }
        answers
    });
}
