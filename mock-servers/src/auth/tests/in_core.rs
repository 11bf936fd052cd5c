//! What the core makes of answers that are wrong, or late.

use super::*;
use crate::core::{Effect, Input, Origins, ServerCore};
use crate::script::{AnswerChange, AuthAnswer};
use sparring_wire::transcript::{HttpRole, What};

fn core(auth: AuthScript) -> ServerCore {
    let origins = Origins { own: RESOURCE_ORIGIN.into(), other: "http://127.0.0.1:4004".into() };
    let server =
        AuthServer::new(auth.clone(), Revision::V2025_11_25, RESOURCE.into(), AUTHORIZATION.into(), 1);
    let script = crate::script::ServerScript { auth: Some(auth), ..Default::default() };
    ServerCore::http(Arc::new(script), Revision::V2025_11_25, 1, origins, Some(server))
}

fn ask(core: &mut ServerCore, exchange: u64, role: HttpRole, path: &str) -> Vec<Effect> {
    let sent = HttpRequest { exchange, role, ..http("GET", path, &[], "") };
    core.handle(Duration::ZERO, Input::Request(Box::new(sent)))
}

fn response(effects: &[Effect]) -> Option<(u16, bool)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Observe(What::HttpResponse(response)) => Some((response.status, response.scripted_fault)),
        _ => None,
    })
}

#[test]
fn only_what_no_server_may_give_is_marked() {
    const METADATA: &str = "/.well-known/oauth-authorization-server";
    for (fault, marked) in [
        (AuthFault::MetadataIssuer, true),
        (AuthFault::NoTokenEndpoint, true),
        (AuthFault::NoPkceMetadata, false),
        (AuthFault::MissingState, false),
    ] {
        let mut core = core(AuthScript { fault: fault.into(), ..AuthScript::default() });
        let effects = ask(&mut core, 1, HttpRole::AuthorizationServer, METADATA);
        assert_eq!(response(&effects), Some((200, marked)), "{fault:?}");
    }
}

#[test]
fn an_answer_can_be_late() {
    for (of, role, path, status) in [
        (
            AuthAnswer::ServerMetadata,
            HttpRole::AuthorizationServer,
            "/.well-known/oauth-authorization-server",
            200,
        ),
        (AuthAnswer::ResourceMetadata, HttpRole::Mcp, "/.well-known/oauth-protected-resource/v1/mcp", 200),
    ] {
        let late = AnswerChange { delay_ms: Some(250), allowed: true, ..AnswerChange::new(of) };
        let mut core = core(AuthScript { answers: vec![late], ..AuthScript::default() });
        let effects = ask(&mut core, 1, role, path);
        assert_eq!(response(&effects), None);
        let timer = effects.iter().find_map(|effect| match effect {
            Effect::Timer { id, after } => Some((*id, *after)),
            _ => None,
        });
        let (id, after) = timer.unwrap();
        assert_eq!(after, Duration::from_millis(250));
        let effects = core.handle(after, Input::Timer(id));
        assert_eq!(response(&effects), Some((status, false)));
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Respond { exchange: 1, .. })));
    }
}
