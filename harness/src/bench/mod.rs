//! `sparring bench`: the round trip of a tool call, beside floors measured in the same run.

mod floor;
mod idle;
mod load;

pub use floor::{LineClient, run_if_floor};
pub use load::{Load, TEXT};

use crate::cli::{BenchArgs, Trouble};
use crate::driver::{CaseContext, Driver, DriverError, DriverEvents, Subject, Target};
use crate::drivers::{Adapter, Builtin, ProcessSettings};
use crate::run::directory::CaseDirectory;
use serde::Serialize;
use sparring_mock_servers::http::{HttpMock, HttpSpec};
use sparring_mock_servers::script::{JsonText, ServerScript, ToolScript};
use sparring_mock_servers::sink::Sink;
use sparring_mock_servers::stdio::{StdioMock, StdioSpec};
use sparring_reports::model::exit_code;
use sparring_scenarios::op::{self, Op};
use sparring_wire::transcript::{Outcome, What};
use sparring_wire::{Revision, Transport};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Durations of single calls, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// Room for this many.
    #[must_use]
    pub fn with_capacity(calls: usize) -> Self {
        Self(Vec::with_capacity(calls))
    }

    /// Adds one.
    pub fn push(&mut self, took: Duration) {
        self.0.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes in another set.
    pub fn extend(&mut self, more: &Self) {
        self.0.extend_from_slice(&more.0);
    }

    /// Their percentiles (nearest rank).
    pub fn summary(&self) -> Summary {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            sorted.get(rank - 1).copied().unwrap_or_default()
        };
        Summary {
            calls: sorted.len(),
            p50_ns: rank(50),
            p90_ns: rank(90),
            p99_ns: rank(99),
            max_ns: rank(100),
        }
    }
}

impl From<Vec<u64>> for Samples {
    fn from(ns: Vec<u64>) -> Self {
        Self(ns)
    }
}

/// Percentiles, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many calls.
    pub calls: usize,
    /// The median.
    pub p50_ns: u64,
    /// Nine of ten are at most this.
    pub p90_ns: u64,
    /// Ninety-nine of a hundred are at most this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A set of numbers for one client on one transport.
#[derive(Debug, Clone, Serialize)]
struct Measured {
    client: String,
    version: String,
    transport: Transport,
    load: Load,
    /// All calls of all rounds.
    call: Summary,
    /// The floor, measured between the rounds.
    floor: Summary,
    /// The median, over the rounds, of the client's median divided by the floor's in the same round.
    ratio: f64,
    /// How far the floor's medians lie apart, as a part of the least: noise of the machine.
    noise: f64,
}

/// One client, open on one transport.
struct Candidate {
    name: String,
    version: String,
    subject: Arc<dyn Subject>,
    server: Server,
    _directory: CaseDirectory,
}

enum Server {
    Stdio(StdioMock),
    Http(HttpMock),
}

/// Nothing that the servers or drivers report is of interest here.
struct Deaf;

impl Sink for Deaf {
    fn event(&self, _: &str, _: Option<u32>, _: u64, _: What) {}
}

impl DriverEvents for Deaf {
    fn driver_event(&self, _: &str, _: serde_json::Value) {}
    fn output(&self, _: &str, _: &str) {}
    fn client_started(&self, _: u32, _: &[String]) {}
    fn client_ended(&self, _: Option<i32>, _: Option<&str>, _: bool) {}
}

enum Floor {
    Stdio(Box<LineClient>),
    Http(floor::HttpFloor),
}

impl Floor {
    async fn round(&mut self, load: Load, calls: u32) -> io::Result<Samples> {
        match self {
            Self::Stdio(floor) => floor.round_of(load, calls).await,
            Self::Http(floor) => floor.round_of(load, calls).await,
        }
    }
}

/// `sparring bench`.
pub(crate) fn command(args: &BenchArgs) -> Result<u8, Trouble> {
    if args.calls == 0 || args.rounds == 0 {
        return Err(Trouble::usage("--calls and --rounds are at least 1"));
    }
    if let Some(path) = &args.json {
        sparring_reports::file::probe("numbers", path).map_err(|e| Trouble::new(exit_code::REPORT, e))?;
    }
    let drivers = args.with.iter().map(|text| driver(text)).collect::<Result<Vec<_>, _>>()?;
    let transports = match args.transports.as_slice() {
        [] => vec![Transport::Stdio, Transport::Http],
        chosen => chosen.to_vec(),
    };
    let loads = match args.loads.as_slice() {
        [] => Load::ALL.to_vec(),
        chosen => chosen.to_vec(),
    };
    // Threads and processes that start from now on inherit it: nobody waits for another core to wake up.
    let pinned = crate::platform::pin_to_one_core();
    // On one core a second thread would only add switches between the two, to the floor as well, which would flatter.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|e| Trouble::new(exit_code::HARNESS_ERROR, format!("can't start the runtime: {e}")))?;
    let (measured, text) = runtime.block_on(async {
        if let Some(connections) = args.idle {
            // Before anything else has grown the process.
            let idle = idle::measure(connections as usize, &transports).await?;
            return Ok::<_, Trouble>((Vec::new(), idle::render(&idle)));
        }
        let mut measured = Vec::new();
        for load in loads {
            for &transport in &transports {
                measured.extend(measure(&drivers, transport, load, args).await?);
            }
        }
        let text = render(&measured, pinned, args);
        Ok((measured, text))
    })?;
    let printed = crate::cli::print(&text);
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&measured)
            .map_err(|e| Trouble::new(exit_code::HARNESS_ERROR, format!("can't write the numbers: {e}")))?;
        sparring_reports::file::write("numbers", path, text.as_bytes())
            .map_err(|e| Trouble::new(exit_code::REPORT, e))?;
    }
    printed?;
    Ok(exit_code::PASSED)
}

fn driver(text: &str) -> Result<Arc<dyn Driver>, Trouble> {
    match text.split_once(':') {
        None if text == "builtin" => Ok(Arc::new(Builtin::new())),
        Some(("adapter", command)) => {
            let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            if command.is_empty() {
                return Err(Trouble::usage("--with adapter: needs a command behind the colon"));
            }
            let settings = ProcessSettings::new().map_err(|e| {
                Trouble::new(exit_code::HARNESS_ERROR, format!("can't prepare the client's start: {e}"))
            })?;
            Ok(Arc::new(Adapter::new(command, settings)))
        }
        _ => Err(Trouble::usage(format!("--with: `{text}` is neither `builtin` nor `adapter: COMMAND`"))),
    }
}

async fn measure(
    drivers: &[Arc<dyn Driver>],
    transport: Transport,
    load: Load,
    args: &BenchArgs,
) -> Result<Vec<Measured>, Trouble> {
    let ours = |e: io::Error| Trouble::new(exit_code::HARNESS_ERROR, format!("the bench failed: {e}"));
    let mut floor = match transport {
        Transport::Stdio => Floor::Stdio(Box::new(LineClient::floor().map_err(ours)?)),
        Transport::Http => Floor::Http(floor::HttpFloor::start().await.map_err(ours)?),
        Transport::SseLegacy => return Err(Trouble::usage("--transport: the bench has stdio and http")),
    };
    let mut candidates = Vec::new();
    for driver in drivers {
        candidates.push(Candidate::open(driver.as_ref(), transport).await?);
    }
    let calls = load.calls(args.calls);
    let warm_up = calls.min(200);
    floor.round(load, warm_up).await.map_err(ours)?;
    for candidate in &candidates {
        candidate.round(load, warm_up).await?;
    }
    let mut floors = Vec::new();
    let mut rounds: Vec<Vec<Samples>> = candidates.iter().map(|_| Vec::new()).collect();
    for _ in 0..args.rounds {
        floors.push(floor.round(load, calls).await.map_err(ours)?);
        for (candidate, rounds) in candidates.iter().zip(&mut rounds) {
            rounds.push(candidate.round(load, calls).await?);
        }
    }
    let medians: Vec<u64> = floors.iter().map(|f| f.summary().p50_ns.max(1)).collect();
    let (least, most) =
        (medians.iter().min().copied().unwrap_or(1), medians.iter().max().copied().unwrap_or(1));
    let measured = candidates
        .iter()
        .zip(&rounds)
        .map(|(candidate, rounds)| Measured {
            client: candidate.name.clone(),
            version: candidate.version.clone(),
            transport,
            load,
            call: all(rounds).summary(),
            floor: all(&floors).summary(),
            ratio: median(
                rounds
                    .iter()
                    .zip(&medians)
                    .map(|(r, floor)| r.summary().p50_ns as f64 / *floor as f64)
                    .collect(),
            ),
            noise: (most - least) as f64 / least as f64,
        })
        .collect();
    for candidate in candidates {
        candidate.close().await;
    }
    Ok(measured)
}

impl Candidate {
    async fn open(driver: &dyn Driver, transport: Transport) -> Result<Self, Trouble> {
        let ours = |e: io::Error| Trouble::new(exit_code::HARNESS_ERROR, format!("the bench failed: {e}"));
        let theirs = |e: &DriverError| crate::cli::driver_trouble(e);
        let hello = driver.hello().await.map_err(|e| theirs(&e))?;
        let tools = Load::ALL.map(|load| ToolScript::Library(load.tool().to_owned())).to_vec();
        let script = ServerScript { tools, ..ServerScript::default() };
        let revision = hello.revisions.iter().copied().filter(|r| r.has_handshake()).max();
        let revision = revision.unwrap_or(Revision::LATEST_HANDSHAKE);
        let directory =
            CaseDirectory::new(&crate::run::directory::temporary_root().map_err(ours)?).map_err(ours)?;
        let name = "server".to_owned();
        let (server, target) = match transport {
            Transport::Stdio => {
                let mock = StdioMock::prepare(StdioSpec {
                    name: name.clone(),
                    script,
                    revision,
                    dir: directory.servers(),
                    quiet: true,
                    seed: 0,
                    sink: Arc::new(Deaf),
                    program: None,
                })
                .map_err(ours)?;
                let mut words = mock.command().into_iter();
                let command = words.next().unwrap_or_default();
                let target = Target::Stdio { command, args: words.collect(), env: BTreeMap::new() };
                (Server::Stdio(mock), target)
            }
            _ => {
                let mock = HttpMock::start(HttpSpec {
                    name: name.clone(),
                    script,
                    revision,
                    transport,
                    seed: 0,
                    sink: Arc::new(Deaf),
                    quiet: true,
                    numbers: Arc::default(),
                    port: 0,
                })
                .map_err(ours)?;
                let target = Target::Http { url: mock.url().to_owned() };
                (Server::Http(mock), target)
            }
        };
        let subject = driver
            .start(CaseContext {
                targets: BTreeMap::from([(name, target)]),
                revision,
                directory: directory.client(),
                official_scenario: None,
                official_context: None,
                clock_scale: 1,
                config_env: BTreeMap::new(),
                events: Arc::new(Deaf),
            })
            .await
            .map_err(|e| theirs(&e))?;
        for op in [Op::Open(op::Open::default()), Op::Tools(op::Of::default())] {
            match subject.run(op.name(), &op).await.map_err(|e| theirs(&e))? {
                Outcome::Ok { .. } => {}
                other => {
                    let why =
                        format!("{} {}: `{}` went wrong: {other:?}", hello.name, hello.version, op.name());
                    return Err(Trouble::new(exit_code::CLIENT, why));
                }
            }
        }
        Ok(Self { name: hello.name, version: hello.version, subject, server, _directory: directory })
    }

    async fn round(&self, load: Load, calls: u32) -> Result<Samples, Trouble> {
        let call = op::Call {
            tool: load.tool().to_owned(),
            arguments: Some(JsonText(load.arguments())),
            ..op::Call::default()
        };
        match self.subject.bench(&call, calls).await.map_err(|e| crate::cli::driver_trouble(&e))? {
            Some(ns) if ns.len() == calls as usize => Ok(ns.into()),
            Some(ns) => Err(Trouble::new(
                exit_code::CLIENT,
                format!("{}: `bench` was asked for {calls} calls and reported {}", self.name, ns.len()),
            )),
            None => Err(Trouble::new(
                exit_code::UNSUPPORTED,
                format!("{}: the driver has no operation `bench` (docs/driver-protocol.md)", self.name),
            )),
        }
    }

    async fn close(self) {
        let _ = self.subject.run("close", &Op::Close(op::Of::default())).await;
        self.subject.stop().await;
        match self.server {
            Server::Stdio(mock) => drop(mock.shutdown().await),
            Server::Http(mock) => mock.shutdown().await,
        }
    }
}

fn all(rounds: &[Samples]) -> Samples {
    let mut all = Samples::default();
    for round in rounds {
        all.extend(round);
    }
    all
}

/// The middle one, 0 if there is none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn render(measured: &[Measured], pinned: Option<usize>, args: &BenchArgs) -> String {
    let mut text = match pinned {
        Some(core) => format!("pinned to core {core}"),
        None => "not pinned to a core".to_owned(),
    };
    let noise = measured.iter().map(|m| m.noise).fold(0.0, f64::max);
    let word = match noise {
        n if n < 0.10 => "low",
        n if n < 0.25 => "moderate",
        _ => "high: compare ratios only, or run again on an idle machine",
    };
    text += &format!(" · {} interleaved rounds · noise: {word}\n", args.rounds);
    let (mut load, mut transport) = (None, None);
    for m in measured {
        if load != Some(m.load) {
            load = Some(m.load);
            transport = None;
            let what = format!("{} · {} calls a round", m.load.title(), m.load.calls(args.calls));
            text += &format!("\n{what:<42}{:>10}{:>10}{:>10}{:>10}\n", "p50", "p90", "p99", "× floor");
        }
        if transport != Some(m.transport) {
            transport = Some(m.transport);
            let what = match m.transport {
                Transport::Stdio => "floor: pipes + JSON",
                _ => "floor: HTTP + JSON",
            };
            text += &line(m.transport.as_str(), what, &m.floor, None);
        }
        text += &line("", &format!("{} {}", m.client, m.version), &m.call, Some(m.ratio));
    }
    text
}

fn line(transport: &str, name: &str, summary: &Summary, ratio: Option<f64>) -> String {
    let ratio = ratio
        .map_or_else(|| "1".to_owned(), |r| if r < 10.0 { format!("{r:.2}") } else { format!("{r:.0}") });
    format!(
        "  {transport:<7}{name:<33}{:>10}{:>10}{:>10}{ratio:>10}\n",
        time(summary.p50_ns),
        time(summary.p90_ns),
        time(summary.p99_ns)
    )
}

/// A duration with two or three significant digits.
fn time(ns: u64) -> String {
    let (value, unit) = match ns as f64 {
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    if value < 10.0 {
        format!("{value:.2} {unit}")
    } else if value < 100.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let summary = Samples::from((1..=200).rev().collect::<Vec<u64>>()).summary();
        let expected = Summary { calls: 200, p50_ns: 100, p90_ns: 180, p99_ns: 198, max_ns: 200 };
        assert_eq!(summary, expected);
        assert_eq!(Samples::from(vec![7]).summary().p50_ns, 7);
        assert_eq!(Samples::default().summary().calls, 0);
    }

    #[test]
    fn times_are_readable() {
        let seen = [980, 12_340, 208_000, 1_270_000, 2_000_000_000].map(time);
        assert_eq!(seen, ["0.98 µs", "12.3 µs", "208 µs", "1.27 ms", "2.00 s"]);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
