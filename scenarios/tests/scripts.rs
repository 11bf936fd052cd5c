//! The scripts that come with the product can be read.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::path::{Path, PathBuf};

fn scripts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scripts(&path, found);
        } else if path.extension().is_some_and(|e| e == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn every_script_can_be_read_and_says_what_it_is_for() {
    let mut found = Vec::new();
    scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts"), &mut found);
    assert!(!found.is_empty());
    for path in found {
        match sparring_scenarios::load::script(&path) {
            Ok(script) => assert!(script.description.is_some(), "{}: no description", path.display()),
            Err(wrong) => assert_eq!("", wrong.render(false)),
        }
    }
}
