use crate::support::{Server, args, settings, text_result, tools_result};
use sparring_client::{Client, Host, HttpTarget, RestartTrigger, ServerStatus, Target};
use sparring_wire::transcript::FailureKind;

async fn with_tools(names: &'static [&'static str]) -> Server {
    Server::start(move |mut x| {
        Box::pin(async move {
            let id = x.request.id();
            match x.request.rpc().as_str() {
                "tools/list" => x.json(&tools_result(&id, names)).await,
                "tools/call" => {
                    let name = x.request.json()["params"]["name"].as_str().unwrap_or_default().to_owned();
                    x.json(&text_result(&id, &name)).await;
                }
                _ => x.good().await,
            }
        })
    })
    .await
}

#[tokio::test]
async fn servers_fail_alone_and_tools_keep_their_raw_names_on_the_wire() {
    let one = with_tools(&["search", "a/b", "straße"]).await;
    let two = with_tools(&["search"]).await;
    let dead = Target::Http(HttpTarget::new("http://127.0.0.1:1/mcp"));
    let servers = [("one".to_owned(), one.target()), ("dead".into(), dead), ("two".into(), two.target())];
    let host = Host::start(Client::new(settings()), servers).await;
    assert_eq!(host.status("one"), Some(ServerStatus::Up));
    assert!(matches!(host.status("dead"), Some(ServerStatus::Down(_))));
    let tools = host.tools();
    let names: Vec<&str> = tools.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["mcp__one__search", "mcp__one__a_b", "mcp__one__stra_e", "mcp__two__search"]);
    for tool in &tools {
        assert_eq!(host.call(&tool.name, args("x")).await.unwrap().text(), tool.tool.key);
    }
    assert_eq!(host.call("search", args("x")).await.unwrap_err().kind(), FailureKind::Refused);
    host.close().await;
    assert_eq!(host.call("mcp__one__search", args("x")).await.unwrap_err().kind(), FailureKind::Closed);
}

#[cfg(unix)]
mod restarts {
    use super::*;
    use sparring_client::{Settings, StdioTarget};
    use std::path::Path;
    use std::time::Duration;

    /// A server that logs its starts and exits on its calls, unless `flag` exists.
    fn crasher(folder: &Path) -> Target {
        let script = r#"
echo start >>"$DIR/starts"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\),.*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*) answer '{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) echo call >>"$DIR/calls"; [ -e "$DIR/flag" ] || exit 1; answer '{"content":[]}' ;;
  esac
done"#;
        let mut target = StdioTarget::new("sh", ["-c", script]);
        target.env = vec![("DIR".into(), folder.into())];
        Target::Stdio(target)
    }

    fn count(folder: &Path, file: &str) -> usize {
        std::fs::read_to_string(folder.join(file)).unwrap_or_default().lines().count()
    }

    fn quick(trigger: RestartTrigger, retry_call: bool) -> Settings {
        let mut settings = settings();
        settings.restart.trigger = trigger;
        settings.restart.retry_call = retry_call;
        settings.restart.waits = vec![Duration::ZERO, Duration::from_millis(1)];
        settings.restart.max_attempts = 3;
        settings
    }

    #[tokio::test]
    async fn the_next_call_brings_a_server_back_until_it_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let servers = [("s".to_owned(), crasher(folder.path()))];
        let host = Host::start(Client::new(quick(RestartTrigger::NextCall, false)), servers).await;
        for starts in [1, 2, 3, 4] {
            assert_eq!(host.call("mcp__s__t", args("x")).await.unwrap_err().kind(), FailureKind::Closed);
            assert_eq!(count(folder.path(), "starts"), starts);
            assert_eq!(host.tools().len(), 1, "still offered");
        }
        let error = host.call("mcp__s__t", args("x")).await.unwrap_err();
        assert!(error.to_string().contains("given up"), "{error}");
        assert!(matches!(host.status("s"), Some(ServerStatus::GivenUp(_))));
        assert_eq!((count(folder.path(), "starts"), count(folder.path(), "calls")), (4, 4));
        std::fs::write(folder.path().join("flag"), "").unwrap();
        host.restart("s").await.unwrap();
        host.call("mcp__s__t", args("x")).await.unwrap();
        host.close().await;
    }

    #[tokio::test]
    async fn the_failing_call_can_bring_it_back_and_be_sent_again() {
        for retry in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let servers = [("s".to_owned(), crasher(folder.path()))];
            let host = Host::start(Client::new(quick(RestartTrigger::FailingCall, retry)), servers).await;
            assert!(host.call("mcp__s__t", args("x")).await.is_err());
            assert_eq!(count(folder.path(), "starts"), 2);
            assert_eq!(count(folder.path(), "calls"), if retry { 2 } else { 1 });
            host.close().await;
        }
    }

    #[tokio::test]
    async fn a_successful_call_resets_the_count() {
        let folder = tempfile::tempdir().unwrap();
        let servers = [("s".to_owned(), crasher(folder.path()))];
        let host = Host::start(Client::new(quick(RestartTrigger::NextCall, false)), servers).await;
        let flag = folder.path().join("flag");
        for _ in 0..5 {
            assert!(host.call("mcp__s__t", args("x")).await.is_err());
            std::fs::write(&flag, "").unwrap();
            host.call("mcp__s__t", args("x")).await.unwrap();
            std::fs::remove_file(&flag).unwrap();
        }
        host.close().await;
    }
}
