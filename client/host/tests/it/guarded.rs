//! What stands between the model and the tools: policy, disclosure, paths, redaction.

use crate::support::{Folder, args, profile};
use serde_json::{Value, json};
use sparring_client::CallOptions;
use sparring_host::disclosure::{DisclosureOptions, SearchMode};
use sparring_host::policy::{NameSet, Visible};
use sparring_host::{Control, Host, HostError, Inspect, Session, SessionOptions};
use sparring_profiles::Settings;

async fn open(folder: &Folder, settings: Settings, options: SessionOptions) -> (Host, Session) {
    let entries = vec![folder.server("fs", &[])];
    let host = Host::launch(folder.host(settings, entries).clock_scale(1.0)).await.unwrap();
    let session = host.session(options).await.unwrap();
    session.warmup().await.unwrap();
    (host, session)
}

async fn call(session: &Session, name: &str, arguments: Value) -> Result<String, HostError> {
    let result = session.call(name, args(arguments), CallOptions::default()).await?;
    Ok(serde_json::to_string(&result).unwrap())
}

async fn names(session: &Session) -> Vec<String> {
    session.tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

#[tokio::test]
async fn a_call_that_is_asked_waits_and_a_no_is_never_sent() {
    let folder = Folder::new();
    let (host, session) = open(&folder, profile("mouaif"), SessionOptions::default()).await;
    let asked = tokio::spawn({
        let session = session.clone();
        async move { call(&session, "mcp__fs__echo", json!({"text": "hi"})).await }
    });
    while session.inspect(Inspect::Pending).await.unwrap().as_array().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(folder.count("fs tools/call"), 0);
    session.control(Control::Deny { tool: None, reason: None }).await.unwrap();
    let refused = asked.await.unwrap().unwrap_err();
    assert!(matches!(refused, HostError::Denied { .. }), "{refused}");
    assert_eq!(folder.count("fs tools/call"), 0);
    session.control(Control::Approve { tool: None, always: false }).await.unwrap();
    assert!(call(&session, "mcp__fs__echo", json!({"text": "hi"})).await.unwrap().contains("hi"));
    assert_eq!(folder.count("fs tools/call"), 1);
    host.close().await;
}

#[tokio::test]
async fn always_is_written_down_for_that_tool_alone() {
    let folder = Folder::new();
    let project = folder.path().canonicalize().unwrap().join("project");
    std::fs::create_dir(&project).unwrap();
    let mut surroundings = folder.surroundings();
    surroundings.project = Some(project.clone());
    let builder = Host::builder(profile("mouaif"), surroundings).entries(vec![folder.server("fs", &[])]);
    let host = Host::launch(builder).await.unwrap();
    let session = host.session(SessionOptions::default()).await.unwrap();
    session.warmup().await.unwrap();
    session.control(Control::Approve { tool: None, always: true }).await.unwrap();
    call(&session, "mcp__fs__echo", json!({})).await.unwrap();
    call(&session, "mcp__fs__echo", json!({})).await.unwrap();
    let written = std::fs::read_to_string(project.join(".mcp.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["authorization"]["tools"], json!({"mcp__fs__echo": {"mode": "allow"}}));
    let policy = |tool: &str| session.inspect(Inspect::Policy { tool: tool.into() });
    assert_eq!(policy("mcp__fs__echo").await.unwrap()["decision"], "allow");
    assert_eq!(policy("mcp__fs__warn").await.unwrap()["decision"], "ask");
    host.close().await;
}

#[tokio::test]
async fn a_tool_that_is_off_is_hidden_and_refused_with_the_hosts_code() {
    let folder = Folder::new();
    let settings = profile("mouaif");
    let (host, session) = open(&folder, settings.clone(), SessionOptions::default()).await;
    let rules = json!({"tools": {"mcp__fs__echo": "off"}, "app": "allow"});
    session.control(Control::Rules { rules }).await.unwrap();
    let seen = names(&session).await;
    assert!(!seen.contains(&"mcp__fs__echo".into()) && seen.contains(&"mcp__fs__warn".into()), "{seen:?}");
    let error = call(&session, "mcp__fs__echo", json!({})).await.unwrap_err();
    assert!(error.shown(&settings.errors).contains("ETOOL_DISABLED"), "{error}");
    let error = call(&session, "mcp__fs__none", json!({})).await.unwrap_err();
    assert!(error.shown(&settings.errors).contains("EMCP_NOTFOUND"), "{error}");
    let error = call(&session, "mcp__nowhere__echo", json!({})).await.unwrap_err();
    assert!(error.shown(&settings.errors).contains("EMCP_NOSESSION"), "{error}");
    assert_eq!(folder.count("fs tools/call"), 0);
    host.close().await;
}

#[tokio::test]
async fn gates_and_sessions_refuse_tools() {
    let folder = Folder::new();
    let visible = Visible { allowed: Some(NameSet::from_iter(["*__echo", "*__warn"])), ..Visible::default() };
    let options = SessionOptions { visible, ..SessionOptions::default() };
    let (host, session) = open(&folder, profile("reference"), options).await;
    assert_eq!(names(&session).await, ["mcp__fs__echo", "mcp__fs__warn"]);
    assert!(matches!(call(&session, "mcp__fs__wait", json!({})).await, Err(HostError::Denied { .. })));
    session.control(Control::Gate { names: NameSet::from_iter(["*__warn"]) }).await.unwrap();
    assert!(matches!(call(&session, "mcp__fs__warn", json!({})).await, Err(HostError::Denied { .. })));
    call(&session, "mcp__fs__echo", json!({})).await.unwrap();
    assert_eq!(folder.count("fs tools/call"), 1);
    host.close().await;
}

#[tokio::test]
async fn a_host_without_filters_gives_its_sessions_all_tools() {
    let folder = Folder::new();
    let mut settings = profile("reference");
    settings.policy.session_filter = false;
    let visible = Visible { allowed: Some(NameSet::from_iter(["*__echo"])), ..Visible::default() };
    let options = SessionOptions { visible: visible.clone(), ..SessionOptions::default() };
    let (host, session) = open(&folder, settings, options).await;
    assert_eq!(names(&session).await.len(), 4);
    let refused = session.control(Control::Visible { visible }).await;
    assert!(matches!(refused, Err(HostError::Refused(_))), "{refused:?}");
    host.close().await;
}

#[tokio::test]
async fn rules_of_one_session_are_not_those_of_another() {
    let folder = Folder::new();
    let mut settings = profile("reference");
    // Nothing is written down for the project.
    settings.policy.layers.retain(|layer| *layer != sparring_profiles::Layer::Project);
    let (host, session) = open(&folder, settings, SessionOptions::default()).await;
    let other = host.session(SessionOptions::default()).await.unwrap();
    let rules = json!({"tools": {"mcp__fs__echo": "off"}});
    session.control(Control::Rules { rules }).await.unwrap();
    assert!(matches!(call(&session, "mcp__fs__echo", json!({})).await, Err(HostError::Disabled(..))));
    call(&other, "mcp__fs__echo", json!({})).await.unwrap();
    host.close().await;
}

fn lazy() -> SessionOptions {
    let disclosure = DisclosureOptions { mode: Some(SearchMode::Lazy), ..DisclosureOptions::default() };
    SessionOptions { disclosure, ..SessionOptions::default() }
}

#[tokio::test]
async fn deferred_tools_are_found_and_dispatched_under_their_own_names() {
    let folder = Folder::new();
    let (host, session) = open(&folder, profile("zidane"), lazy()).await;
    let prompt = session.inspect(Inspect::Prompt).await.unwrap();
    assert!(prompt["system"].as_str().unwrap().contains("- mcp_fs_echo"), "{prompt}");
    assert_eq!(names(&session).await, ["tool_search", "call_tool"]);
    assert!(matches!(call(&session, "mcp_fs_echo", json!({})).await, Err(HostError::Denied { .. })));
    let found = call(&session, "tool_search", json!({"query": "echo"})).await.unwrap();
    assert!(found.contains("mcp_fs_echo") && !found.contains("mcp_fs_warn"), "{found}");
    let dispatched = json!({"name": "mcp_fs_echo", "arguments": {"text": "hi"}});
    assert!(call(&session, "call_tool", dispatched).await.unwrap().contains("hi"));
    let unfound = json!({"name": "mcp_fs_warn"});
    assert!(matches!(call(&session, "call_tool", unfound).await, Err(HostError::Denied { .. })));
    let events = session.inspect(Inspect::Events).await.unwrap().to_string();
    assert!(events.contains("mcp_fs_echo") && !events.contains("\"call_tool\""), "{events}");
    session.run().await.unwrap();
    let late = call(&session, "mcp_fs_echo", json!({})).await;
    assert!(matches!(late, Err(HostError::Denied { .. })), "another run knows nothing");
    host.close().await;
}

#[tokio::test]
async fn found_tools_join_the_list_and_survive_compaction() {
    let folder = Folder::new();
    let (host, session) = open(&folder, profile("mewbo"), SessionOptions::default()).await;
    let own = names(&session).await;
    assert_eq!(own, ["tool_search"]);
    let tools = session.inspect(Inspect::Prompt).await.unwrap();
    let catalog = tools["system"].as_str().unwrap().to_owned();
    let name =
        catalog.lines().find_map(|line| line.strip_prefix("- ").filter(|n| n.ends_with("echo"))).unwrap();
    call(&session, "tool_search", json!({"query": format!("select:{name}")})).await.unwrap();
    session.control(Control::Compact).await.unwrap();
    session.run().await.unwrap();
    assert_eq!(names(&session).await, [name, "tool_search"]);
    call(&session, name, json!({})).await.unwrap();
    host.close().await;
}

#[tokio::test]
async fn paths_stay_in_the_project() {
    let folder = Folder::new();
    let settings = profile("mouaif");
    let (host, session) = open(&folder, settings.clone(), SessionOptions::default()).await;
    session.control(Control::Rules { rules: json!({"app": "allow"}) }).await.unwrap();
    let error = call(&session, "mcp__fs__echo", json!({"filePath": "../x"})).await.unwrap_err();
    assert!(error.shown(&settings.errors).contains("EOUTSIDE_PROJECT"), "{error}");
    assert_eq!(folder.count("fs tools/call"), 0);
    call(&session, "mcp__fs__echo", json!({"filePath": "x"})).await.unwrap();
    host.close().await;
}

#[tokio::test]
async fn configured_values_are_in_no_event_and_no_status() {
    let folder = Folder::new();
    let mut entry = folder.server("fs", &[]);
    entry.env.insert("API_KEY".into(), "s3cret-value".into());
    let host = Host::launch(folder.host(profile("zut"), vec![entry]).clock_scale(1.0)).await.unwrap();
    let session = host.session(SessionOptions::default()).await.unwrap();
    session.warmup().await.unwrap();
    call(&session, "mcp__fs__warn", json!({"text": "s3cret-value and API_KEY"})).await.unwrap();
    host.events()
        .wait(|event| event.fields.values().any(|value| value.to_string().contains("careful")))
        .await;
    let events = session.inspect(Inspect::Events).await.unwrap().to_string();
    assert!(events.contains("API_KEY"), "{events}");
    let careful: Vec<&str> = events.split("careful").skip(1).collect();
    assert!(careful.iter().all(|rest| !rest.contains("s3cret-value")), "{events}");
    host.close().await;
}
