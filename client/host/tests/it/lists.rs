use crate::support::{Folder, call, control, names, open, profile, session};
use serde_json::json;
use sparring_host::Session;
use sparring_profiles::{CacheKind, Connect, OnChange, Visible};

async fn sees_new(session: &Session) -> bool {
    names(session).await.contains(&"mcp__s__new".to_owned())
}

#[tokio::test]
async fn a_changed_list_is_seen_when_the_profile_says() {
    use Visible::{AtOnce, NextCall, NextTurn, Rebuild};
    for visible in [AtOnce, NextCall, NextTurn, Rebuild] {
        let folder = Folder::new();
        let mut settings = profile("reference");
        settings.list_changed.tools = OnChange::RefetchNow;
        settings.list_changed.visible = visible;
        let (host, session) = open(folder.host(settings, vec![folder.server("s", &[])])).await;
        assert!(!sees_new(&session).await);
        let mut events = session.connection("s").unwrap().events();
        call(&session, "mcp__s__change").await.unwrap();
        while !matches!(events.next().await.unwrap(), sparring_client::Event::Refetched { .. }) {}
        let mut seen = vec![sees_new(&session).await];
        call(&session, "mcp__s__echo").await.unwrap();
        seen.push(sees_new(&session).await);
        session.run().await.unwrap();
        seen.push(sees_new(&session).await);
        control(&session, json!({"control": "rebuild"})).await.unwrap();
        seen.push(sees_new(&session).await);
        let first = seen.iter().position(|seen| *seen).unwrap();
        let expected = [AtOnce, NextCall, NextTurn, Rebuild].iter().position(|v| *v == visible).unwrap();
        assert_eq!(first, expected, "{visible:?}: {seen:?}");
        host.close().await;
    }
}

#[tokio::test]
async fn the_list_is_read_again_before_the_next_call() {
    let folder = Folder::new();
    let mut settings = profile("reference");
    settings.list_changed.tools = OnChange::BeforeNextCall;
    settings.list_changed.visible = Visible::NextCall;
    let (host, session) = open(folder.host(settings, vec![folder.server("s", &[])])).await;
    call(&session, "mcp__s__change").await.unwrap();
    assert_eq!(folder.count("s tools/list"), 1);
    assert!(!sees_new(&session).await);
    // A tool that is new can be called straight away.
    call(&session, "mcp__s__new").await.unwrap();
    assert_eq!(folder.count("s tools/list"), 2);
    assert!(sees_new(&session).await);
    call(&session, "mcp__s__echo").await.unwrap();
    assert_eq!(folder.count("s tools/list"), 2);
    host.close().await;
}

#[tokio::test]
async fn tools_of_a_stopped_server_are_remembered_as_far_as_the_cache_goes() {
    for cache in [CacheKind::None, CacheKind::Memory, CacheKind::Disk] {
        let folder = Folder::new();
        let mut settings = profile("mouaif");
        settings.discovery.cache = cache;
        settings.policy.default.insert("mode".into(), "allow".into());
        assert_eq!(settings.startup.connect, Connect::FirstCall);
        let entries = vec![folder.server("s", &[])];
        let (host, first) = open(folder.host(settings.clone(), entries.clone())).await;
        assert!(names(&first).await.is_empty());
        call(&first, "mcp__s__echo").await.unwrap();
        control(&first, json!({"control": "stop", "server": "s"})).await.unwrap();
        let second = session(&host).await;
        assert_eq!(names(&second).await.is_empty(), cache == CacheKind::None, "{cache:?}");
        // A call of a stopped server starts it.
        call(&second, "mcp__s__echo").await.unwrap();
        assert_eq!(folder.starts("s"), 2);
        host.close().await;
        let (host, session) = open(folder.host(settings, entries)).await;
        assert_eq!(names(&session).await.is_empty(), cache != CacheKind::Disk, "{cache:?}");
        assert_eq!(folder.starts("s"), 2, "looking starts nothing");
        host.close().await;
    }
}
