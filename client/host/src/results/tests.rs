use super::*;
use sparring_profiles::Profile;

fn mapper(change: impl FnOnce(&mut ResultsSettings)) -> ProfileResults {
    let mut settings = ResultsSettings::default();
    change(&mut settings);
    ProfileResults::new(settings)
}

fn of(host: &str) -> ProfileResults {
    ProfileResults::new(Profile::load(host).unwrap().settings().results)
}

fn mapped(mapper: &ProfileResults, json: Value) -> ModelResult {
    mapper.map(json, &BTreeMap::new()).unwrap()
}

fn parts(mapper: &ProfileResults, block: Value) -> Vec<Value> {
    let result = mapped(mapper, json!({"content": [block]}));
    result.content.iter().map(|part| serde_json::to_value(part).unwrap()).collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn images_in_each_way() {
    let image =
        json!({"type": "image", "data": "aGVsbG8=", "mimeType": "image/png", "annotations": {"priority": 1}});
    let with = |way| parts(&mapper(|r| r.image = way), image.clone());
    assert_eq!(with(Image::Image), [json!({"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"})]);
    assert_eq!(with(Image::Describe), [text("[image, image/png: 5 bytes]")]);
    assert_eq!(with(Image::Stub), [text(r#"{"type":"image","mimeType":"image/png","bytes":5}"#)]);
    assert_eq!(with(Image::Drop), [] as [Value; 0]);
    // Nobody can use this, and it does no harm.
    let broken = json!({"type": "image", "data": "%%%", "mimeType": "image/png"});
    assert_eq!(parts(&of("zut"), broken), [text("[image, image/png: not valid base64]")]);
    assert_eq!(
        parts(&of("zut"), json!({"type": "image"})),
        [text("[image, application/octet-stream: not valid base64]")]
    );
}

#[test]
fn large_images_are_no_text() {
    let data = "A".repeat(7_000_000);
    let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
    let result = mapped(&of("zut"), json!({"content": [text("a"), image, text("b")]}));
    assert_eq!(result.content.len(), 3);
    assert!(matches!(&result.content[1], Part::Image { data, .. } if data.len() == 7_000_000));
}

#[test]
fn embedded_resources_in_each_way() {
    let picture =
        json!({"type": "resource", "resource": {"uri": "x:p", "mimeType": "IMAGE/png", "blob": "aGVsbG8="}});
    assert_eq!(
        parts(&of("mouaif"), picture.clone()),
        [json!({"type": "image", "data": "aGVsbG8=", "mimeType": "IMAGE/png"})]
    );
    assert_eq!(
        parts(&mapper(|r| r.embedded_image = Image::Describe), picture),
        [text("[resource x:p, IMAGE/png: 5 bytes]")]
    );
    let words =
        json!({"type": "resource", "resource": {"uri": "x:t", "mimeType": "text/css", "text": "körper"}});
    let with = |way| parts(&mapper(|r| r.embedded_text = way), words.clone());
    assert_eq!(parts(&of("zut"), words.clone()), [text("körper")]);
    assert_eq!(with(EmbeddedText::Describe), [text("[resource x:t, text/css: 7 bytes]")]);
    assert_eq!(
        with(EmbeddedText::Stub),
        [text(r#"{"type":"resource","uri":"x:t","mimeType":"text/css","bytes":7}"#)]
    );
    assert_eq!(with(EmbeddedText::Drop), [] as [Value; 0]);
    let pdf = json!({"type": "resource", "resource": {"uri": "x:d", "mimeType": "application/pdf", "blob": "aGVsbG8="}});
    assert_eq!(
        parts(&of("mouaif"), pdf.clone()),
        [text(r#"{"type":"resource","uri":"x:d","mimeType":"application/pdf","bytes":5}"#)]
    );
    let with = |way| parts(&mapper(|r| r.embedded_blob = way), pdf.clone());
    assert_eq!(with(EmbeddedBlob::Keep), std::slice::from_ref(&pdf));
    assert_eq!(with(EmbeddedBlob::Describe), [text("[resource x:d, application/pdf: 5 bytes]")]);
    assert_eq!(with(EmbeddedBlob::Drop), [] as [Value; 0]);
    let neither = json!({"type": "resource", "resource": {"uri": "x:n"}});
    assert_eq!(parts(&of("zut"), neither), [text("[resource x:n without content]")]);
    assert_eq!(parts(&of("zut"), json!({"type": "resource"})), [text("[a resource without content]")]);
}

#[test]
fn links_audio_and_unknown_blocks() {
    let link = json!({"type": "resource_link", "uri": "x:l", "name": "log", "mimeType": "text/plain"});
    assert_eq!(parts(&of("zut"), link.clone()), [text("[link to resource x:l, log, text/plain]")]);
    assert_eq!(parts(&mapper(|_| {}), link.clone()), std::slice::from_ref(&link));
    assert_eq!(parts(&mapper(|r| r.resource_link = ResourceLink::Drop), link.clone()), [] as [Value; 0]);
    let fetching = mapper(|r| r.resource_link = ResourceLink::Fetch);
    let result = || json!({"content": [link.clone()]});
    assert_eq!(fetching.wants(&result()), ["x:l"]);
    assert_eq!(of("zut").wants(&result()), [] as [String; 0]);
    let read = BTreeMap::from([("x:l".to_owned(), json!({"contents": [{"uri": "x:l", "text": "line"}]}))]);
    assert_eq!(fetching.map(result(), &read).unwrap().content, [Part::Text { text: "line".into() }]);
    assert!(fetching.map(result(), &BTreeMap::new()).unwrap().text().starts_with("[link to resource x:l"));

    let sound = json!({"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"});
    assert_eq!(parts(&of("zut"), sound.clone()), [text("[audio, audio/wav: 5 bytes]")]);
    assert_eq!(parts(&mapper(|_| {}), sound.clone()), std::slice::from_ref(&sound));
    assert_eq!(parts(&mapper(|r| r.audio = Audio::Drop), sound), [] as [Value; 0]);

    let unknown = json!({"type": "hologram", "data": 1});
    assert_eq!(parts(&of("zut"), unknown.clone()), [unknown]);
    assert_eq!(parts(&of("zut"), json!({"type": "text"})), [text("[a text block without text]")]);
}

#[test]
fn structured_content_in_each_mode() {
    let s = json!({"a": 1});
    let only = json!({"structuredContent": s});
    let both = json!({"content": [text("t")], "structuredContent": s});
    let empty = json!({"content": [], "structuredContent": s});
    let cases = [
        (Structured::IfNoContent, [(0, true), (1, false), (0, true)]),
        (Structured::Prefer, [(0, true), (0, true), (0, true)]),
        (Structured::Both, [(0, true), (1, true), (0, true)]),
        (Structured::Ignore, [(0, false), (1, false), (0, false)]),
    ];
    for (mode, expected) in cases {
        for (json, (blocks, structured)) in [&only, &both, &empty].into_iter().zip(expected) {
            let result = mapped(&mapper(|r| r.structured = mode), json.clone());
            assert_eq!(
                (result.content.len(), result.structured.is_some()),
                (blocks, structured),
                "{mode:?} {json}"
            );
        }
    }
    let plain = mapped(&mapper(|r| r.structured = Structured::Prefer), json!({"content": [text("t")]}));
    assert_eq!(plain.content.len(), 1);
}

#[test]
fn tool_errors_in_each_mode() {
    let failed = json!({"content": [text("no such file")], "isError": true});
    let result = mapped(&of("zut"), failed.clone());
    assert!(result.is_error && result.text() == "no such file");
    assert!(!mapped(&mapper(|r| r.is_error = IsError::Text), failed.clone()).is_error);
    let raising = mapper(|r| r.is_error = IsError::Exception);
    let error = raising.map(failed, &BTreeMap::new()).unwrap_err();
    assert_eq!(error, HostError::ToolFailed("no such file".into()));
    assert!(mapped(&raising, json!({"content": [], "isError": false})).content.is_empty());
    assert!(mapped(&of("zut"), json!({"content": [], "isError": true})).is_error);
    // Only the exact `true` is an error.
    assert!(!mapped(&of("zut"), json!({"content": [], "isError": "true"})).is_error);
}

#[test]
fn limits_concern_results_and_reads() {
    let limited = mapper(|r| r.text_limit = Some([10, 20]));
    let result = mapped(&limited, json!({"content": [text(&"x".repeat(30))]}));
    assert!(result.text().contains("[cut: the text has 30 bytes]"));
    let mut read =
        ModelResult { content: vec![Part::Text { text: "x".repeat(30) }], ..ModelResult::default() };
    let unlimited_reads = mapper(|r| {
        r.text_limit = Some([10, 20]);
        r.limit_reads = false;
    });
    unlimited_reads.limit_read(&mut read);
    assert_eq!(read.text().len(), 30);
    limited.limit_read(&mut read);
    assert!(read.text().contains("[cut"));
}

#[test]
fn the_size_of_base64_is_that_of_what_it_stands_for() {
    let long = STANDARD.encode(vec![0; 10_000]);
    for (base64, size) in
        [("", Some(0)), ("aGVsbG8=", Some(5)), (&long, Some(10_000)), ("a", None), ("%", None)]
    {
        assert_eq!(decoded_len(base64), size);
    }
    assert_eq!(decoded_len(&format!("{}AAAA", STANDARD.encode(vec![0; 4 * 1024 / 4 * 3 - 1]))), None);
}
