//! What is read from files.

use sparring::judge::stored;
use sparring::record::script::Made;
use sparring_mock_servers::script::ServerScript;
use sparring_scenarios::{lint, load};
use sparring_wire::transcript::What;
use std::borrow::Cow;

/// What can be read can be written and read again; what is cut at any byte is not taken for whole.
pub(crate) fn transcript(bytes: &[u8]) {
    let Ok(read) = stored::read(bytes) else { return };
    let mut text = Vec::new();
    for event in &read.events {
        serde_json::to_writer(&mut text, event).unwrap();
        text.push(b'\n');
    }
    let again = stored::read(&text[..]).unwrap();
    assert_eq!(again.events, read.events);
    if read.incomplete.is_none() && !read.events.is_empty() {
        assert_eq!(again.incomplete, None);
        assert!(matches!(read.events.last().map(|event| &event.what), Some(What::End)));
        let cut = stored::read(&text[..text.len() - 2]).unwrap();
        assert!(cut.incomplete.is_some());
    }
}

/// A script that can be read survives JSON, and YAML as the recorder writes it.
pub(crate) fn script(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(script) = load::parse_script("fuzz.yaml", text) else { return };
    // As JSON, where two ways to write a thing are one.
    let as_json = |script: &ServerScript| serde_json::to_value(script).unwrap();
    let json = as_json(&script);
    let back: ServerScript = serde_json::from_value(json.clone()).unwrap_or_else(|e| panic!("{e}: {json}"));
    assert_eq!(json, as_json(&back));
    let yaml = Made { script, revision: None, left_out: Vec::new() }.yaml().unwrap();
    match load::parse_script("again.yaml", &yaml) {
        Ok(back) => assert_eq!(json, as_json(&back), "{yaml}"),
        Err(wrong) => panic!("{}\n{yaml}", wrong.render(false)),
    }
}

/// Whatever can be read can be linted, and what is wrong can be shown.
pub(crate) fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match load::parse("fuzz.yaml".to_owned(), "fuzz.yaml".to_owned(), Cow::Owned(text.to_owned())) {
        Ok(loaded) => {
            let scenario = &loaded.scenario;
            assert_eq!(scenario.labels().len(), scenario.drive.len());
            for wrong in lint::lint(&[loaded]) {
                assert!(!wrong.render(false).is_empty());
            }
        }
        Err(wrong) => assert!(!wrong.render(true).is_empty()),
    }
}
