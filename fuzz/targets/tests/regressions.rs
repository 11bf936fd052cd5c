//! Replays what the fuzzer once found, and runs each target on some bytes that it could have begun with. Needs no fuzzer.

use sparring_fuzz_targets::{TARGETS, run, target};
use std::fs;
use std::path::Path;

fn fuzz() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn what_was_found_is_found_no_more() {
    for folder in fs::read_dir(fuzz().join("regressions")).unwrap() {
        let folder = folder.unwrap();
        if !folder.file_type().unwrap().is_dir() {
            continue;
        }
        let name = folder.file_name().into_string().unwrap();
        assert!(target(&name).is_some(), "there is no target {name}");
        for input in fs::read_dir(folder.path()).unwrap() {
            // The name of the input is in the message of a test that fails.
            let input = input.unwrap().path();
            println!("{}", input.display());
            run(&name, &fs::read(input).unwrap());
        }
    }
}

#[test]
fn every_target_has_a_program() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        let program = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(program.contains(&format!("\"{name}\"")), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name}");
    }
}

#[test]
fn bytes_without_a_pattern_break_nothing() {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33).to_le_bytes()[0]
    };
    for round in 0..60 {
        let bytes: Vec<u8> = (0..round * 7).map(|_| next()).collect();
        // Half of them with few values, which are more likely to mean something.
        let few: Vec<u8> = bytes.iter().map(|byte| byte % 12).collect();
        for (_, target) in TARGETS {
            target(&bytes);
            target(&few);
        }
    }
}
