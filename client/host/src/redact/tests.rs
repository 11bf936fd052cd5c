use super::*;
use proptest::prelude::*;
use sparring_profiles::Settings;

fn entry() -> ServerEntry {
    ServerEntry {
        name: "files".into(),
        env: BTreeMap::from([
            ("API_KEY".into(), "s3cr/t+v=l\"e".into()),
            ("DEBUG".into(), "1".into()),
            ("LEVEL".into(), "LEVEL".into()),
        ]),
        headers: BTreeMap::from([
            ("X-Team".into(), "blue-whale".into()),
            ("Authorization".into(), "Basic dXNlcjpwYXNz".into()),
        ]),
        args: vec!["--token=argument-value".into()],
        url: Some("https://ann:pa%20ss@host.test/mcp?key=query-value".into()),
        ..ServerEntry::default()
    }
}

fn redactor(removes: Option<&[Secret]>) -> Redactor {
    let mut settings = Settings::default().redaction;
    if let Some(removes) = removes {
        settings.removes = removes.to_vec();
    }
    let redactor = Redactor::new(&settings);
    redactor.learn(&entry());
    redactor
}

#[test]
fn control_sequences_are_gone() {
    let redactor = redactor(None);
    for (text, clean) in [
        ("a\u{1b}[31mred\u{1b}[0m", "ared"),
        ("\u{1b}]8;;https://evil.test/?q\u{7}link\u{1b}]8;;\u{7}", "link"),
        ("\u{1b}]0;title\u{1b}\\x", "x"),
        ("\u{1b}]0;no end\nnext", "\nnext"),
        ("\u{9b}2Ja\u{9d}0;t\u{9c}b", "ab"),
        ("\u{1b}Pq#1\u{1b}\\a", "a"),
        ("\u{1b}(Ba\u{1b}7b\u{1b}", "ab"),
        ("a\r\nb\tc\rd\u{8}\u{7f}\u{0}", "a\nb\tcd"),
        ("blue-\u{1b}[1mwhale", "***"),
        ("plain é", "plain é"),
    ] {
        assert_eq!(redactor.clean(text), clean, "{text:?}");
    }
    assert_eq!(
        Redactor::new(&RedactionSettings { removes: vec![], ..Settings::default().redaction })
            .clean("\u{1b}[1m"),
        "\u{1b}[1m"
    );
}

#[test]
fn urls_lose_user_and_query() {
    let redactor = redactor(None);
    for (text, clean) in [
        ("see https://u:p@h.test/a?b=c, please", "see https://***@h.test/a?***, please"),
        ("(http://h.test/x?y)", "(http://h.test/x?***)"),
        ("\"ws://u@h.test\"", "\"ws://***@h.test\""),
        ("https://h.test/a@b", "https://h.test/a@b"),
        ("https://h.test?x=https://u:p@i.test/", "https://h.test?***"),
        ("https://u:p@q@h.test/", "https://***@h.test/"),
        ("https://h.test/?", "https://h.test/?"),
        ("no :// url", "no :// url"),
        ("HTTPS://u:p@h.test", "HTTPS://***@h.test"),
    ] {
        assert_eq!(redactor.clean(text), clean, "{text:?}");
    }
}

#[test]
fn configured_values_are_gone_in_every_form_and_names_stay() {
    let redactor = redactor(None);
    for (text, clean) in [
        ("API_KEY is s3cr/t+v=l\"e!", "API_KEY is ***!"),
        ("s3cr%2Ft%2Bv%3Dl%22e", "***"),
        ("s3cr%2ft%2bv%3dl%22e", "***"),
        ("s3cr/t+v=l%22e", "***"),
        (r#"{"x":"s3cr/t+v=l\"e"}"#, r#"{"x":"***"}"#),
        ("X-Team: blue-whale", "X-Team: ***"),
        ("Basic dXNlcjpwYXNz and dXNlcjpwYXNz", "*** and ***"),
        ("Authorization: Bearer abcdef123456, or Bearer token", "Authorization: Bearer ***, or Bearer token"),
        ("pa ss and pa%20ss and query-value", "*** and *** and ***"),
        ("DEBUG=1 and 1 and DEBUG=12", "DEBUG=*** and 1 and DEBUG=12"),
        ("LEVEL", "LEVEL"),
        ("--token=argument-value", "--token=argument-value"),
    ] {
        assert_eq!(redactor.clean(text), clean, "{text:?}");
    }
    redactor.learn_value(Secret::Bearer, "token", "issued-later");
    assert_eq!(redactor.clean("issued-later"), "***");
    let shown = format!("{redactor:?}");
    assert!(!shown.contains("whale"), "{shown}");
}

#[test]
fn only_the_declared_kinds_are_removed() {
    let text = "blue-whale --token=argument-value https://u@h.test/?q Bearer abcdef123456";
    for (removes, clean) in [
        (vec![], text.to_owned()),
        (vec![Secret::Args], text.replace("--token=argument-value", "***")),
        (vec![Secret::Headers], text.replace("blue-whale", "***")),
        (vec![Secret::UrlUserinfo], text.replace("u@", "***@")),
        (vec![Secret::UrlQuery], text.replace("?q", "?***")),
        (vec![Secret::Bearer], text.replace("abcdef123456", "***")),
    ] {
        assert_eq!(redactor(Some(&removes)).clean(text), clean, "{removes:?}");
    }
}

#[test]
fn failures_are_cleaned_and_keep_their_kind() {
    let redactor = redactor(None);
    let error = Error::Protocol {
        code: -3,
        message: "blue-whale".into(),
        data: Some(json!({"X-Team": ["blue-whale"]})),
    };
    let cleaned = redactor.failure(HostError::Server { server: "files".into(), error: Box::new(error) });
    let expected =
        Error::Protocol { code: -3, message: "***".into(), data: Some(json!({"X-Team": ["***"]})) };
    assert_eq!(cleaned, HostError::Server { server: "files".into(), error: Box::new(expected) });
    let unset = HostError::UnsetVariable {
        server: "files".into(),
        field: "env.API_KEY".into(),
        variable: "V".into(),
    };
    assert_eq!(redactor.failure(unset.clone()), unset);
}

#[test]
fn an_entry_is_read_back_without_values() {
    let settings = Settings::default().redaction;
    let shown = shown(
        &ServerEntry { auth: Some(json!({"client_id": "c", "client_secret": "geheim"})), ..entry() },
        &settings,
    );
    let text = shown.to_string();
    for secret in ["s3cr", "whale", "dXNl", "pa%20ss", "query-value", "geheim"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    for name in ["API_KEY", "X-Team", "host.test/mcp", "--token=argument-value", "\"c\""] {
        assert!(text.contains(name), "{name} in {text}");
    }
}

proptest! {
    #[test]
    fn no_form_of_a_value_survives(
        value in "[!-~]{8,24}",
        before in "[a-z]{0,5}",
        after in "[a-z]{0,5}",
    ) {
        use base64::Engine as _;
        use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
        let redactor = Redactor::new(&Settings::default().redaction);
        redactor.learn_value(Secret::Env, "SECRET", &value);
        let all = format!("{before}{value}{after}");
        let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
        let texts = [value.clone(), all.clone(), form, STANDARD.encode(&value), STANDARD.encode(&all), URL_SAFE_NO_PAD.encode(&all)];
        for text in texts {
            let clean = redactor.clean(&text);
            // The middle of the value can't be read any more, in whatever form it stood.
            prop_assert!(clean.contains(REMOVED), "{text} became {clean}");
            prop_assert!(!clean.contains(&value));
        }
    }

    #[test]
    fn any_text_can_be_cleaned(text in any::<String>()) {
        let redactor = redactor(None);
        let clean = redactor.clean(&text);
        prop_assert_eq!(clean.contains('\u{1b}'), false);
    }
}
