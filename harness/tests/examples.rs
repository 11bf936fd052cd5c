//! The client's examples, as docs/client.md shows them, with a mock server.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A program of `client/examples` or `client/host/examples`, which a test of the whole workspace has built already.
fn example(package: &str, name: &str) -> Command {
    let tests = std::env::current_exe().unwrap();
    // target/PROFILE/deps/TEST
    let place = tests.parent().and_then(Path::parent).unwrap().join("examples");
    let program = place.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    if !program.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "-p", package, "--example", name])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(built.unwrap().success(), "{name} compiles");
    }
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// A mock over stdio with this script.
struct Mock {
    folder: TempDir,
}

impl Mock {
    fn new(script: &str) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("script.yaml"), script).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What starts it.
    fn command(&self) -> Vec<String> {
        let script = self.path("script.yaml").display().to_string();
        let words = ["serve", "stdio", "--no-control", "--script", &script];
        std::iter::once(env!("CARGO_BIN_EXE_sparring")).chain(words).map(str::to_owned).collect()
    }
}

/// What a program says that ends well.
#[track_caller]
fn said(command: &mut Command) -> String {
    let out = command.output().unwrap();
    let (said, warned) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?}: {}\n{said}\n{warned}", out.status);
    said.into_owned()
}

#[test]
fn a_first_call() {
    let mock = Mock::new("tools: [echo, add]\n");
    let text = said(example("sparring-client", "first_call").args(mock.command()));
    let lines: Vec<_> = text.lines().collect();
    let [server, "echo", "add", result] = lines.as_slice() else { panic!("{text}") };
    assert!(server.contains(" at revision 2025-11-25"), "{text}");
    // The mock's `echo` wants another argument than the example gives it.
    assert!(result.starts_with("failed: ") || result.starts_with("said: "), "{text}");
}

#[test]
fn what_a_server_offers() {
    let mock = Mock::new("tools: [echo]\n");
    let mut command = example("sparring-client", "tools");
    command.args(mock.command()).env("CALL", "echo").env("ARGUMENTS", r#"{"text": "hi"}"#);
    let text = said(&mut command);
    assert!(text.contains("\n- echo\ndone: hi\n"), "{text}");
}

#[test]
fn questions_are_answered() {
    let mock = Mock::new("tools: [confirm]\n");
    let text = said(example("sparring-client", "answer_questions").arg("confirm").args(mock.command()));
    assert!(text.starts_with("server asks: "), "{text}");
    assert!(text.lines().count() > 1 && !text.contains("no result"), "{text}");
}

#[test]
fn changes_are_followed() {
    let script = "
tools: [echo]
rules:
  - on: tools/call
    do: [ { add_tool: add }, { announce: tools }, default ]
";
    let mock = Mock::new(script);
    let text = said(example("sparring-client", "follow_changes").arg("echo").args(mock.command()));
    assert!(text.ends_with("1 tools before, 2 now\n"), "{text}");
}

#[test]
fn many_servers_have_composed_names() {
    let mock = Mock::new("tools: [echo]\n");
    let words = mock.command();
    let (command, args) = words.split_first().unwrap();
    let server = json!({ "command": command, "args": args });
    let config =
        json!({ "mcpServers": { "one": server, "two": server, "gone": { "command": "/no/such/program" } } });
    std::fs::write(mock.path("mcp.json"), config.to_string()).unwrap();
    let mut program = example("sparring-host", "many_servers");
    program.arg("reference").arg(mock.path("mcp.json")).env("HOME", mock.path("home"));
    program.env_remove("XDG_STATE_HOME");
    let text = said(&mut program);
    let names: Vec<_> = text.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["mcp__one__echo", "mcp__two__echo"], "{text}");
}
