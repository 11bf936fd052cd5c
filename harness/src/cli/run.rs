//! `sparring run` and `sparring judge`.

use super::args::RunArgs;
use super::{Trouble, error, input, print, runtime};
use crate::judge;
use crate::judge::stored::{self, Stored, Unreadable};
use crate::run::{Settings, Stop};
use crate::session::{Finished, Options};
use sparring_reports::model::{JudgeReport, Verdict, exit_code};
use sparring_reports::terminal::{self, Progress, TerminalOptions};
use sparring_reports::{file, json, junit};
use sparring_wire::Revision;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

enum Report {
    Json(PathBuf),
    Junit(PathBuf),
}

pub(super) fn run(args: RunArgs) -> Result<u8, Trouble> {
    let filter = input::filter(&args.selection)?;
    let mut reports = args.reports.iter().map(|text| report(text)).collect::<Result<Vec<_>, _>>()?;
    let transcripts = args.out.join("transcripts");
    // A place that can't be written to is better known before the run than after it.
    prepare(&transcripts)?;
    reports.push(Report::Json(args.out.join("report.json")));
    for report in &reports {
        let (what, path) = match report {
            Report::Json(path) => (json::WHAT, path),
            Report::Junit(path) => (junit::WHAT, path),
        };
        file::probe(what, path).map_err(|e| Trouble::new(exit_code::REPORT, e))?;
    }

    let runtime = runtime()?;
    let harness =
        |e: std::io::Error| Trouble::new(exit_code::HARNESS_ERROR, format!("can't prepare the run: {e}"));
    let finished = runtime.block_on(async {
        let stop = Stop::on_signals();
        let session = tokio::select! {
            session = input::session(&args.selection) => session?,
            () = stop.asked() => return Err(Trouble::new(exit_code::INTERRUPTED, "interrupted before the first case")),
        };
        let planned = session.plan(&filter).map_err(|e| input::plan_trouble(&e))?;
        let mut settings = Settings::new().map_err(harness)?;
        settings.repeat = args.repeat;
        settings.seed = args.seed.unwrap_or_else(|| rand::random::<u32>().into());
        settings.unredacted = args.keep_secrets;
        settings.transcripts = Some(transcripts);
        if let Some(jobs) = args.jobs {
            settings.jobs = jobs.max(1);
        }
        let to_run = planned.iter().filter(|p| p.skip.is_none()).count();
        let progress = Mutex::new(Some(Progress::start(to_run * args.repeat.max(1) as usize)));
        let progress = std::sync::Arc::new(progress);
        let seen = std::sync::Arc::clone(&progress);
        let finished = session
            .run(planned, settings, Options { allow_unsupported: args.allow_unsupported }, &stop, move |case| {
                if let Some(progress) = &*seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
                    progress.finished(case);
                }
            })
            .await;
        if let Some(progress) = progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            progress.finish();
        }
        Ok(finished)
    })?;
    // Whatever hangs in a blocking call must not keep the program.
    runtime.shutdown_background();
    conclude(&args, &finished, &reports)
}

fn conclude(args: &RunArgs, finished: &Finished, reports: &[Report]) -> Result<u8, Trouble> {
    let report = &finished.report;
    let mut options = TerminalOptions::for_stdout();
    options.verbose = args.verbose;
    options.folder = Some(args.out.display().to_string());
    let printed = print(&terminal::render_summary(report, &options));
    let mut code = report.conclusion.exit_code();
    if !finished.flaky.is_empty() {
        error(&format!(
            "repetitions of the same case disagree; this is a fault of Sparring's unless the client itself is random:\n  {}",
            finished.flaky.join("\n  ")
        ));
        code = if code == exit_code::PASSED { exit_code::HARNESS_ERROR } else { code };
    }
    let mut unwritten: Vec<String> = finished.errors.clone();
    // The files are written all the same. A terminal that is gone is why a run was interrupted, and no news.
    unwritten.extend(printed.err().filter(|_| code != exit_code::INTERRUPTED).map(|trouble| trouble.message));
    for report_file in reports {
        let written = match report_file {
            Report::Json(path) => json::write(report, path),
            Report::Junit(path) => junit::write(report, path),
        };
        unwritten.extend(written.err().map(|e| e.to_string()));
    }
    for problem in &unwritten {
        error(problem);
    }
    Ok(if unwritten.is_empty() { code } else { exit_code::REPORT })
}

fn report(text: &str) -> Result<Report, Trouble> {
    match text.split_once('=') {
        Some(("json", path)) if !path.is_empty() => Ok(Report::Json(path.into())),
        Some(("junit", path)) if !path.is_empty() => Ok(Report::Junit(path.into())),
        _ => Err(Trouble::usage(format!("--report: `{text}` is neither json=PATH nor junit=PATH"))),
    }
}

/// Makes the folder for transcripts, without those of an earlier run.
fn prepare(folder: &Path) -> Result<(), Trouble> {
    let trouble = |e: std::io::Error| {
        Trouble::new(exit_code::REPORT, format!("--out: can't use the folder {}: {e}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(trouble)?;
    for entry in std::fs::read_dir(folder).map_err(trouble)? {
        let path = entry.map_err(trouble)?.path();
        if path.extension().is_some_and(|e| e == "jsonl") {
            std::fs::remove_file(&path).map_err(trouble)?;
        }
    }
    Ok(())
}

pub(super) fn judge_file(
    path: &Path,
    revision: Option<Revision>,
    incomplete_ok: bool,
) -> Result<u8, Trouble> {
    let Stored { events, incomplete } = read_transcript(path)?;
    if events.is_empty() {
        let why = format!("{} has no events: there is nothing to judge", path.display());
        return Err(Trouble::new(exit_code::NOTHING_RAN, why));
    }
    let reports = judge::judge_transcript_only(revision, &events);
    let mut text = String::new();
    let mut failed = false;
    let mut spoke = 0;
    for report in reports.iter().filter(|r| r.verdict != Verdict::NotApplicable) {
        spoke += 1;
        failed |= report.verdict.fails_the_run();
        text += &line(report);
    }
    text +=
        &format!("{} events, {spoke} of {} monitors had something to judge\n", events.len(), reports.len());
    print(&text)?;
    if let Some(why) = incomplete.filter(|_| !incomplete_ok) {
        // What was seen counts; what was not seen proves nothing.
        let message = format!("{} is incomplete: {why}", path.display());
        return match failed {
            true => {
                error(&message);
                Ok(exit_code::FAILED)
            }
            false => Err(Trouble::usage(format!("{message}; --incomplete judges it for what it is"))),
        };
    }
    Ok(match (failed, spoke) {
        (true, _) => exit_code::FAILED,
        (false, 0) => exit_code::NOTHING_RAN,
        (false, _) => exit_code::PASSED,
    })
}

fn line(report: &JudgeReport) -> String {
    let mut text = format!("{:<13} {}  ({})\n", report.verdict.word(), report.judge, report.basis.id);
    if report.verdict != Verdict::Pass {
        if let Some(reason) = &report.reason {
            text += &format!("              {}\n", sparring_reports::text::escape(reason));
        }
        for evidence in &report.actual {
            let shown = sparring_reports::text::escape(&evidence.text);
            text += &format!("              #{}  +{} ms  {shown}\n", evidence.n, evidence.at_ms);
        }
    }
    text
}

/// Reads a transcript file.
pub(super) fn read_transcript(path: &Path) -> Result<Stored, Trouble> {
    let name = path.display();
    let unreadable = |e: std::io::Error| Trouble::usage(format!("can't read {name}: {e}"));
    // Opening a pipe would wait for its other end, and a device may never end.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() && path != Path::new("/dev/null") {
        return Err(Trouble::usage(format!("can't read {name}: it is no regular file")));
    }
    let open = std::fs::File::open(path).map_err(unreadable)?;
    stored::read(std::io::BufReader::new(open)).map_err(|e| match e {
        Unreadable::Line { line, why } => Trouble::usage(format!("{name}:{line}: {why}")),
        Unreadable::Io(e) => unreadable(e),
    })
}
