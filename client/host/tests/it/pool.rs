use crate::support::{Folder, call, control, gone, launch, open, pid, profile, session};
use serde_json::{Value, json};
use sparring_host::{HostError, Inspect, SessionOptions};
use sparring_profiles::EventName;

#[tokio::test]
async fn equal_servers_are_one_process() {
    let folder = Folder::new();
    let mut settings = profile("zidane");
    settings.pool.idle_close_s = 0.05;
    let host = launch(folder.host(settings, vec![folder.server("s", &[])])).await;
    let (one, two) = (session(&host).await, session(&host).await);
    let first = pid(&one, "mcp_s_echo").await;
    assert_eq!(pid(&two, "mcp__s__echo").await, first, "the other spelling too");
    // Each has asked for the tools itself.
    assert_eq!(folder.count("s tools/list"), 2);
    let alone = host.session(SessionOptions { isolated: true, ..SessionOptions::default() }).await.unwrap();
    let own = pid(&alone, "mcp_s_echo").await;
    assert_ne!(own, first);
    let instances = host.instances();
    let shown: Vec<_> = instances.iter().map(|i| (i.shared, i.sessions, i.pid, i.retired)).collect();
    assert_eq!(shown, [(true, 2, Some(first), false), (false, 1, Some(own), false)]);
    alone.close().await;
    gone(own).await;
    one.close().await;
    assert_eq!(pid(&two, "mcp_s_echo").await, first);
    two.close().await;
    // Taken again in time, it lives on; then it is closed for being idle.
    gone(first).await;
    assert!(host.instances().is_empty());
    host.close().await;
}

#[tokio::test]
async fn what_makes_servers_different() {
    let folder = Folder::new();
    let mut settings = profile("zidane");
    let host = launch(folder.host(settings.clone(), vec![folder.server("s", &[])])).await;
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let there = SessionOptions { cwd: Some(elsewhere), ..SessionOptions::default() };
    let (here, there) = (session(&host).await, host.session(there).await.unwrap());
    assert_ne!(pid(&here, "mcp_s_echo").await, pid(&there, "mcp_s_echo").await, "the folder counts");
    host.close().await;
    // Kept to one session, by the entry or for all.
    settings.pool.off_env = "NO_POOL=1".into();
    for off in [false, true] {
        let mut entry = folder.server("s", &[]);
        entry.shared = (!off).then_some(false);
        let mut builder = folder.host(settings.clone(), vec![entry]);
        if off {
            let mut around = folder.surroundings();
            around.env.insert("NO_POOL".into(), "1".into());
            builder =
                sparring_host::Host::builder(settings.clone(), around).entries(vec![folder.server("s", &[])]);
        }
        let host = launch(builder).await;
        let (one, two) = (session(&host).await, session(&host).await);
        assert_ne!(pid(&one, "mcp_s_echo").await, pid(&two, "mcp_s_echo").await, "{off}");
        host.close().await;
    }
}

#[tokio::test]
async fn a_retired_server_serves_its_holders() {
    let folder = Folder::new();
    let host = launch(folder.host(profile("zidane"), vec![folder.server("s", &[])])).await;
    let old = session(&host).await;
    let first = pid(&old, "mcp_s_echo").await;
    control(&old, json!({"control": "retire", "server": "s"})).await.unwrap();
    assert_eq!(pid(&old, "mcp_s_echo").await, first);
    let new = session(&host).await;
    let second = pid(&new, "mcp_s_echo").await;
    assert_ne!(second, first);
    let instances = new.inspect(Inspect::Instances).await.unwrap();
    assert_eq!(
        (&instances[0]["retired"], &instances[1]["retired"]),
        (&Value::from(true), &Value::from(false))
    );
    // Its holder moves with its next run, and with that it closes.
    old.run().await.unwrap();
    gone(first).await;
    assert_eq!(pid(&old, "mcp_s_echo").await, second);
    host.close().await;
}

#[tokio::test]
async fn a_restart_by_hand_fails_what_is_under_way() {
    let folder = Folder::new();
    let settings = profile("zidane");
    let errors = settings.errors.clone();
    let (host, session) = open(folder.host(settings, vec![folder.server("s", &[])])).await;
    let first = pid(&session, "mcp_s_echo").await;
    let waiting = tokio::spawn({
        let session = session.clone();
        async move { call(&session, "mcp_s_wait").await }
    });
    while folder.calls("s") < 2 {
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    control(&session, json!({"control": "restart", "server": "s"})).await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error, HostError::Restarted("s".into()));
    assert_eq!(error.shown(&errors), "s restarted");
    gone(first).await;
    assert_eq!(folder.starts("s"), 1, "the next call starts it");
    assert_ne!(pid(&session, "mcp_s_echo").await, first);
    host.close().await;
}

#[tokio::test]
async fn warnings_go_to_the_one_that_calls() {
    let folder = Folder::new();
    let host = launch(folder.host(profile("zidane"), vec![folder.server("s", &[])])).await;
    let (one, two) = (session(&host).await, session(&host).await);
    pid(&two, "mcp_s_echo").await;
    call(&one, "mcp_s_warn").await.unwrap();
    let warning = host.events().wait(|event| event.kind == EventName::Warn).await;
    assert_eq!((warning.name.as_str(), warning.session), ("mcp:warn", Some(one.id())));
    assert!(warning.fields["message"].as_str().unwrap().contains("careful with"));
    let seen = two.inspect(Inspect::Events).await.unwrap();
    assert!(!seen.to_string().contains("careful with"));
    assert_eq!(host.instances()[0].sessions, 2);
    host.close().await;
}
