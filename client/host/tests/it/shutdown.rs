//! How servers end with their host, whatever ends that. These tests need a host in a process of its own.

use crate::support::{Folder, call, control, gone, open, profile, session};
use serde_json::json;
use sparring_host::shutdown::on_signal;
use sparring_host::{Control, Host};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

const HOST: &str = "SPARRING_TEST_HOST";

/// Not a test, but a host with one server that runs until a signal ends it, if the environment says so. It prints `up`
/// and the server's process id.
#[tokio::test]
async fn host() {
    let Ok(name) = std::env::var(HOST) else { return };
    let folder = Folder::existing();
    let builder = folder.host(profile(&name), vec![folder.server("a", &[])]);
    let (host, session) = open(builder).await;
    // Nobody is there to be asked.
    session.control(Control::AutoApprove { on: true }).await.unwrap();
    control(&session, json!({"control": "start", "server": "a"})).await.unwrap();
    let pid = crate::support::pid(&session, "mcp__a__echo").await;
    println!("up {pid}");
    let number = on_signal(&host).await.unwrap();
    std::process::exit(128 + i32::from(number));
}

/// Starts that host, ends it by a signal, and returns its exit code when its server is gone.
async fn ended_by(folder: &Folder, signal: &str) -> Option<i32> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "shutdown::host", "--nocapture", "--quiet"])
        .env(HOST, "mouaif")
        .env("SPARRING_TEST_FOLDER", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let up = lines.map_while(Result::ok).find_map(|line| line.split("up ").nth(1).map(str::to_owned));
    let server: u32 = up.unwrap().trim().parse().unwrap();
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let code = child.wait().unwrap().code();
    gone(server).await;
    code
}

#[tokio::test]
async fn servers_are_stopped_on_the_signals_of_the_profile() {
    if std::env::var(HOST).is_ok() {
        return;
    }
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let folder = Folder::new();
        assert_eq!(ended_by(&folder, signal).await, Some(code), "{signal}");
        // The end of its input came first, and it took its leave.
        assert_eq!(folder.count("a end"), 1, "{signal}");
    }
}

#[tokio::test]
async fn servers_are_stopped_when_the_host_is_closed() {
    let folder = Folder::new();
    let (host, session) = open(folder.host(profile("zidane"), vec![folder.server("a", &[])])).await;
    let pid = crate::support::pid(&session, "mcp_a_echo").await;
    host.close().await;
    gone(pid).await;
    assert_eq!(folder.count("a end"), 1);
}

#[tokio::test]
async fn orphans_of_a_killed_host_are_ended_by_the_next_start() {
    if std::env::var(HOST).is_ok() {
        return;
    }
    let folder = Folder::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "shutdown::orphaned", "--nocapture", "--quiet"])
        .env(HOST, "zidane")
        .env("SPARRING_TEST_FOLDER", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let up = lines.map_while(Result::ok).find_map(|line| line.split("up ").nth(1).map(str::to_owned));
    let server: u32 = up.unwrap().trim().parse().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(crate::support::is_there(server), "a server that ignores its input's end outlives a killed host");
    let host = Host::launch(folder.host(profile("zidane"), Vec::new())).await.unwrap();
    gone(server).await;
    host.close().await;
}

/// Not a test, but a host with a server that does not end by itself.
#[tokio::test]
async fn orphaned() {
    if std::env::var(HOST).is_err() {
        return;
    }
    let folder = Folder::existing();
    let host =
        Host::launch(folder.host(profile("zidane"), vec![folder.server("a", &["stay"])])).await.unwrap();
    let session = session(&host).await;
    println!("up {}", crate::support::pid(&session, "mcp_a_echo").await);
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_descendant_in_a_session_of_its_own_is_left_alone_or_not() {
    for survives in [true, false] {
        let folder = Folder::new();
        let mut settings = profile("zut");
        settings.shutdown.setsid_survives = survives;
        let (host, session) = open(folder.host(settings, vec![folder.server("a", &["stray"])])).await;
        call(&session, "mcp__a__echo").await.unwrap();
        let stray: u32 = std::fs::read_to_string(folder.path().join("stray.pid")).unwrap().parse().unwrap();
        // Until it has a session of its own, it is one of the group.
        while crate::support::session_of(stray) != Some(stray) {
            tokio::task::yield_now().await;
        }
        host.close().await;
        if survives {
            assert!(crate::support::is_there(stray));
            let killed = Command::new("kill").args(["-KILL", &stray.to_string()]).status().unwrap();
            assert!(killed.success());
        }
        gone(stray).await;
    }
}
