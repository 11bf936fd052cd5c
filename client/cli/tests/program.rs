//! The program as a person uses it, with a server that is this very executable.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic, its helpers as well")]

use assert_cmd::Command;
use serde_json::{Value, json};
use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;

#[cfg(unix)]
#[path = "program/sign_in.rs"]
mod sign_in;

const SERVER: &str = "serve";

/// A person's home and working directory.
struct Home {
    folder: tempfile::TempDir,
}

/// What a command did.
struct Done {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Done {
    #[track_caller]
    fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    fn says(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{text:?} in stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    fn warns(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} in stderr:\n{}\nstdout:\n{}", self.stderr, self.stdout);
        self
    }

    /// Nothing of it is anywhere.
    #[track_caller]
    fn hides(self, text: &str) -> Self {
        let all = format!("{}{}", self.stdout, self.stderr);
        assert!(!all.contains(text), "{text:?} in {all}");
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", self.stdout, self.stderr))
    }
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(home.path("work")).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("sparring-client"));
        command
            .args(words)
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("ZUT_HOME", self.path("zut"));
        command
    }

    fn run(&self, words: &[&str]) -> Done {
        self.run_with(words, "")
    }

    fn run_with(&self, words: &[&str], stdin: &str) -> Done {
        let mut command = Command::from_std(self.command(words));
        let output = command.write_stdin(stdin).output().unwrap();
        Done {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Adds the server of these tests.
    fn with_server(&self, name: &str, flags: &str) {
        let own = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let flags = format!("TEST_FLAGS={flags}");
        let folder = format!("TEST_FOLDER={}", self.folder.path().display());
        let words = [
            "add",
            name,
            "--env",
            "TEST_SERVER=1",
            "--env",
            &flags,
            "--env",
            &folder,
            "--env",
            "TEST_KEY=blue-whale-7",
        ];
        let server = ["--", &own, "--exact", SERVER, "--nocapture", "--quiet"];
        self.run(&[&words[..], &server[..]].concat()).ends_with(0);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

/// Not a test, but a server, if the environment says so.
#[test]
fn serve() {
    if std::env::var("TEST_SERVER").is_err() {
        return;
    }
    let flags = std::env::var("TEST_FLAGS").unwrap();
    let log = PathBuf::from(std::env::var("TEST_FOLDER").unwrap()).join("log");
    let log = |line: &str| {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    };
    if flags == "fail" {
        eprintln!("the key {} is wrong\u{1b}[31m", std::env::var("TEST_KEY").unwrap());
        std::process::exit(3);
    }
    let send = |message: Value| {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{message}").unwrap();
        stdout.flush().unwrap();
    };
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        log(method);
        let Some(id) = message.get("id").filter(|_| !method.is_empty()) else { continue };
        let params = &message["params"];
        if params["name"] == "slow" {
            let token = &params["_meta"]["progressToken"];
            send(json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1, "total": 2, "message": "half"}}));
            continue;
        }
        let answer = match result(method, params) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(message) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": message}})
            }
        };
        send(answer);
    }
    log("end of stdin");
    // The harness has something to say at the end of a test, which is no message.
    std::process::exit(0);
}

fn result(method: &str, params: &Value) -> Result<Value, String> {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    Ok(match method {
        "initialize" => json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "tester", "version": "9"},
            "instructions": "Be kind.",
        }),
        "ping" => json!({}),
        "tools/list" => json!({"tools": [
            {"name": "echo", "description": "Says it again.\nTwice if asked.", "inputSchema": {"type": "object",
                "properties": {"text": {"type": "string"}, "times": {"type": "integer"}}}},
            {"name": "fail", "inputSchema": {"type": "object"}},
            {"name": "picture", "inputSchema": {"type": "object"}},
            {"name": "slow", "inputSchema": {"type": "object"}},
        ]}),
        "tools/call" => match params["name"].as_str() {
            Some("echo") => json!({"content": text(&params["arguments"].to_string())}),
            Some("fail") => json!({"content": text("no luck"), "isError": true}),
            Some("picture") => {
                json!({"content": [{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]})
            }
            _ => return Err("there is no such tool".to_owned()),
        },
        "resources/list" => {
            json!({"resources": [{"uri": "test:text", "name": "text"}, {"uri": "test:blob", "name": "blob"}]})
        }
        "resources/templates/list" => {
            json!({"resourceTemplates": [{"uriTemplate": "test:by/{n}", "name": "by"}]})
        }
        "resources/read" => match params["uri"].as_str() {
            Some("test:text") => {
                json!({"contents": [{"uri": "test:text", "text": "one"}, {"uri": "test:text", "text": " two"}]})
            }
            Some("test:blob") => json!({"contents": [{"uri": "test:blob", "blob": "aGVsbG8="}]}),
            _ => return Err("no such resource".to_owned()),
        },
        "prompts/list" => json!({"prompts": [{"name": "review", "description": "Reviews.",
            "arguments": [{"name": "code", "required": true}, {"name": "style"}]}]}),
        "prompts/get" => json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": format!("Review {}.", params["arguments"]["code"])}},
            {"role": "assistant", "content": {"type": "text", "text": "Sure."}}]}),
        other => return Err(format!("{other} is unknown")),
    })
}

#[test]
fn servers_are_added_shown_and_removed() {
    let home = Home::new();
    home.run(&["list"]).ends_with(0).warns("no server is configured");
    home.run(&["add", "a", "--", "srv", "--url", "", "a b", "--json"]).ends_with(0).says("added a in ");
    let web = [
        "add",
        "web",
        "--url",
        "https://user:pw@example.com/mcp?key=top",
        "--header",
        "X-Team: blue-team",
        "--bearer-token-env-var",
        "WEB",
    ];
    home.run(&web).ends_with(0);
    home.run(&["add", "p", "--project", "--env", "K=blue-key", "--cwd", "x", "--", "srv"]).ends_with(0);
    home.run(&["add", "a", "--", "srv", "--url", "", "a b", "--json"]).ends_with(0).says("replaced a in ");
    let user: Value =
        serde_json::from_slice(&std::fs::read(home.path(".config/sparring-client/mcp.json")).unwrap())
            .unwrap();
    assert_eq!(user["mcpServers"]["a"], json!({"command": "srv", "args": ["--url", "", "a b", "--json"]}));
    assert_eq!(user["mcpServers"]["web"]["headers"], json!({"X-Team": "blue-team"}));
    assert!(home.path("work/.mcp.json").exists());
    let list = home.run(&["list"]).ends_with(0).says("srv --url '' 'a b' --json").says("project");
    list.says("https://").hides("pw").hides("top").hides("blue-key");
    let listed = home.run(&["list", "--json"]).ends_with(0).hides("blue").json();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["p", "a", "web"]);
    home.run(&["get", "web"]).ends_with(0).says("X-Team=***").says("WEB").hides("blue-team").hides("pw");
    assert_eq!(home.run(&["get", "p", "--json"]).hides("blue-key").json()["env"], json!({"K": "***"}));
    home.run(&["get", "wbe"]).ends_with(4).warns("did you mean \"web\"?");
    home.run(&["remove", "p"]).ends_with(4).warns("`--project` removes it");
    home.run(&["remove", "p", "--project"]).ends_with(0).says("removed p from ");
    home.run(&["remove", "a"]).ends_with(0);
    home.run(&["get", "a"]).ends_with(4);
}

#[cfg(unix)]
#[test]
fn configuration_files_are_the_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let file = home.path("zut/mcp.json");
    std::fs::create_dir_all(home.path("zut")).unwrap();
    std::fs::write(&file, "{\"mcpServers\": {}}").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let add = ["--profile", "zut", "add", "a", "--", "srv"];
    // With no mask at all.
    let program = assert_cmd::cargo::cargo_bin!("sparring-client");
    let mut shell = std::process::Command::new("sh");
    shell.arg("-c").arg("umask 000; exec \"$0\" \"$@\"").arg(program).args(add);
    let status = shell
        .current_dir(home.path("work"))
        .env("HOME", home.folder.path())
        .env("ZUT_HOME", home.path("zut"))
        .status();
    assert!(status.unwrap().success());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn tools_are_called() {
    let home = Home::new();
    home.with_server("s", "");
    home.run(&["call", "s", "echo", "text=5", "times=2", "more=[1]"])
        .ends_with(0)
        .says(r#"{"text":"5","times":2,"more":[1]}"#);
    home.run(&["call", "s", "echo", r#"{"text": "é"}"#]).ends_with(0).says(r#"{"text":"é"}"#);
    home.run_with(&["call", "s", "echo", "-"], r#"{"text": "piped"}"#).ends_with(0).says("piped");
    let json = home.run(&["call", "s", "echo", "--json"]).ends_with(0).json();
    assert_eq!(json["content"][0]["text"], "{}");
    home.run(&["call", "s", "fail"]).ends_with(1).says("no luck");
    home.run(&["call", "s", "ecko"]).ends_with(4).warns("did you mean \"echo\"?");
    home.run(&["call", "t", "echo"]).ends_with(4).warns("there is no server \"t\"");
    home.run(&["call", "s", "echo", "times=many"]).ends_with(2).warns("times should be of type integer");
    let saved = home.path("saved");
    home.run(&["call", "s", "picture", "--save", saved.to_str().unwrap()])
        .ends_with(0)
        .says("[image image/png, 5 bytes]");
    assert_eq!(std::fs::read(saved.join("1.png")).unwrap(), b"hello");
    home.run(&["call", "s", "slow", "--timeout", "2"]).ends_with(6).warns("no answer to tools/call");
    let error = home.run(&["call", "s", "ecko", "--json"]).ends_with(4);
    let error: Value = serde_json::from_str(&error.stderr).unwrap();
    assert_eq!(
        (error["error"]["code"].as_str(), error["error"]["exit"].as_i64()),
        (Some("not-found"), Some(4))
    );
}

#[cfg(unix)]
#[test]
fn a_signal_cancels_the_call_and_ends_the_server() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let home = Home::new();
        home.with_server("s", "");
        let mut command = home.command(&["-v", "call", "s", "slow"]);
        let mut child =
            command.stderr(std::process::Stdio::piped()).stdin(std::process::Stdio::null()).spawn().unwrap();
        let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("s: 1 of 2: half")));
        let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        // By the time the program ends, the server has.
        assert!(home.log().ends_with("notifications/cancelled\nend of stdin\n"), "{signal}: {}", home.log());
    }
}

#[test]
fn what_happens_can_be_traced() {
    let home = Home::new();
    home.with_server("s", "");
    for _ in 0..2 {
        home.run(&["call", "s", "echo", "text=hi", "--trace", "trace.ndjson"]).ends_with(0).says("hi");
    }
    let trace = std::fs::read_to_string(home.path("work/trace.ndjson")).unwrap();
    let events: Vec<Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let connects = events.iter().filter(|event| event["kind"] == "connect" && event["server"] == "s").count();
    assert_eq!(connects, 2, "{trace}");
    assert!(!trace.contains("blue-whale-7"), "{trace}");
    let nowhere = home.run(&["call", "s", "echo", "--trace", "no/such/folder"]).ends_with(2);
    nowhere.warns("--trace no/such/folder: ");
}

#[test]
fn resources_and_prompts_are_had() {
    let home = Home::new();
    home.with_server("s", "");
    home.with_server("t", "");
    home.run(&["resources", "s"]).ends_with(0).says("test:text").says("test:by/{n}");
    home.run(&["read", "test:text"]).ends_with(4).warns("could be a resource of s, t").warns("--server");
    let read = home.run(&["read", "test:text", "--server", "s"]).ends_with(0);
    assert_eq!(read.stdout, "one two");
    assert_eq!(home.run(&["read", "test:blob", "--server", "s"]).ends_with(0).stdout, "hello");
    home.run(&["read", "test:none", "--server", "s"]).ends_with(1).warns("no such resource");
    home.run(&["remove", "t"]).ends_with(0);
    home.run(&["prompts"]).ends_with(0).says("code* style");
    let prompt = home.run(&["prompt", "review", "code=x=1"]).ends_with(0);
    assert_eq!(prompt.stdout, "[user] Review \"x=1\".\n[assistant] Sure.\n");
    home.run(&["prompt", "review"]).ends_with(1).warns("needs the argument \"code\"");
    home.run(&["prompt", "reviews"]).ends_with(4).warns("did you mean \"review\"?");
    home.run(&["prompt", "review", "code"]).ends_with(2);
}

#[test]
fn status_shows_what_works_and_what_does_not() {
    let home = Home::new();
    home.with_server("good", "");
    home.run(&["status"])
        .ends_with(0)
        .says("good: up (stdio, ")
        .says("tester 9")
        .says("4 tools")
        .says("  echo ");
    let status = home.run(&["status", "good", "--json"]).ends_with(0).json();
    assert_eq!(status[0]["server"]["version"], "9");
    assert_eq!(status[0]["instructions"], "Be kind.");
    assert_eq!(status[0]["tools"].as_array().unwrap().len(), 4);
    home.with_server("bad", "fail");
    let status = home.run(&["status"]).ends_with(3).says("good: up").says("bad: failed");
    // What it says of itself, and neither its secret nor what a terminal would obey.
    status.says("the key *** is wrong").hides("blue-whale").hides("\u{1b}");
    home.run(&["call", "bad", "echo"]).ends_with(3).hides("blue-whale");
    let tools = home.run(&["tools"]).ends_with(3).says("mcp__good__echo").warns("bad: ");
    tools.hides("blue-whale");
}

#[test]
fn tools_have_the_names_of_the_profile() {
    let home = Home::new();
    home.with_server("s", "");
    let config = home.path(".config/sparring-client/mcp.json");
    let config = config.to_str().unwrap();
    let names = |profile: &str| -> Vec<String> {
        let words = ["--profile", profile, "--config", config, "tools", "--json"];
        let tools = home.run(&words).ends_with(0).json();
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("reference")[0], "mcp__s__echo");
    let zut = names("zut");
    assert!(
        zut.contains(&"mcp__s__echo".to_owned()) && zut.contains(&"mcp_read_resource".to_owned()),
        "{zut:?}"
    );
    assert_eq!(names("zidane")[0], "mcp_s_echo");
    // A profile of one's own.
    std::fs::write(
        home.path("mine.toml"),
        "[host]\nname = \"mine\"\n[naming]\ntemplate = \"{server}.{tool}\"\ncharset = \"[\\\\w.]\"\n",
    )
    .unwrap();
    assert_eq!(names(home.path("mine.toml").to_str().unwrap())[0], "s.echo");
}

#[test]
fn servers_are_added_in_the_words_of_the_host() {
    let home = Home::new();
    let added = |file: &str| -> Value {
        let json: Value = serde_json::from_slice(&std::fs::read(home.path(file)).unwrap()).unwrap();
        json["mcpServers"].clone()
    };
    home.run(&["--profile", "zut", "add", "a", "--env", "KEY=v=w", "--", "srv", "x y"]).ends_with(0);
    let web = ["add", "w", "--url", "https://h.example/mcp", "--bearer-token-env-var", "TOKEN"];
    home.run(&[&["--profile", "zut"][..], &web[..]].concat()).ends_with(0);
    home.run(&["--profile", "zut", "add", "p", "--project", "--", "srv"]).ends_with(0);
    let user = added("zut/mcp.json");
    assert_eq!(user["a"], json!({"command": "srv", "args": ["x y"], "env": {"KEY": "v=w"}}));
    assert_eq!(user["w"]["url"], "https://h.example/mcp");
    assert_eq!(user["w"]["bearerTokenEnvVar"], "TOKEN");
    assert_eq!(user.get("p"), None);
    assert_eq!(added("work/.zut/mcp.json")["p"]["command"], "srv");
    // A host that has no word for it says so, and writes nothing.
    let chaz =
        ["--profile", "chaz", "add", "w", "--url", "https://h.example/mcp", "--bearer-token-env-var", "T"];
    home.run(&chaz).ends_with(2);
    assert!(!home.path("work/.mcp.json").exists());
}

#[test]
fn what_is_gone_takes_only_its_own_tools_along() {
    let home = Home::new();
    home.with_server("a", "");
    home.with_server("b", "");
    home.run(&["tools"]).ends_with(0).says("mcp__a__echo").says("mcp__b__echo");
    home.run(&["remove", "a"]).ends_with(0);
    home.run(&["tools"]).ends_with(0).says("mcp__b__echo").hides("mcp__a__echo");
    home.run(&["call", "b", "echo"]).ends_with(0);
    home.run(&["call", "a", "echo"]).ends_with(4);
}

#[test]
fn mistakes_are_told_with_their_place() {
    let home = Home::new();
    std::fs::write(home.path("work/.mcp.json"), "{\n  \"mcpServers\": {,\n").unwrap();
    home.run(&["list"]).ends_with(2).warns(".mcp.json:2:18: ");
    std::fs::write(
        home.path("work/.mcp.json"),
        r#"{"mcpServers": {"a": {"command": "x", "args": "s3cret"}, "b": {"url": "http://h"}}}"#,
    )
    .unwrap();
    home.run(&["list"])
        .ends_with(0)
        .says("wrong")
        .says("`mcpServers.a.args`: should be a list of strings")
        .hides("s3cret");
    home.run(&["get", "a"]).ends_with(2).warns("`mcpServers.a.args`");
    home.run(&["--profile", "nobody", "list"]).ends_with(2).warns("built-in profiles are");
    home.run(&["--config", "none.json", "list"]).ends_with(2).warns("there is no such file");
    home.run(&["add", "x", "--url", "ftp://h"]).ends_with(2).warns("http:// or https://");
    home.run(&["nonsense"]).ends_with(2);
    std::fs::write(
        home.path("work/.mcp.json"),
        r#"{"mcpServers": {"a": {"command": "x", "env": {"A": "s3cret", "K": "${NOT_SET}"}}}}"#,
    )
    .unwrap();
    home.run(&["status", "a"]).ends_with(2).says("`env.K` needs the variable NOT_SET").hides("s3cret");
}

#[test]
fn the_help_is_complete() {
    let home = Home::new();
    let help = home.run(&["--help"]).ends_with(0).says("Exit codes:").says("Examples:");
    for command in [
        "add",
        "list",
        "get",
        "remove",
        "status",
        "tools",
        "resources",
        "prompts",
        "call",
        "read",
        "prompt",
        "login",
        "logout",
        "adapter",
        "official",
    ] {
        assert!(help.stdout.contains(&format!("\n  {command} ")), "{command}: {}", help.stdout);
        let own = home.run(&[command, "--help"]).ends_with(0);
        assert!(own.stdout.contains("Usage: sparring-client"), "{}", own.stdout);
    }
    home.run(&["--version"]).ends_with(0).says("sparring-client 0.");
}
