//! The stdio mock alone, beside floors measured in the same run with both ends on one core.
//!
//! `cargo bench -p sparring-benches --bench mock_stdio [-- --program PATH] [-- --rounds N] [-- --calls N]`
//!
//! A client of the least kind ([`LineClient`]) calls `echo` over and over: at the floor, which is tokio pipes with
//! `serde_json` on both ends; at the mock as benches use it (`quiet`); and at the mock that reports each line before it
//! writes it, as in a run, with the reports' reader on the same core too. Then it starts servers and waits for the answer
//! to `initialize`, and looks at how much memory they keep resident.
//!
//! `--program` measures another executable that calls `run_if_mock`, such as `sparring` itself.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints, and has nothing to do after a failure"
)]

use serde_json::{Value, json};
use sparring::bench::{LineClient, Samples, median, run_if_floor};
use sparring::platform::pin_to_one_core;
use sparring_mock_servers::script::{ServerScript, ToolScript};
use sparring_mock_servers::sink::Sink;
use sparring_mock_servers::stdio::{StdioMock, StdioSpec, run_if_mock};
use sparring_wire::Revision;
use sparring_wire::transcript::What;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// How much is measured, and of what.
struct Options {
    rounds: usize,
    calls: u32,
    starts: usize,
    program: Option<PathBuf>,
}

impl Options {
    fn read() -> Self {
        let mut options = Self { rounds: 21, calls: 1000, starts: 60, program: None };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|n| n.parse::<u32>().ok()).expect("a number follows");
            match word.as_str() {
                "--rounds" => options.rounds = number() as usize,
                "--calls" => options.calls = number(),
                "--starts" => options.starts = number() as usize,
                "--program" => options.program = words.next().map(PathBuf::from),
                // Cargo's own words, such as `--bench`.
                _ => {}
            }
        }
        options
    }
}

/// Counts what is reported.
#[derive(Default)]
struct Count(AtomicU64);

impl Sink for Count {
    fn event(&self, _: &str, _: Option<u32>, _: u64, _: What) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Mock {
    mock: StdioMock,
    reports: Arc<Count>,
    _directory: tempfile::TempDir,
}

impl Mock {
    fn prepare(quiet: bool, options: &Options) -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let reports = Arc::new(Count::default());
        let mock = StdioMock::prepare(StdioSpec {
            name: "mock".into(),
            script: ServerScript {
                tools: vec![ToolScript::Library("echo".into())],
                ..ServerScript::default()
            },
            revision: Revision::V2025_11_25,
            dir: directory.path().to_owned(),
            quiet,
            seed: 0,
            sink: Arc::clone(&reports) as Arc<dyn Sink>,
            program: options.program.clone(),
        })?;
        Ok(Self { mock, reports, _directory: directory })
    }

    async fn open(&self) -> io::Result<LineClient> {
        let command = self.mock.command();
        let (program, arguments) = command.split_first().expect("a command has a program");
        let mut client = LineClient::start(&OsString::from(program), arguments)?;
        client.send(&initialize()).await?;
        let answer = client.receive().await?;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        Ok(client)
    }

    async fn opened(&self) -> io::Result<LineClient> {
        let mut client = self.open().await?;
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        Ok(client)
    }
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
    }})
}

fn main() -> ExitCode {
    if let Some(code) = run_if_mock() {
        return code;
    }
    if let Some(code) = run_if_floor() {
        return code;
    }
    let options = Options::read();
    match pin_to_one_core() {
        Some(core) => println!("pinned to core {core}"),
        None => println!("not pinned to a core: the ratios mean little"),
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(measure(&options)).expect("the bench runs");
    ExitCode::SUCCESS
}

async fn measure(options: &Options) -> io::Result<()> {
    let quiet = Mock::prepare(true, options)?;
    let reporting = Mock::prepare(false, options)?;
    let mut clients = [LineClient::floor()?, quiet.opened().await?, reporting.opened().await?];
    for client in &mut clients {
        client.round(options.calls.min(200)).await?;
    }
    let mut rounds: [Vec<f64>; 3] = Default::default();
    for _ in 0..options.rounds {
        for (client, rounds) in clients.iter_mut().zip(&mut rounds) {
            rounds.push(micros(&client.round(options.calls).await?));
        }
    }
    println!(
        "\n`tools/call`, 100 B: median of {} alternating rounds of {} calls",
        options.rounds, options.calls
    );
    let [floor, ..] = &rounds;
    for (name, own) in ["floor: pipes + JSON", "mock, quiet", "mock, reporting"].into_iter().zip(&rounds) {
        let ratios = own.iter().zip(floor).map(|(own, floor)| own / floor).collect();
        println!("  {name:<22}{:>9.1} µs{:>8.2} × floor", median(own.clone()), median(ratios));
    }
    assert!(reporting.reports.0.load(Ordering::Relaxed) > u64::from(options.calls), "it reports");
    println!("\nresident after these calls");
    for (name, client) in ["floor", "mock, quiet", "mock, reporting"].into_iter().zip(&clients) {
        match client.pid().and_then(resident) {
            Some(kib) => println!("  {name:<22}{:>9.2} MiB", kib as f64 / 1024.0),
            None => println!("  {name:<22}  unknown on this system"),
        }
    }
    for client in clients {
        client.close().await?;
    }
    let mut starts: [Vec<f64>; 2] = Default::default();
    for _ in 0..options.starts {
        let begun = Instant::now();
        let mut floor = LineClient::floor()?;
        floor.round(1).await?;
        starts[0].push(begun.elapsed().as_secs_f64() * 1e3);
        floor.close().await?;
        let begun = Instant::now();
        let client = reporting.open().await?;
        starts[1].push(begun.elapsed().as_secs_f64() * 1e3);
        client.close().await?;
    }
    println!("\nfrom spawn to the first answer: median of {} alternating starts", options.starts);
    for (name, own) in ["floor", "mock, `initialize`"].into_iter().zip(starts) {
        println!("  {name:<22}{:>9.2} ms", median(own));
    }
    quiet.mock.shutdown().await;
    reporting.mock.shutdown().await;
    Ok(())
}

/// The median of a round, in microseconds.
fn micros(samples: &Samples) -> f64 {
    samples.summary().p50_ns as f64 / 1e3
}

/// Resident memory of a process in KiB, where the system has `/proc`.
fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse().ok()
}
