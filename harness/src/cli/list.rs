//! `sparring list` and `sparring lint`.

use super::args::Selection;
use super::{Trouble, input, print, runtime};
use sparring_reports::model::exit_code;
use sparring_scenarios::{lint, load};
use std::path::PathBuf;

pub(super) fn list(selection: &Selection) -> Result<u8, Trouble> {
    let filter = input::filter(selection)?;
    let session = runtime()?.block_on(input::session(selection))?;
    let planned = session.plan(&filter).map_err(|e| input::plan_trouble(&e))?;
    let mut text = String::new();
    let mut run = 0;
    for planned in &planned {
        text += &planned.case.id;
        match &planned.skip {
            Some((verdict, reason)) => text += &format!("  {}: {reason}", verdict.word()),
            None => run += 1,
        }
        text.push('\n');
    }
    text += &format!("{run} cases to run, {} left out\n", planned.len() - run);
    print(&text)?;
    Ok(if run == 0 { exit_code::NOTHING_RAN } else { exit_code::PASSED })
}

pub(super) fn lint(paths: &[PathBuf]) -> Result<u8, Trouble> {
    let mut loaded = load::embedded().map_err(|d| input::diagnostics(&d))?;
    // The mutants are ours; what kills the checks of other people's scenarios is theirs to know.
    let mut wrong = lint::lint_mutants(&loaded, &crate::mutants::names());
    let built_in = loaded.len();
    for path in paths {
        match load::load(path) {
            Ok(more) => loaded.extend(more),
            Err(diagnostics) => wrong.extend(diagnostics),
        }
    }
    wrong.extend(lint::lint(&loaded));
    if !wrong.is_empty() {
        return Err(input::diagnostics(&wrong));
    }
    let own = loaded.len() - built_in;
    let checks: usize = loaded.iter().map(|l| l.scenario.judge.len()).sum();
    print(&format!(
        "{built_in} built-in scenarios and {own} of your own, {checks} checks: nothing to complain of"
    ))?;
    Ok(exit_code::PASSED)
}
