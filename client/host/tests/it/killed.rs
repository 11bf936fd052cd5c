//! A host that is killed at any moment: no corrupted file, no lost credential, no orphan that the next start does not
//! end.

use crate::support::{Folder, call, control, profile, session};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use sparring_client::CredentialStore as _;
use sparring_client::oauth::{AuthMethod, ClientOrigin, CredentialKey, Credentials, StoredClient};
use sparring_host::store::cache::{CacheKey, ToolCache as _};
use sparring_host::store::credentials::{FileCredentials, default_path};
use sparring_host::store::disk::DiskCache;
use sparring_host::{Host, SessionOptions};
use sparring_profiles::{CacheKind, Settings, StoreKind};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const KILLS: u32 = 200;
const VICTIM: &str = "SPARRING_TEST_VICTIM";
/// Servers whose credentials the victim writes.
const LOGINS: u64 = 3;

fn settings() -> Settings {
    let mut settings = profile("zidane");
    settings.discovery.cache = CacheKind::Disk;
    settings.auth.store = StoreKind::File;
    settings.pool.idle_close_s = 0.01;
    // Servers of this test do not end with their input.
    settings.timeouts.close_s = 0.02;
    settings
}

fn key(login: u64) -> CredentialKey {
    CredentialKey { server: format!("https://{login}.test/mcp"), issuer: "https://as.test".into() }
}

fn credentials(version: u64) -> Credentials {
    Credentials {
        client: StoredClient {
            id: version.to_string(),
            origin: ClientOrigin::Dynamic,
            secret: None,
            secret_expires_at: None,
            method: AuthMethod::None,
            redirect_uri: None,
        },
        tokens: None,
        proof_key: None,
    }
}

/// Not a test, but a host that works until it is killed, if the environment says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Ok(first) = std::env::var(VICTIM) else { return };
    let mut version: u64 = first.parse().unwrap();
    let folder = Folder::existing();
    let entries = vec![folder.server("a", &["stay"]), folder.server("b", &["stay"])];
    let host = Host::launch(folder.host(settings(), entries)).await.unwrap();
    loop {
        let store = FileCredentials::new(default_path(&folder.surroundings().state), 0o600);
        let logins = tokio::spawn(async move {
            for login in 0..LOGINS {
                version += 1;
                let held = store.lock(&key(login).server).await.unwrap();
                store.put(&key(login), &credentials(version)).await.unwrap();
                drop(held);
                println!("kept {login} {version}");
            }
            version
        });
        let alone = SessionOptions { isolated: true, ..SessionOptions::default() };
        let (one, two) = (session(&host).await, host.session(alone).await.unwrap());
        // The servers may be retired or restarted meanwhile, so calls may fail; that is not what this is about.
        let (first, second) = tokio::join!(call(&one, "mcp_a_echo"), call(&two, "mcp_b_echo"));
        drop((first, second));
        if version.is_multiple_of(2) {
            drop(control(&one, json!({"control": "retire", "server": "a"})).await);
        } else {
            drop(control(&one, json!({"control": "restart", "server": "a"})).await);
        }
        drop(call(&one, "mcp_a_change").await);
        version = logins.await.unwrap();
        one.close().await;
        two.close().await;
    }
}

/// The processes that belong to the folder, by what their environment says.
fn left(folder: &Path) -> Vec<u32> {
    let marker = format!("SPARRING_TEST_FOLDER={}\0", folder.display());
    let of_folder = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&marker)
    };
    let all = std::fs::read_dir("/proc").unwrap();
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != std::process::id()).filter(of_folder).collect()
}

#[tokio::test]
async fn killed_at_any_moment() {
    if std::env::var(VICTIM).is_ok() {
        return;
    }
    let seed = std::env::var("SPARRING_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| rand::rng().random());
    println!("SPARRING_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = Folder::new();
    let state = folder.surroundings().state;
    let store = FileCredentials::new(default_path(&state), 0o600);
    let mut kept: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut orphans, mut full) = (0, Duration::from_millis(100));
    for kill in 0..KILLS {
        let version = u64::from(kill) * 1000;
        let begin = Instant::now();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::victim", "--nocapture", "--quiet"])
            .env(VICTIM, version.to_string())
            .env("SPARRING_TEST_FOLDER", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            lines.map(|line| (line, Instant::now())).collect::<Vec<_>>()
        });
        // From before it does anything until after it has done everything.
        let wait = full.mul_f64(random.random::<f64>());
        std::thread::sleep(wait);
        child.kill().unwrap();
        child.wait().unwrap();
        orphans += left(folder.path()).len();
        // The next start.
        let host = Host::launch(folder.host(settings(), Vec::new())).await.unwrap();
        host.close().await;
        let said = reader.join().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while !left(folder.path()).is_empty() {
            let all = left(folder.path());
            assert!(Instant::now() < until, "seed {seed}, kill {kill} after {wait:?}: {all:?} are left");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut rounds = 0;
        for (line, at) in said {
            let Some(rest) = line.strip_prefix("kept ") else { continue };
            let (login, version) = rest.split_once(' ').unwrap();
            let (Ok(login), Ok(version)) = (login.parse(), version.parse()) else { continue };
            kept.insert(login, version);
            rounds += 1;
            if rounds == 2 * LOGINS {
                full = (at - begin).max(Duration::from_millis(50)).mul_f64(1.5);
            }
        }
        // How long two rounds take depends on the machine.
        if rounds < LOGINS {
            full = full.mul_f64(1.05).min(Duration::from_secs(2));
        }
        for (login, version) in &kept {
            let found = store.of_server(&key(*login).server).await.unwrap();
            let found: u64 = found
                .first()
                .unwrap_or_else(|| panic!("seed {seed}: {login} is lost"))
                .1
                .client
                .id
                .parse()
                .unwrap();
            assert!(found >= *version, "seed {seed}, kill {kill}: {login} has {found}, kept was {version}");
        }
    }
    store.put(&key(LOGINS), &credentials(0)).await.unwrap();
    let damaged = std::fs::read_dir(&state).unwrap().filter_map(Result::ok).map(|entry| entry.file_name());
    let damaged: Vec<_> = damaged
        .filter(|name| name.to_string_lossy().contains("damaged") || name.to_string_lossy().starts_with('.'))
        .collect();
    assert!(damaged.is_empty(), "seed {seed}: {damaged:?}");
    let cache = DiskCache::new(state.join("tools.redb"));
    let project = folder.surroundings().cwd.to_string_lossy().into_owned();
    let tools = cache.get(&CacheKey { project, server: "a".into() });
    assert!(tools.is_some_and(|tools| tools.len() >= 4), "seed {seed}: the tools are lost");
    let records = std::fs::read_dir(state.join("processes")).unwrap().filter_map(Result::ok).count();
    assert_eq!(records, 0, "seed {seed}: records of processes are left");
    assert_eq!(kept.len() as u64, LOGINS, "seed {seed}: no victim has lived long enough");
    assert!(orphans > 0, "seed {seed}: no victim has left anything behind");
    println!("{orphans} orphans were ended");
}
