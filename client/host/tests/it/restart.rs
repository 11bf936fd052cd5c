use crate::support::{Folder, call, control, launch, open, profile, session, state};
use serde_json::json;
use sparring_host::HostError;
use sparring_profiles::{EventName, Reset, Settings, Trigger};
use sparring_wire::transcript::FailureKind;

fn quick(mut settings: Settings, trigger: Trigger) -> Settings {
    settings.restart.trigger = trigger;
    settings.restart.backoff_s = vec![0.001];
    settings
}

fn is_closed(error: &HostError) -> bool {
    matches!(error, HostError::Server { error, .. } if error.kind() == FailureKind::Closed)
}

#[tokio::test]
async fn the_next_call_brings_it_back_until_it_is_given_up() {
    let folder = Folder::new();
    let mut settings = quick(profile("reference"), Trigger::NextCall);
    settings.restart.max_attempts = 3;
    let (host, session) = open(folder.host(settings, vec![folder.server("s", &["crash"])])).await;
    for starts in [1, 2, 3, 4] {
        let error = call(&session, "mcp__s__echo").await.unwrap_err();
        assert!(is_closed(&error), "{error}");
        assert_eq!(folder.starts("s"), starts);
        assert!(!session.tools().await.unwrap().is_empty(), "still offered");
    }
    let error = call(&session, "mcp__s__echo").await.unwrap_err();
    assert!(error.to_string().contains("given up"), "{error}");
    assert_eq!(state(&session, 0).await, "given-up");
    assert_eq!((folder.starts("s"), folder.calls("s")), (4, 4));
    folder.set("well");
    control(&session, json!({"control": "start", "server": "s"})).await.unwrap();
    call(&session, "mcp__s__echo").await.unwrap();
    host.close().await;
}

#[tokio::test]
async fn the_failing_call_brings_it_back_and_is_sent_again_if_so_promised() {
    for retry in [false, true] {
        let folder = Folder::new();
        let mut settings = quick(profile("chaz"), Trigger::FailingCall);
        settings.restart.retry_call = retry;
        settings.policy.default.clear();
        settings.policy.default.insert("mode".into(), "allow".into());
        let (host, session) = open(folder.host(settings, vec![folder.server("s", &["crash"])])).await;
        call(&session, "s__echo").await.unwrap_err();
        assert_eq!((folder.starts("s"), folder.calls("s")), (2, if retry { 2 } else { 1 }));
        folder.set("well");
        call(&session, "s__echo").await.unwrap();
        host.close().await;
    }
}

#[tokio::test]
async fn which_success_clears_the_count() {
    for (reset, given_up) in [(Reset::Call, true), (Reset::Start, false)] {
        let folder = Folder::new();
        let mut settings = quick(profile("reference"), Trigger::NextCall);
        settings.restart.max_attempts = 2;
        settings.restart.reset_on = reset;
        let (host, session) = open(folder.host(settings, vec![folder.server("s", &["crash"])])).await;
        for _ in 0..4 {
            call(&session, "mcp__s__echo").await.unwrap_err();
        }
        assert_eq!(state(&session, 0).await == "given-up", given_up);
        host.close().await;
    }
}

#[tokio::test]
async fn it_comes_back_at_once_without_a_call() {
    let folder = Folder::new();
    let settings = quick(profile("reference"), Trigger::AtOnce);
    let (host, session) = open(folder.host(settings, vec![folder.server("s", &["crash"])])).await;
    call(&session, "mcp__s__echo").await.unwrap_err();
    // The first one was at launch, for the host; the second one is for the session that holds it.
    host.events().wait(|event| event.kind == EventName::Connect && event.session == Some(session.id())).await;
    assert_eq!(folder.starts("s"), 2);
    host.close().await;
}

#[tokio::test]
async fn by_hand_only_until_the_next_session() {
    let folder = Folder::new();
    let mut settings = quick(profile("mouaif"), Trigger::Manual);
    settings.policy.default.insert("mode".into(), "allow".into());
    let errors = settings.errors.clone();
    let host = launch(folder.host(settings, vec![folder.server("s", &["crash"])])).await;
    let first = session(&host).await;
    let tool = "mcp__s__echo";
    let shown = |error: HostError| error.shown(&errors);
    assert!(shown(call(&first, tool).await.unwrap_err()).contains("EMCP_TRANSPORT"));
    assert!(shown(call(&first, tool).await.unwrap_err()).contains("ETOOL_DISABLED"));
    assert_eq!(state(&first, 0).await, "errored");
    folder.set("well");
    assert!(shown(call(&first, tool).await.unwrap_err()).contains("ETOOL_DISABLED"));
    assert_eq!(folder.starts("s"), 1);
    // Another session may start it; this one may not, until it is opened anew or somebody starts it by hand.
    let second = session(&host).await;
    call(&second, tool).await.unwrap();
    assert!(call(&first, tool).await.is_err());
    control(&first, json!({"control": "reopen"})).await.unwrap();
    call(&first, tool).await.unwrap();
    assert_eq!(folder.starts("s"), 2);
    folder.unset("well");
    call(&first, tool).await.unwrap_err();
    folder.set("well");
    control(&first, json!({"control": "start", "server": "s"})).await.unwrap();
    call(&first, tool).await.unwrap();
    host.close().await;
}

#[tokio::test]
async fn never_means_never() {
    let folder = Folder::new();
    let settings = quick(profile("reference"), Trigger::Never);
    let (host, session) = open(folder.host(settings, vec![folder.server("s", &["crash"])])).await;
    for _ in 0..3 {
        assert!(is_closed(&call(&session, "mcp__s__echo").await.unwrap_err()));
    }
    assert_eq!((folder.starts("s"), folder.calls("s")), (1, 1));
    host.close().await;
}
