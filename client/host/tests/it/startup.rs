use crate::support::{Folder, call, control, launch, names, open, profile, session, state};
use serde_json::json;
use sparring_host::{Host, HostError, SessionOptions};
use sparring_profiles::{Connect, EventName, OnFailure, Phase, RetryFailed};
use std::time::Duration;

#[tokio::test]
async fn servers_are_contacted_when_the_profile_says() {
    for connect in [Connect::Launch, Connect::Session, Connect::FirstRun, Connect::FirstCall] {
        let folder = Folder::new();
        let mut settings = profile("reference");
        settings.startup.connect = connect;
        settings.startup.listing_starts = false;
        let host = launch(folder.host(settings, vec![folder.server("s", &[])])).await;
        let mut starts = vec![folder.starts("s")];
        let session = session(&host).await;
        starts.push(folder.starts("s"));
        assert_eq!(
            names(&session).await.is_empty(),
            matches!(connect, Connect::FirstRun | Connect::FirstCall)
        );
        session.run().await.unwrap();
        starts.push(folder.starts("s"));
        call(&session, "mcp__s__echo").await.unwrap();
        starts.push(folder.starts("s"));
        let first = starts.iter().position(|starts| *starts == 1).unwrap();
        assert_eq!(first, connect as usize, "{starts:?}");
        assert_eq!(starts[3], 1);
        host.close().await;
    }
}

#[tokio::test]
async fn a_server_that_must_not_fail_ends_the_start() {
    for abort in [false, true] {
        let folder = Folder::new();
        let mut settings = profile("reference");
        settings.startup.on_failure = if abort { OnFailure::Abort } else { OnFailure::Isolate };
        let mut bad = folder.server("bad", &["fail"]);
        bad.required = !abort;
        let entries = vec![folder.server("good", &[]), bad];
        let failed = Host::launch(folder.host(settings.clone(), entries.clone())).await.err().unwrap();
        assert!(matches!(failed, HostError::Server { server, .. } if server == "bad"));
        assert_eq!(folder.count("good end"), 1, "the others are closed");
        if !abort {
            settings.startup.required_option = false;
            let (host, session) = open(folder.host(settings, entries)).await;
            call(&session, "mcp__good__echo").await.unwrap();
            host.close().await;
        }
    }
}

#[tokio::test]
async fn the_budget_of_a_start_spans_what_it_covers() {
    for flag in ["hang", "slow-list"] {
        let folder = Folder::new();
        let mut settings = profile("reference");
        settings.timeouts.startup_s = 0.3;
        settings.timeouts.close_s = 0.1;
        assert!(settings.timeouts.startup_covers.contains(&Phase::ToolsList));
        let mut own = folder.server("own", &[flag]);
        own.startup_timeout = Some(0.1);
        let begin = std::time::Instant::now();
        let (host, session) = open(folder.host(settings, vec![folder.server("s", &[flag]), own])).await;
        assert!(begin.elapsed() >= Duration::from_millis(300));
        let status = session.inspect(sparring_host::Inspect::Status).await.unwrap();
        let error = |n: usize| status[n]["error"].as_str().unwrap().to_owned();
        assert!(error(0).contains("300 ms") && error(1).contains("100 ms"), "{status}");
        host.close().await;
    }
}

#[tokio::test]
async fn what_brings_a_server_back_that_failed_at_start() {
    use RetryFailed::{Manual, Never, NextBootstrap, NextCall};
    for retry in [Never, NextBootstrap, NextCall, Manual] {
        let folder = Folder::new();
        let mut settings = profile("reference");
        settings.startup.connect = Connect::Session;
        settings.startup.retry_failed = retry;
        // The name is known from the tools that are supplied, so that it can be called.
        let mut entry = folder.server("s", &[]);
        entry.supplied_tools = Some(vec![json!({"name": "echo", "inputSchema": {"type": "object"}})]);
        folder.set("fail");
        let (host, first) = open(folder.host(settings, vec![entry])).await;
        assert_eq!(state(&first, 0).await, "errored");
        folder.unset("fail");
        let called = call(&first, "mcp__s__echo").await;
        assert_eq!(called.is_ok(), retry == NextCall, "{retry:?}: {called:?}");
        let second = session(&host).await;
        let called = call(&second, "mcp__s__echo").await;
        assert_eq!(called.is_ok(), matches!(retry, NextCall | NextBootstrap), "{retry:?}");
        control(&second, json!({"control": "start", "server": "s"})).await.unwrap();
        call(&first, "mcp__s__echo").await.unwrap();
        host.close().await;
    }
}

#[tokio::test]
async fn concurrent_starters_share_one_attempt() {
    for shared in [true, false] {
        let folder = Folder::new();
        let mut settings = profile("zidane");
        settings.startup.shared_attempt = shared;
        let host = launch(folder.host(settings, vec![folder.server("s", &[])])).await;
        let (one, two) = (session(&host).await, session(&host).await);
        let (first, second) = tokio::join!(one.warmup(), two.warmup());
        first.and(second).unwrap();
        assert_eq!(folder.starts("s"), if shared { 1 } else { 2 });
        one.warmup().await.unwrap();
        assert_eq!(folder.starts("s"), if shared { 1 } else { 2 });
        host.close().await;
    }
}

#[tokio::test]
async fn servers_that_are_off_are_left_alone() {
    let folder = Folder::new();
    let mut entry = folder.server("s", &[]);
    entry.enabled = Some(false);
    let (host, session) = open(folder.host(profile("zut"), vec![entry])).await;
    assert_eq!(state(&session, 0).await, "off");
    let start = control(&session, json!({"control": "start", "server": "s"})).await;
    assert!(matches!(start, Err(HostError::Disabled(..))));
    let called = call(&session, "mcp__s__echo").await;
    assert!(matches!(called, Err(HostError::NoServer(_) | HostError::Disabled(..))), "{called:?}");
    let without = SessionOptions { without_servers: true, ..SessionOptions::default() };
    assert!(names(&host.session(without).await.unwrap()).await.is_empty());
    host.close().await;
    assert_eq!(folder.starts("s"), 0);
}

#[tokio::test]
async fn the_end_of_each_start_is_an_event_with_the_hosts_name_and_fields() {
    let folder = Folder::new();
    let entries = vec![folder.server("good", &[]), folder.server("bad", &["fail"])];
    let (host, session) = open(folder.host(profile("zidane"), entries)).await;
    session.warmup().await.unwrap();
    let all = host.events().all();
    let ends: Vec<_> = all.iter().filter(|event| event.kind == EventName::Started).collect();
    assert_eq!(ends.len(), 2);
    for end in ends {
        assert_eq!(end.name, "mcp:bootstrap:end");
        let good = end.server.as_deref() == Some("good");
        assert_eq!(end.fields["ok"], good);
        assert_eq!((end.fields.contains_key("toolCount"), end.fields.contains_key("error")), (good, !good));
        assert_eq!(end.fields["transport"], "stdio");
        assert!(end.fields["durationMs"].is_u64());
    }
    let names: Vec<&str> = all.iter().map(|event| event.name.as_str()).collect();
    assert!(names.contains(&"mcp:connect") && names.contains(&"mcp:error"), "{names:?}");
    host.close().await;
}

#[tokio::test]
async fn supplied_tools_replace_the_list_and_may_put_off_the_connection() {
    for lazy in [false, true] {
        let folder = Folder::new();
        let mut entry = folder.server("s", &[]);
        entry.supplied_tools = Some(vec![json!({"name": "echo", "inputSchema": {"type": "object"}})]);
        entry.lazy_connect = lazy;
        let (host, session) = open(folder.host(profile("reference"), vec![entry])).await;
        assert_eq!(names(&session).await, ["mcp__s__echo"]);
        assert_eq!(folder.starts("s"), usize::from(!lazy));
        call(&session, "mcp__s__echo").await.unwrap();
        assert_eq!((folder.starts("s"), folder.count("s tools/list")), (1, 0));
        host.close().await;
    }
}
