//! The JSON report and its schema.

use crate::sample::{full, report};
use serde_json::{Value, json};
use sparring_reports::json::{ReadError, from_str, read, schema, schema_text, to_string, write};
use std::path::{Path, PathBuf};

#[test]
fn round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    for report in [report(Vec::new()), full()] {
        write(&report, &path).unwrap();
        assert_eq!(read(&path).unwrap(), report);
    }
}

#[test]
fn nothing_in_it_acts_on_a_terminal() {
    let mut report = full();
    let evil = "a\u{1b}[2J\u{9b}31m\u{7f}\u{202e}\u{e0041}\r\n漢";
    report.cases[0].about = evil.to_owned();
    let text = to_string(&report);
    assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text}");
    assert!(text.contains(r"a\u001b[2J\u009b31m\u007f\u202e\udb40\udc41\r\n漢"), "{text}");
    assert_eq!(from_str(&text, Path::new("x")).unwrap(), report, "and nothing is lost");
}

#[test]
fn other_versions_are_refused_clearly() {
    let mut value: Value = serde_json::from_str(&to_string(&full())).unwrap();
    value["format_version"] = json!(2);
    value["something_new"] = json!(true);
    let error = from_str(&value.to_string(), Path::new("new.json")).unwrap_err();
    assert!(matches!(error, ReadError::Version { found: 2, .. }));
    insta::assert_snapshot!(error, @"`new.json` has report format 2, and this program reads format 1; use the version of Sparring that wrote it, or a newer one");

    value["format_version"] = json!(0);
    let error = from_str(&value.to_string(), Path::new("old.json")).unwrap_err();
    insta::assert_snapshot!(error, @"`old.json` has report format 0, and this program reads format 1; run the client again to get a report in the present format");
}

#[test]
fn damage_is_named() {
    let text = to_string(&full());
    let cases = [
        ("", "EOF while parsing"),
        ("{}", "missing field `format_version`"),
        ("[]", "is not a Sparring report"),
        (&text[..text.len() / 2], "EOF while parsing"),
        (&text.replacen("\"seed\"", "\"sead\"", 1), "unknown field `sead`"),
        (&text.replacen("\"failed\"", "\"fialed\"", 1), "unknown variant `fialed`"),
    ];
    for (text, expected) in cases {
        let error = from_str(text, Path::new("some.json")).unwrap_err().to_string();
        assert!(error.starts_with("`some.json` is not a Sparring report: "), "{error}");
        assert!(error.contains(expected) && error.contains("line "), "{error}");
    }
    let error = read(Path::new("no/such/file.json")).unwrap_err().to_string();
    assert!(error.starts_with("can't read the report `no/such/file.json`: "), "{error}");
}

#[test]
fn reports_follow_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for report in [report(Vec::new()), full()] {
        let value: Value = serde_json::from_str(&to_string(&report)).unwrap();
        let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
    let good: Value = serde_json::from_str(&to_string(&full())).unwrap();
    for (pointer, wrong) in [
        ("/format_version", json!(2)),
        ("/conclusion", json!("great")),
        ("/cases/0/took_ms", json!(-1)),
        ("/cases/0", json!({})),
        ("/client/extra", json!(1)),
    ] {
        let mut bad = good.clone();
        match bad.pointer_mut(pointer) {
            Some(place) => *place = wrong,
            None => bad["client"]["extra"] = wrong,
        }
        assert!(!validator.is_valid(&bad), "{pointer}");
    }
}

/// The schema in the tree is what programs validate against. `SPARRING_BLESS=1 cargo test -p sparring-reports` writes
/// it anew.
#[test]
fn the_published_schema_is_up_to_date() {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "schema", "report.schema.json"].iter().collect();
    let now = schema_text();
    if std::env::var_os("SPARRING_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &now).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == now,
        "reports/schema/report.schema.json is out of date. If the format was meant to change, raise FORMAT_VERSION where \
         the change asks for it, and run `SPARRING_BLESS=1 cargo test -p sparring-reports`."
    );
}
