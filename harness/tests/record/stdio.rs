//! The command in a client's configuration.

use super::{Numbers, read, sparring, transcript};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use sparring_wire::transcript::{Direction, What};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn recorded(out: &Path, server: &[&str]) -> Command {
    let mut command = sparring();
    command.args(["record", "--out"]).arg(out).arg("--").args(server);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// Sends bytes in pieces, and returns what comes back.
fn echo(child: &mut Child, pieces: &[&[u8]]) -> Vec<u8> {
    let mut to = child.stdin.take().unwrap();
    let mut from = child.stdout.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for piece in pieces {
                to.write_all(piece).unwrap();
            }
        });
        let mut back = Vec::new();
        from.read_to_end(&mut back).unwrap();
        back
    })
}

#[test]
fn every_byte_passes_both_ways_whatever_the_pieces() {
    for seed in 0..6 {
        let (_folder, path) = transcript();
        let mut numbers = Numbers(seed);
        let bytes = numbers.bytes(1 + 40_000 * usize::try_from(seed).unwrap());
        let most = [1 << 20, 7, 4096, 65_536, 100_000, 1000][usize::try_from(seed).unwrap()];
        let pieces = numbers.pieces(&bytes, most);
        let mut child = recorded(&path, &["cat"]).spawn().unwrap();
        assert!(echo(&mut child, &pieces) == bytes, "seed {seed}");
        assert!(child.wait().unwrap().success());
        let stored = read(&path);
        assert_eq!(stored.incomplete, None);
        for direction in [Direction::Received, Direction::Sent] {
            // What can be told of lines in text is told.
            let mut text = String::new();
            for event in &stored.events {
                if let What::Line(line) = &event.what
                    && line.direction == direction
                {
                    text.push_str(&line.text);
                    text.push_str(match (line.unterminated, line.carriage_return) {
                        (true, _) => "",
                        (false, true) => "\r\n",
                        (false, false) => "\n",
                    });
                }
            }
            assert!(text == String::from_utf8_lossy(&bytes), "seed {seed}");
        }
    }
}

#[test]
fn a_line_of_8_mib_passes_and_is_kept() {
    let (_folder, path) = transcript();
    let mut line = vec![b'x'; 8 << 20];
    line.push(b'\n');
    let mut child = recorded(&path, &["cat"]).spawn().unwrap();
    assert!(echo(&mut child, &[&line]) == line);
    child.wait().unwrap();
    let kept = read(&path)
        .events
        .into_iter()
        .filter(|event| matches!(&event.what, What::Line(line) if line.text.len() == 8 << 20));
    assert_eq!(kept.count(), 2);
}

#[test]
fn stderr_arguments_environment_and_exit_code_are_the_servers() {
    let (folder, path) = transcript();
    let script = "echo \"$0 $1 $NAME $(pwd)\"; echo trouble >&2; exit 7";
    let out = recorded(&path, &["sh", "-c", script, "zero", "a b"])
        .env("NAME", "value")
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let here = folder.path().canonicalize().unwrap();
    assert_eq!(String::from_utf8(out.stdout).unwrap(), format!("zero a b value {}\n", here.display()));
    assert_eq!((String::from_utf8(out.stderr).unwrap().as_str(), out.status.code()), ("trouble\n", Some(7)));
    let stored = read(&path);
    let started = stored.events.iter().find_map(|event| match &event.what {
        What::ProcessStarted(process) => Some(process.clone()),
        _ => None,
    });
    let started = started.unwrap();
    assert_eq!(started.argv[..2], ["sh", "-c"]);
    assert_eq!(started.env["NAME"], "[redacted]", "nobody knows what is in it");
    assert_eq!(started.parent, std::process::id());
}

#[test]
fn a_death_by_a_signal_is_one_for_the_client_too() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGSEGV, Signal::SIGABRT, Signal::SIGPIPE] {
        let (_folder, path) = transcript();
        let kill = format!("kill -{} $$", signal.as_str().trim_start_matches("SIG"));
        let status = recorded(&path, &["sh", "-c", &kill]).stdin(Stdio::null()).status().unwrap();
        assert_eq!(status.signal(), Some(signal as i32), "{signal}");
        assert!(!status.core_dumped());
        let exiting = What::ProcessExiting { code: None, signal: Some(signal.as_str().to_owned()) };
        assert!(read(&path).events.iter().any(|event| event.what == exiting), "{signal}");
    }
}

#[test]
fn a_command_that_is_none_ends_as_in_a_shell_and_leaves_stdout_alone() {
    let (folder, path) = transcript();
    let unexecutable = folder.path().join("text");
    std::fs::write(&unexecutable, "").unwrap();
    for (command, code) in [("./no-such-program", 127), (unexecutable.to_str().unwrap(), 126)] {
        let out = recorded(&path, &[command]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(out.status.code(), Some(code));
        assert!(out.stdout.is_empty());
        assert!(String::from_utf8(out.stderr).unwrap().contains(command));
    }
}

/// A server that says `ready`, and then one word for each SIGTERM; at the word `end` it ends with 5.
const TRAPS: &str = "trap 'echo term' TERM; echo ready; while :; do read a; [ \"$a\" = end ] && exit 5; done";

#[test]
fn each_signal_arrives_once_be_it_for_the_process_or_for_its_group() {
    for to_group in [false, true] {
        let (_folder, path) = transcript();
        let mut command = recorded(&path, &["sh", "-c", TRAPS]);
        if to_group {
            command.process_group(0);
        }
        let mut child = command.spawn().unwrap();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        let mut to = child.stdin.take().unwrap();
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        for _ in 0..2 {
            match to_group {
                true => killpg(pid(&child), Signal::SIGTERM).unwrap(),
                false => kill(pid(&child), Signal::SIGTERM).unwrap(),
            }
            // Shells run a trap when what they wait for is over.
            to.write_all(b"x\n").unwrap();
            from.read_line(&mut line).unwrap();
        }
        to.write_all(b"end\n").unwrap();
        from.read_to_string(&mut line).unwrap();
        assert_eq!(line, "ready\nterm\nterm\n", "to_group: {to_group}");
        assert_eq!(child.wait().unwrap().code(), Some(5));
        let signals = read(&path)
            .events
            .into_iter()
            .filter(|event| matches!(&event.what, What::SignalReceived { signal } if signal == "SIGTERM"));
        assert_eq!(signals.count(), 2);
    }
}

#[test]
fn a_recorder_that_is_killed_takes_the_server_along_and_leaves_a_whole_transcript() {
    for to_group in [false, true] {
        let (_folder, path) = transcript();
        // Whatever the recorder starts has the write end: when reading ends, all of it is gone.
        let (mut gone, held) = std::io::pipe().unwrap();
        fcntl(&held, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        // With a process of its own only if the whole group is to be ended.
        let script =
            if to_group { "sleep 1000 & echo ready; exec sleep 1000" } else { "echo ready; exec sleep 1000" };
        let mut command = recorded(&path, &["sh", "-c", script]);
        if to_group {
            command.process_group(0);
        }
        let mut child = command.spawn().unwrap();
        drop(held);
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        match to_group {
            true => killpg(pid(&child), Signal::SIGKILL).unwrap(),
            false => kill(pid(&child), Signal::SIGKILL).unwrap(),
        }
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        gone.read_to_end(&mut Vec::new()).unwrap();
        let stored = read(&path);
        assert_eq!(stored.incomplete, None);
        assert!(
            stored
                .events
                .iter()
                .any(|e| matches!(&e.what, What::SignalReceived { signal } if signal == "SIGKILL"))
        );
    }
}

#[test]
fn a_client_or_a_server_that_closes_a_pipe_is_noticed_by_the_other() {
    // The server closes its stdin and lives on: the client's next write fails.
    let (_folder, path) = transcript();
    let mut child =
        recorded(&path, &["sh", "-c", "exec 0<&-; echo closed; exec sleep 1000"]).spawn().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    from.read_line(&mut String::new()).unwrap();
    let mut to = child.stdin.take().unwrap();
    // A pipe takes what fits until its reader is gone.
    let refused = loop {
        if let Err(e) = to.write_all(&[b'x'; 4096]) {
            break e;
        }
    };
    assert_eq!(refused.kind(), std::io::ErrorKind::BrokenPipe);
    // The server closes its stdout too: the client sees the end.
    kill(pid(&child), Signal::SIGTERM).unwrap();
    from.read_to_end(&mut Vec::new()).unwrap();
    child.wait().unwrap();

    // The client closes the server's stdout: the server is told as it would be without the recorder.
    let (_folder, path) = transcript();
    let mut child =
        recorded(&path, &["sh", "-c", "echo ready; while echo x; do :; done; exit 3"]).spawn().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    from.read_line(&mut String::new()).unwrap();
    drop(from);
    let status = child.wait().unwrap();
    assert!(status.signal() == Some(13) || status.code() == Some(3), "{status:?}");
    let closed = What::StdoutClosed { by: sparring_wire::transcript::Party::Client };
    assert!(read(&path).events.iter().any(|event| event.what == closed));
}

#[test]
fn restarts_go_on_in_the_file_or_have_one_each() {
    let (folder, path) = transcript();
    for _ in 0..3 {
        let mut child = recorded(&path, &["cat"]).spawn().unwrap();
        echo(&mut child, &[b"{}\n"]);
        child.wait().unwrap();
    }
    let stored = read(&path);
    assert_eq!(stored.incomplete, None);
    let incarnations: Vec<_> = stored
        .events
        .iter()
        .filter(|event| matches!(event.what, What::ProcessStarted(_)))
        .map(|event| event.incarnation)
        .collect();
    assert_eq!(incarnations, [Some(1), Some(2), Some(3)]);
    let pattern = folder.path().join("each-{n}.jsonl");
    for n in 1..=2 {
        let mut child = recorded(&pattern, &["cat"]).spawn().unwrap();
        echo(&mut child, &[b"{}\n"]);
        child.wait().unwrap();
        assert_eq!(read(&folder.path().join(format!("each-{n}.jsonl"))).events.len(), 8);
    }
}

#[test]
fn recordings_at_a_time_keep_one_order() {
    let (_folder, path) = transcript();
    let children: Vec<Child> = (0..4).map(|_| recorded(&path, &["cat"]).spawn().unwrap()).collect();
    std::thread::scope(|scope| {
        for mut child in children {
            scope.spawn(move || {
                let line = [&[b'x'; 100][..], b"\n"].concat().repeat(200);
                assert!(echo(&mut child, &[&line]) == line);
                assert!(child.wait().unwrap().success());
            });
        }
    });
    let stored = read(&path);
    assert_eq!(stored.incomplete, None);
    assert!(stored.events.is_sorted_by_key(|event| event.at_us));
    let lines = stored.events.iter().filter(|event| matches!(event.what, What::Line(_)));
    assert_eq!(lines.count(), 4 * 2 * 200);
}

#[test]
fn a_transcript_that_can_not_be_written_is_said_so_and_stops_nothing_that_runs() {
    let (folder, path) = transcript();
    std::fs::write(&path, "something of the user's").unwrap();
    let out = recorded(&path, &["echo", "hi"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(out.status.code(), Some(8));
    assert!(out.stdout.is_empty());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "something of the user's");
    let nowhere = folder.path().join("no/such/folder.jsonl");
    assert_eq!(recorded(&nowhere, &["echo", "hi"]).stdin(Stdio::null()).status().unwrap().code(), Some(8));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_does_not_stop_the_session() {
    let mut child = recorded(Path::new("/dev/full"), &["cat"]).spawn().unwrap();
    let line = [&[b'x'; 100][..], b"\n"].concat().repeat(20_000);
    assert!(echo(&mut child, &[&line]) == line);
    assert!(child.wait().unwrap().success());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("could not be written"), "{said}");
}
