//! `sparring record`.

use super::args::RecordArgs;
use super::{Trouble, error, print, run, runtime};
use crate::judge::stored::Stored;
use crate::record::journal::{self, Settings};
use crate::record::proxy::{self, Relay};
use crate::record::{script, stdio};
use crate::run::Stop;
use serde_json::json;
use sparring_reports::{file, model::exit_code};
use std::path::Path;

/// What a server is called if nobody names it.
const SERVER: &str = "server";

pub(super) fn record(args: RecordArgs) -> Result<u8, Trouble> {
    if let Some(path) = &args.as_script {
        file::probe("script", path).map_err(|e| Trouble::new(exit_code::REPORT, e))?;
    }
    if let (Some(from), Some(path)) = (&args.from, &args.as_script) {
        let notes = make_script(from, args.name.as_deref(), path)?;
        print(&notes)?;
        return Ok(exit_code::PASSED);
    }
    let out = args.out.as_deref().ok_or_else(|| Trouble::usage("--out is missing"))?;
    let unwritable = |e: std::io::Error| {
        Trouble::new(exit_code::REPORT, format!("--out: can't write {}: {e}", out.display()))
    };
    let out = journal::numbered(out).map_err(unwritable)?;
    match &args.url {
        Some(url) => record_http(url, &out, &args),
        None if args.command.is_empty() => {
            Err(Trouble::usage("what is to be recorded? Give a URL, or a command after `--`"))
        }
        None => Err(record_stdio(&out, &args)),
    }
}

/// Ends as the server does. Returns only if there was none to end like.
fn record_stdio(out: &Path, args: &RecordArgs) -> Trouble {
    let settings = stdio::Settings {
        command: args.command.clone(),
        out: out.to_owned(),
        server: args.name.clone().unwrap_or_else(|| SERVER.to_owned()),
        show_secrets: args.show_secrets,
    };
    let ended = match stdio::record(&settings) {
        Ok(ended) => ended,
        Err(failed) => return Trouble::new(failed.exit_code(), failed),
    };
    // stdout was the server's: what there is to say goes to stderr.
    if let Some(path) = &args.as_script {
        match make_script(out, Some(&settings.server), path) {
            Ok(notes) => super::print_to_stderr(&notes),
            Err(trouble) => error(&trouble.message),
        }
    }
    ended.mirror()
}

fn record_http(url: &str, out: &Path, args: &RecordArgs) -> Result<u8, Trouble> {
    let upstream = proxy::upstream(url).map_err(Trouble::usage)?;
    let settings = Settings {
        path: out.to_owned(),
        server: args.name.clone().unwrap_or_else(|| SERVER.to_owned()),
        show_secrets: args.show_secrets,
    };
    let runtime = runtime()?;
    runtime.block_on(async {
        let stop = Stop::on_signals();
        let relay = Relay::start(&upstream, args.port.unwrap_or_default(), settings).map_err(|e| {
            Trouble::new(exit_code::REPORT, format!("can't record to {}: {e}", out.display()))
        })?;
        let ready = json!({"ready": true, "url": relay.url(), "transcript": out.display().to_string()});
        print(&ready.to_string())?;
        stop.asked().await;
        relay
            .stop()
            .await
            .map_err(|e| Trouble::new(exit_code::REPORT, format!("can't finish {}: {e}", out.display())))
    })?;
    runtime.shutdown_background();
    if let Some(path) = &args.as_script {
        super::print_to_stderr(&make_script(out, args.name.as_deref(), path)?);
    }
    Ok(exit_code::PASSED)
}

/// Writes the script, and says in words what became of it.
fn make_script(transcript: &Path, server: Option<&str>, to: &Path) -> Result<String, Trouble> {
    let Stored { events, incomplete } = run::read_transcript(transcript)?;
    let made = script::of(&events, server)
        .map_err(|e| Trouble::usage(format!("no script can be made of {}: {e}", transcript.display())))?;
    let text = made.yaml().map_err(|e| Trouble::new(exit_code::HARNESS_ERROR, e))?;
    file::write("script", to, text.as_bytes()).map_err(|e| Trouble::new(exit_code::REPORT, e))?;
    let mut notes = format!("{}: {} rules", to.display(), made.script.rules.len());
    if let Some(revision) = made.revision {
        notes += &format!(", revision {revision}");
    }
    for left_out in &made.left_out {
        notes += &format!("\nnot played: {left_out}");
    }
    if let Some(why) = incomplete {
        notes += &format!("\nthe transcript is incomplete: {why}");
    }
    Ok(notes)
}
