//! Actions from outside, at run time.

use super::{Scope, ServerCore, Task};
use crate::script::Action;
use serde::{Deserialize, Serialize};
use sparring_wire::transcript::What;
use std::collections::VecDeque;

/// Actions that were asked for while the server runs, by whoever controls it. They run as those of a rule whose event
/// has no request: what sends a message sends it, what answers a request does nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// What to do, in order.
    #[serde(deserialize_with = "crate::script::checked")]
    pub actions: Vec<Action>,
    /// HTTP: the session that is meant; by default the one that was opened last.
    #[serde(default)]
    pub session: Option<String>,
    /// HTTP: the exchange on whose stream messages go, and which answers such as `status` answer, as long as it is
    /// open; by default messages go on the GET stream.
    #[serde(default)]
    pub exchange: Option<u64>,
    /// What the transcript calls it; `control` by default.
    #[serde(default)]
    pub label: Option<String>,
}

impl ServerCore {
    pub(super) fn control(&mut self, control: Control) {
        self.observe(What::RuleFired { rule: control.label.unwrap_or_else(|| "control".into()) });
        let session = control
            .session
            .or_else(|| self.http.session_of(control.exchange?))
            .or_else(|| self.http.newest_session());
        if let Some(exchange) = control.exchange {
            self.enter(exchange);
        }
        let id = self.next_task;
        self.next_task += 1;
        self.run(Task {
            id,
            scope: Scope { exchange: control.exchange, session, batch: None },
            actions: VecDeque::from(control.actions),
            ..Task::default()
        });
    }

    /// The ids of the sessions that are open (HTTP), in the order of their making.
    pub fn sessions(&self) -> Vec<String> {
        self.http.open_sessions()
    }

    /// The numbers of the exchanges that are open (HTTP): requests without a whole answer, and streams.
    pub fn exchanges(&self) -> Vec<u64> {
        self.http.open_exchanges()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Effect, Input, Origins};
    use sparring_wire::Revision;
    use sparring_wire::framing::Line;
    use sparring_wire::transcript::{HttpRequest, HttpRole};
    use std::sync::Arc;
    use std::time::Duration;

    fn control(actions: &str) -> Control {
        Control { actions: serde_json::from_str(actions).unwrap(), ..Control::default() }
    }

    fn now(core: &mut ServerCore, input: Input) -> Vec<Effect> {
        core.handle(Duration::ZERO, input)
    }

    fn written(effects: &[Effect]) -> String {
        let bytes = effects.iter().filter_map(|effect| match effect {
            Effect::Write(bytes) | Effect::Chunk { bytes, .. } => Some(bytes.as_slice()),
            _ => None,
        });
        String::from_utf8(bytes.collect::<Vec<_>>().concat()).unwrap()
    }

    #[test]
    fn actions_run_in_order_and_the_transcript_names_them() {
        let script = serde_json::from_str(r#"{"tools": ["echo"]}"#).unwrap();
        let mut core = ServerCore::stdio(Arc::new(script), Revision::V2025_11_25, 1, 0);
        now(&mut core, Input::Start);
        let actions =
            r#"[{"add_tool": {"name": "later"}}, {"delay_ms": 5}, {"announce": "tools"}, {"respond": "{}"}]"#;
        let mut asked = control(actions);
        asked.label = Some("mine".into());
        let effects = now(&mut core, Input::Control(asked));
        assert_eq!(effects[0], Effect::Observe(What::RuleFired { rule: "mine".into() }));
        let Some(Effect::Timer { id, .. }) = effects.last() else { panic!("{effects:?}") };
        let text = written(&now(&mut core, Input::Timer(*id)));
        assert!(text.ends_with("notifications/tools/list_changed\"}\n"), "{text}");
        let list = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let open = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
        let line = |bytes: &[u8]| {
            Input::Line(Line { bytes: bytes.to_vec(), carriage_return: false, terminated: true })
        };
        now(&mut core, line(open));
        assert!(written(&now(&mut core, line(list))).contains("later"));
        let effects = now(&mut core, Input::Control(control(r#"[{"exit": 3}]"#)));
        assert_eq!(effects.last(), Some(&Effect::Exit(3)));
    }

    fn http() -> ServerCore {
        let script = serde_json::from_str(
            r#"{"tools": ["echo"], "http": {"sessions": true, "get_stream": true}, "rules": [{"on": "tools/call", "do": ["stall"]}]}"#,
        );
        ServerCore::http(Arc::new(script.unwrap()), Revision::V2025_11_25, 0, Origins::default(), None)
    }

    fn send(
        core: &mut ServerCore,
        exchange: u64,
        method: &str,
        session: Option<&str>,
        body: &str,
    ) -> Vec<Effect> {
        let mut headers = vec![
            ("accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("content-type".into(), "application/json".into()),
        ];
        headers.extend(session.map(|id| ("mcp-session-id".to_owned(), id.to_owned())));
        let request = HttpRequest {
            exchange,
            method: method.into(),
            target: "/mcp".into(),
            headers,
            body: body.into(),
            role: HttpRole::Mcp,
            ..HttpRequest::default()
        };
        now(core, Input::Request(Box::new(request)))
    }

    const OPEN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;

    #[test]
    fn messages_go_to_the_session_that_was_opened_last_or_the_one_named() {
        let mut core = http();
        send(&mut core, 1, "POST", None, OPEN);
        send(&mut core, 2, "POST", None, OPEN);
        let [first, second] = &core.sessions()[..] else { panic!("{:?}", core.sessions()) };
        let (first, second) = (first.clone(), second.clone());
        send(&mut core, 3, "GET", Some(&first), "");
        send(&mut core, 4, "GET", Some(&second), "");
        assert_eq!(core.exchanges(), [3, 4]);
        let on = |effects: &[Effect]| {
            effects.iter().find_map(|e| match e {
                Effect::Chunk { exchange, .. } => Some(*exchange),
                _ => None,
            })
        };
        let announce = control(r#"[{"announce": "tools"}]"#);
        assert_eq!(on(&now(&mut core, Input::Control(announce.clone()))), Some(4));
        let named = Control { session: Some(first.clone()), ..announce.clone() };
        assert_eq!(on(&now(&mut core, Input::Control(named))), Some(3));
        let exchange = Control { exchange: Some(3), ..announce };
        assert_eq!(on(&now(&mut core, Input::Control(exchange))), Some(3));
        now(&mut core, Input::Control(control(r#"["expire_session"]"#)));
        assert_eq!(core.sessions(), [first]);
    }

    #[test]
    fn an_exchange_that_hangs_is_answered_once() {
        let mut core = http();
        send(&mut core, 1, "POST", None, OPEN);
        let session = core.sessions().remove(0);
        let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}"#;
        send(&mut core, 2, "POST", Some(&session), call);
        assert_eq!(core.exchanges(), [2]);
        let refuse = Control { exchange: Some(2), ..control(r#"[{"status": 503}]"#) };
        let answers =
            |effects: Vec<Effect>| effects.iter().filter(|e| matches!(e, Effect::Respond { .. })).count();
        assert_eq!(answers(now(&mut core, Input::Control(refuse.clone()))), 1);
        assert_eq!(core.exchanges(), [] as [u64; 0]);
        assert_eq!(answers(now(&mut core, Input::Control(refuse))), 0);
    }
}
