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
use std::io::Read as _;
use std::path::Path;

/// What a server is called if nobody names it.
const SERVER: &str = "server";

pub(super) fn record(args: RecordArgs) -> Result<u8, Trouble> {
    if let Some(path) = &args.as_script {
        let transcript = args.out.as_deref().or(args.from.as_deref());
        if transcript.is_some_and(|transcript| same_file(transcript, path)) {
            let what = "--as-scenario: the script and the transcript can't be one file";
            return Err(Trouble::usage(format!("{what}: {}", path.display())));
        }
        not_other(path).map_err(|e| {
            let path = path.display();
            Trouble::new(exit_code::REPORT, format!("--as-scenario: can't write {path}: {e}"))
        })?;
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

/// Whether two paths lead to one file, be it there or not.
fn same_file(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| {
        path.canonicalize().ok().or_else(|| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Some(folder.unwrap_or_else(|| Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
        })
    };
    a == b || whole(a).is_some_and(|a| whole(b) == Some(a))
}

/// A file that is there is written over only if it is such a script, or empty.
fn not_other(path: &Path) -> std::io::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() > 0 => {}
        // Whether it can be written is asked elsewhere.
        _ => return Ok(()),
    }
    let mut begins = Vec::new();
    std::fs::File::open(path)?.take(256).read_to_end(&mut begins)?;
    let own = String::from_utf8_lossy(&begins)
        .lines()
        .next()
        .is_some_and(|line| line.starts_with("description:") && line.contains(script::RECORDED_BY));
    if own {
        return Ok(());
    }
    let what = "it is there already, and no script of a recording; move it, or choose another name";
    Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, what))
}

/// Writes the script, and says in words what became of it.
fn make_script(transcript: &Path, server: Option<&str>, to: &Path) -> Result<String, Trouble> {
    let Stored { events, incomplete } = run::read_transcript(transcript)?;
    let made = script::of(&events, server)
        .map_err(|e| Trouble::usage(format!("no script can be made of {}: {e}", transcript.display())))?;
    let text = made.yaml().map_err(|e| Trouble::new(exit_code::HARNESS_ERROR, e))?;
    if text.len() as u64 > sparring_scenarios::load::MAX_FILE {
        let what = "the script would be larger than 64 MiB, and could not be read again";
        return Err(Trouble::usage(format!("no script is made of {}: {what}", transcript.display())));
    }
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
