use crate::support::{Folder, args, profile};
use serde_json::json;
use sparring_client::{CallOptions, RequestOptions};
use sparring_host::{Control, Host, HostError, Inspect, SessionOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn servers_fail_alone_and_tools_are_called_under_composed_names() {
    let folder = Folder::new();
    let entries =
        vec![folder.server("one", &[]), folder.server("dead", &["fail"]), folder.server("two", &[])];
    let host = Host::launch(folder.host(profile("reference"), entries)).await.unwrap();
    let session = host.session(SessionOptions::default()).await.unwrap();
    let tools = session.tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(names.contains(&"mcp__one__echo") && names.contains(&"mcp__two__echo"), "{names:?}");
    let result =
        session.call("mcp__two__echo", args(json!({"text": "hi"})), CallOptions::default()).await.unwrap();
    assert!(serde_json::to_string(&result).unwrap().contains("hi"));
    let unknown = session.call("echo", args(json!({})), CallOptions::default()).await.unwrap_err();
    assert_eq!(unknown, HostError::NoTool("echo".into()));
    let status = session.inspect(Inspect::Status).await.unwrap();
    assert_eq!(status[1]["state"], "errored");
    assert!(status[1]["error"].as_str().unwrap().contains("no luck today"), "{status}");
    host.close().await;
    assert_eq!((folder.count("one start"), folder.count("one end")), (1, 1));
}

#[tokio::test]
async fn progress_is_passed_on_only_where_the_host_does_that() {
    for (host, passed_on) in [("zut", true), ("chaz", false)] {
        let folder = Folder::new();
        let entries = vec![folder.server("one", &[])];
        let host = Host::launch(folder.host(profile(host), entries)).await.unwrap();
        let session = host.session(SessionOptions::default()).await.unwrap();
        session.control(Control::AutoApprove { on: true }).await.unwrap();
        let tools = session.tools().await.unwrap();
        let name = &tools.iter().find(|tool| tool.raw() == Some("echo")).unwrap().name;
        let told = Arc::new(AtomicBool::new(false));
        let teller = Arc::clone(&told);
        let options = CallOptions {
            request: RequestOptions { progress: true, ..RequestOptions::default() },
            progress: Some(Arc::new(move |_| teller.store(true, Ordering::SeqCst))),
            ..CallOptions::default()
        };
        session.call(name, args(json!({"text": "hi"})), options).await.unwrap();
        host.close().await;
        assert_eq!(told.load(Ordering::SeqCst), passed_on);
    }
}
