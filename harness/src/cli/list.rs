//! `sparring list`.

use super::args::Selection;
use super::{Trouble, input, print, runtime};
use sparring_reports::model::exit_code;

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
