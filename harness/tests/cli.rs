//! The program as its users meet it: what it prints, and how it ends.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use assert_cmd::Command;
use sparring_reports::model::exit_code;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn sparring() -> Command {
    let mut command = Command::cargo_bin("sparring").unwrap();
    command.env("NO_COLOR", "1");
    command
}

/// Runs with these words and returns exit code, stdout and stderr.
fn run(words: &[&str]) -> (i32, String, String) {
    let out = sparring().args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

fn code(code: u8) -> i32 {
    code.into()
}

/// A folder for reports that goes away by itself.
fn out() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out").display().to_string();
    (folder, path)
}

const QUICK: &str = "lifecycle.plain";

fn quick_case() -> String {
    let (code, stdout, stderr) = run(&["list", "--transport", "stdio", "--revision", "2025-11-25"]);
    assert_eq!(code, 0, "{stderr}");
    let mut cases = stdout.lines().filter(|line| line.contains("[2025-11-25,stdio]"));
    cases.clone().find(|line| line.starts_with(QUICK)).or_else(|| cases.next()).unwrap().to_owned()
}

#[test]
fn help_names_the_exit_codes() {
    let (status, help, _) = run(&["--help"]);
    assert_eq!(status, 0);
    for (code, _) in exit_code::TABLE {
        assert!(
            help.lines().any(|line| line.trim_start().starts_with(&format!("{code} "))),
            "{code}\n{help}"
        );
    }
}

#[test]
fn a_passing_run_ends_with_0_and_leaves_report_and_transcript() {
    let (_folder, out) = out();
    let case = quick_case();
    let junit = format!("{out}.xml");
    let (status, stdout, stderr) =
        run(&["run", "--case", &case, "--out", &out, "--report", &format!("junit={junit}")]);
    assert_eq!((status, stderr.as_str()), (code(exit_code::PASSED), ""), "{stdout}");
    assert!(stdout.trim_end().ends_with("PASS   every judge that ran passed.   exit 0"), "{stdout}");
    let report = sparring_reports::json::read(&Path::new(&out).join("report.json")).unwrap();
    assert_eq!(report.cases.len(), 1);
    let transcript = Path::new(&out).join(report.cases[0].transcript.as_ref().unwrap());
    assert!(std::fs::read_to_string(junit).unwrap().contains("<testsuite"));
    let (status, judged, _) = run(&["judge", &transcript.display().to_string()]);
    assert_eq!(status, code(exit_code::PASSED), "{judged}");
    assert!(judged.contains("monitors had something to judge"), "{judged}");
}

#[test]
fn each_round_has_a_transcript_where_the_report_says() {
    let (_folder, out) = out();
    let (status, stdout, _) = run(&["run", "--case", &quick_case(), "--repeat", "2", "--out", &out]);
    assert_eq!(status, code(exit_code::PASSED), "{stdout}");
    let report = sparring_reports::json::read(&Path::new(&out).join("report.json")).unwrap();
    let names: std::collections::BTreeSet<_> =
        report.cases.iter().map(|c| c.transcript.clone().unwrap()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        assert!(Path::new(&out).join(&name).is_file(), "{name}");
    }
}

#[test]
fn a_selection_of_nothing_ends_with_5_and_a_hint() {
    let (_folder, out) = out();
    let (status, _, stderr) = run(&["run", "--case", "tools.paginaton*", "--out", &out]);
    assert_eq!(status, code(exit_code::NOTHING_RAN), "{stderr}");
    assert!(stderr.contains("no case matches `tools.paginaton*`"), "{stderr}");
}

#[test]
fn wrong_words_end_with_2() {
    for words in [
        &["run", "--frobnicate"][..],
        &["run", "--revision", "2025-13-01"],
        &["run", "--transport", "carrier-pigeon"],
        &["run", "--shard", "3/2"],
        &["run", "--report", "pdf=x"],
        &["run", "--jobs", "0"],
        &["run", "--repeat", "0"],
        &["run", "--", "node", "client.js"],
        &["run", "--driver", "adapter"],
        &["run", "--driver", "official"],
        &["run", "--profile", "no-such-profile"],
        &["explain", "no-such-thing"],
        &["judge", "no-such-file"],
        &["bench", "--with", "teleport"],
        &["lint", "no-such-file.yaml"],
    ] {
        let (status, stdout, stderr) = run(words);
        assert_eq!(status, code(exit_code::USAGE), "{words:?}\n{stdout}{stderr}");
        assert!(stderr.starts_with("error"), "{words:?}\n{stderr}");
    }
}

#[test]
fn a_client_that_does_not_exist_or_talks_nonsense_ends_with_7() {
    let (_folder, out) = out();
    let (status, _, stderr) = run(&["run", "--out", &out, "--driver", "adapter", "--", "./no-such-program"]);
    assert_eq!(status, code(exit_code::CLIENT), "{stderr}");
    assert!(stderr.contains("no-such-program"), "{stderr}");

    let (status, _, stderr) = run(&[
        "run",
        "--out",
        &out,
        "--driver",
        "adapter",
        "--",
        "/bin/sh",
        "-c",
        "echo Welcome!; echo loading >&2; exec cat >/dev/null",
    ]);
    assert_eq!(status, code(exit_code::CLIENT), "{stderr}");
    for word in ["driver", "hello", "Welcome!", "loading"] {
        assert!(stderr.contains(word), "{word}\n{stderr}");
    }

    let (status, _, stderr) = run(&[
        "run",
        "--out",
        &out,
        "--driver",
        "adapter",
        "--",
        "/bin/sh",
        "-c",
        "echo no module >&2; exit 3",
    ]);
    assert_eq!(status, code(exit_code::CLIENT), "{stderr}");
    assert!(stderr.contains("exit code 3") && stderr.contains("no module"), "{stderr}");
}

#[test]
fn a_report_that_cannot_be_written_ends_with_8() {
    let (folder, out) = out();
    let case = quick_case();
    let nowhere = folder.path().join("missing").join("out.xml").display().to_string();
    let (status, stdout, stderr) =
        run(&["run", "--case", &case, "--out", &out, "--report", &format!("junit={nowhere}")]);
    assert_eq!(status, code(exit_code::REPORT), "{stderr}");
    assert!(stderr.contains(&nowhere), "{stderr}");
    assert_eq!(stdout, "", "known before the run");

    let file = folder.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let inside = file.join("out").display().to_string();
    let (status, _, stderr) = run(&["run", "--case", &case, "--out", &inside]);
    assert_eq!(status, code(exit_code::REPORT), "{stderr}");
    assert!(stderr.contains(&inside), "{stderr}");

    #[cfg(target_os = "linux")]
    {
        let (status, stdout, stderr) =
            run(&["run", "--case", &case, "--out", &out, "--report", "json=/dev/full"]);
        assert_eq!(status, code(exit_code::REPORT), "{stderr}");
        assert!(stderr.contains("/dev/full"), "{stderr}");
        assert!(stdout.contains("PASS"), "the verdict is still told\n{stdout}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.yaml").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let scenarios = folder.path().display().to_string();
    for words in [&["lint", &pipe][..], &["judge", &pipe], &["list", "--scenarios", &scenarios]] {
        let (status, _, stderr) = run(words);
        assert_eq!(status, code(exit_code::USAGE), "{words:?}\n{stderr}");
        assert!(stderr.contains("no regular file"), "{words:?}\n{stderr}");
    }
}

#[test]
fn judge_refuses_a_transcript_with_gaps_and_one_without_events() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.jsonl");
    let path = file.display().to_string();
    std::fs::write(&file, "\n").unwrap();
    let (status, _, stderr) = run(&["judge", &path]);
    assert_eq!(status, code(exit_code::NOTHING_RAN), "{stderr}");
    assert!(stderr.contains("no events"), "{stderr}");

    let event = |n| {
        let what = sparring_wire::transcript::What::HarnessError { message: String::new() };
        let event = sparring_wire::transcript::Event { n, at_us: 0, server: None, incarnation: None, what };
        serde_json::to_string(&event).unwrap()
    };
    std::fs::write(&file, format!("{}\n\n{}\n", event(1), event(3))).unwrap();
    let (status, _, stderr) = run(&["judge", &path]);
    assert_eq!(status, code(exit_code::USAGE), "{stderr}");
    assert!(stderr.contains("t.jsonl:3: `n` is 3 where 2 is due"), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_below_stdout_ends_with_8_and_a_closed_pipe_is_nothing() {
    use std::process::Stdio;
    let (_folder, out) = out();
    let case = quick_case();
    for words in [
        &["list"][..],
        &["schema", "report"],
        &["explain", "tools-call-params"],
        &["run", "--case", &case, "--out", &out],
    ] {
        let program = || {
            let mut program = std::process::Command::new(assert_cmd::cargo::cargo_bin("sparring"));
            program.args(words).stderr(Stdio::piped());
            program
        };
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = program().stdout(full).output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(code(exit_code::REPORT)), "{words:?}\n{stderr}");
        assert!(stderr.contains("can't write to stdout"), "{words:?}\n{stderr}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = program().stdout(writer).output().unwrap();
        assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]), "{words:?}");
    }
    assert!(Path::new(&out).join("report.json").exists(), "the report is written all the same");
}

/// A scenario of one's own that is right; the tests break it in one place.
const OWN: &str = r#"scenario: mine.echo
version: 1
about: A call of echo.

server:
  tools: [echo]
  rules:
    - on: tools/call
      nth: 1
      do: [ { delay_ms: 1 } ]

drive:
  - open:
  - call: { tool: echo, arguments: { text: hello } }
  - close:

judge:
  - check: arguments-arrive
    requirement: tools-call-params
    expect: { request: tools/call, params: '{"name": "echo", "arguments": {"text": "hello"}}' }
    killed_by: sends-no-arguments
"#;

fn own(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine");
    std::fs::create_dir(&file).unwrap();
    let file = file.join("echo.yaml");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

#[test]
fn scenarios_of_ones_own_run() {
    let (folder, _) = own(OWN);
    let (_out, out) = out();
    let path = folder.path().display().to_string();
    let (status, stdout, stderr) = run(&["run", "--scenarios", &path, "--scenario", "mine.*", "--out", &out]);
    assert_eq!(status, code(exit_code::PASSED), "{stdout}{stderr}");
    assert!(stdout.contains("10 cases"), "{stdout}");
}

#[test]
fn a_scenario_that_is_wrong_ends_with_2_and_names_file_line_and_field() {
    for (right, wrong, line, says) in [
        ("      nth: 1", "      nht: 1", 9, "nht"),
        ("      nth: 1", "      nth: first", 9, "nth"),
        ("{ delay_ms: 1 }", "{ dealy_ms: 1 }", 10, "dealy_ms"),
        ("tools-call-params", "tools-call-parameters", 19, "tools-call-parameters"),
        ("version: 1", "version: 1\nversion: 2", 3, "version"),
        ("tools: [echo]", "tools: [ecko]", 6, "ecko"),
        ("on: tools/call", "on: tools/cal", 8, "tools/cal"),
        ("request: tools/call", "reqest: tools/call", 20, "reqest"),
        ("{\"name\": \"echo\",", "{\"name\": echo,", 20, "JSON"),
    ] {
        assert!(OWN.contains(right), "{right}");
        let (folder, file) = own(&OWN.replacen(right, wrong, 1));
        for words in [
            &["lint", &folder.path().display().to_string()][..],
            &["run", "--scenarios", &folder.path().display().to_string()],
        ] {
            let (status, stdout, stderr) = run(words);
            assert_eq!(status, code(exit_code::USAGE), "{wrong}\n{stdout}{stderr}");
            let place = format!("{}:{line}:", file.display());
            assert!(stderr.contains(&place) && stderr.contains(says), "{wrong}: {place}\n{stderr}");
        }
    }
}

#[test]
fn explain_knows_every_kind_of_id() {
    for id in ["tools-call-params", "naming.max_len", "driver.completes"] {
        let (status, text, stderr) = run(&["explain", id]);
        assert_eq!(status, 0, "{id}: {stderr}");
        assert!(text.starts_with(id), "{text}");
    }
    if let Some(monitor) = sparring::judge::monitors().first() {
        let (status, text, _) = run(&["explain", monitor.id]);
        assert_eq!(status, 0, "{}", monitor.id);
        assert!(text.contains(monitor.expected), "{text}");
        for id in monitor.requirements {
            assert_eq!(run(&["explain", id]).0, 0, "{id}");
        }
    }
    let (status, _, stderr) = run(&["explain", "tools-call-param"]);
    assert_eq!(status, code(exit_code::USAGE));
    assert!(stderr.contains("did you mean `tools-call-params`?"), "{stderr}");
}

#[test]
fn the_schema_is_json() {
    let (status, text, _) = run(&["schema", "report"]);
    assert_eq!(status, 0);
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(schema["properties"]["cases"].is_object(), "{schema}");
    for kind in ["scenario", "script", "profile", "requirement", "transcript"] {
        let (status, text, _) = run(&["schema", kind]);
        assert_eq!(status, 0, "{kind}");
        let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(schema["$id"].as_str().unwrap().contains(kind), "{kind}");
    }
}

#[test]
fn lint_reads_scripts_warns_and_speaks_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.yaml");
    let path = file.display().to_string();
    std::fs::write(
        &file,
        "rules:\n  - { on: ping, do: [ drop ] }\n  - { on: ping, nth: 2, do: [ default ] }\n",
    )
    .unwrap();
    let (status, stdout, stderr) = run(&["lint", &path]);
    assert_eq!(status, 0, "a warning is no error: {stderr}");
    assert!(stdout.contains("1 warning") && stderr.contains("warning[shadowed-rule]"), "{stdout}{stderr}");

    std::fs::write(&file, "rules:\n  - on: ping\n    do: [ { respond: '{\"a\": nope}' } ]\n").unwrap();
    let (status, stdout, _) = run(&["lint", "--format", "json", &path]);
    assert_eq!(status, code(exit_code::USAGE));
    let said: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(said["format_version"], 1);
    let wrong = &said["diagnostics"][0];
    assert_eq!((&wrong["code"], &wrong["severity"]), (&"json".into(), &"error".into()), "{said}");
    assert_eq!((&wrong["line"], &wrong["column"]), (&3.into(), &30.into()), "{said}");
}

#[test]
fn the_examples_of_the_manual_are_clean_and_pass() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/scenarios");
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/scripts");
    let (status, stdout, stderr) = run(&["lint", folder, scripts]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("nothing to complain of"), "{stdout}{stderr}");
    let out = tempfile::tempdir().unwrap();
    let out = out.path().display().to_string();
    let (status, stdout, stderr) =
        run(&["run", "--scenarios", folder, "--scenario", "my.*", "--allow-unsupported", "--out", &out]);
    assert_eq!(status, 0, "{stdout}{stderr}");
}

#[cfg(unix)]
#[test]
fn a_temporary_folder_that_cannot_be_used_is_named() {
    let (folder, out) = out();
    let nowhere = folder.path().join("nowhere");
    let words = ["run", "--case", &quick_case(), "--out", &out];
    let ended = sparring().args(words).env("TMPDIR", &nowhere).output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(code(exit_code::HARNESS_ERROR)), "{stderr}");
    assert!(stderr.contains("TMPDIR") && stderr.contains(nowhere.to_str().unwrap()), "{stderr}");
}

/// An adapter in the shell: says hello, is honest, writes a file when it is asked to open, and never answers that.
#[cfg(unix)]
const HANGS: &str = r#"
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"hello"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"name":"hangs","version":"1","operations":["open","tools","call","close"],"transports":["stdio"],"revisions":["2025-11-25"]}}\n' "$id" ;;
    *'"method":"open"'*) touch "$1" ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

#[cfg(unix)]
#[test]
fn an_interrupted_run_ends_with_130_and_leaves_nothing() {
    for signal in [nix::sys::signal::Signal::SIGINT, nix::sys::signal::Signal::SIGHUP] {
        interrupt_with(signal);
    }
}

#[cfg(unix)]
fn interrupt_with(signal: nix::sys::signal::Signal) {
    use nix::sys::signal::kill;
    use nix::unistd::Pid;
    let (folder, out) = out();
    let marker = folder.path().join("opened").display().to_string();
    let program = assert_cmd::cargo::cargo_bin("sparring");
    let mut child = std::process::Command::new(program)
        .args(["run", "--out", &out, "--allow-unsupported", "--driver", "adapter", "--"])
        .args(["/bin/sh", "-c", HANGS, "sh", &marker])
        .env("TMPDIR", folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while !Path::new(&marker).exists() {
        assert!(child.try_wait().unwrap().is_none(), "ended before the first case was open");
        std::thread::yield_now();
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    let ended = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(code(exit_code::INTERRUPTED)), "{stdout}");
    assert!(stdout.contains("INTERRUPTED"), "{stdout}");
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .flat_map(|entry| std::fs::read_dir(entry.unwrap().path()).into_iter().flatten())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("case-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
