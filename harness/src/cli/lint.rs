//! `sparring lint`.

use super::args::LintFormat;
use super::{Trouble, input, print};
use serde::Serialize;
use sparring_reports::model::exit_code;
use sparring_scenarios::code::Severity;
use sparring_scenarios::diagnostic::Diagnostic;
use sparring_scenarios::{lint, load};
use std::path::PathBuf;

/// The version of the JSON output.
const FORMAT_VERSION: u32 = 1;

/// The JSON output.
#[derive(Serialize)]
struct Document<'a> {
    format_version: u32,
    scenarios: usize,
    scripts: usize,
    diagnostics: &'a [Diagnostic],
}

pub(super) fn lint(paths: &[PathBuf], format: LintFormat) -> Result<u8, Trouble> {
    let mut scenarios = load::embedded().map_err(|d| input::diagnostics(&d))?;
    // The mutants are ours; what kills the checks of other people's scenarios is theirs to know.
    let mut found = lint::lint_mutants(&scenarios, &crate::mutants::names());
    let built_in = scenarios.len();
    let mut scripts = Vec::new();
    for path in paths {
        let inputs = load::inputs(path);
        scenarios.extend(inputs.scenarios);
        scripts.extend(inputs.scripts);
        found.extend(inputs.wrong);
    }
    found.extend(lint::lint(&scenarios));
    found.extend(lint::lint_scripts(&scripts));
    let own = scenarios.len() - built_in;
    let failed = found.iter().any(|d| d.severity == Severity::Error);
    if format == LintFormat::Json {
        let document = Document {
            format_version: FORMAT_VERSION,
            scenarios: own,
            scripts: scripts.len(),
            diagnostics: &found,
        };
        // It has string keys and whole numbers only: there is nothing to refuse.
        print(&serde_json::to_string_pretty(&document).unwrap_or_default())?;
        return Ok(if failed { exit_code::USAGE } else { exit_code::PASSED });
    }
    if failed {
        return Err(input::diagnostics(&found));
    }
    input::show(&found);
    let checks: usize = scenarios.iter().map(|l| l.scenario.judge.len()).sum();
    let said = match found.len() {
        0 => "nothing to complain of".to_owned(),
        1 => "1 warning".to_owned(),
        n => format!("{n} warnings"),
    };
    let of_scripts = match scripts.len() {
        0 => String::new(),
        1 => " and 1 script".to_owned(),
        n => format!(" and {n} scripts"),
    };
    print(&format!(
        "{built_in} built-in scenarios and {own} of your own{of_scripts}, {checks} checks: {said}"
    ))?;
    Ok(exit_code::PASSED)
}
