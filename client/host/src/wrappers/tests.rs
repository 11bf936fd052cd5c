use super::*;
use sparring_profiles::Profile;

fn of(host: &str) -> ProfileWrappers {
    ProfileWrappers::new(Profile::load(host).unwrap().settings().wrappers)
}

fn entry(json: Value) -> Entry {
    let key = ["uri", "uriTemplate", "name"].iter().find_map(|key| json.get(key)?.as_str());
    Entry { key: key.unwrap().to_owned(), json }
}

fn servers() -> Vec<Advertised> {
    let server = |server: &str, resources, prompts| Advertised { server: server.into(), resources, prompts };
    vec![server("a", true, false), server("b", true, true), server("c", false, false)]
}

fn names(wrappers: &ProfileWrappers, servers: &[Advertised]) -> Vec<(String, Option<String>)> {
    wrappers.tools(servers).into_iter().map(|(_, tool)| (tool.name, tool.server)).collect()
}

#[test]
fn wrappers_appear_with_the_capability() {
    let own = |name: &str, server: &str| (format!("{{server}}__{name}"), Some(server.to_owned()));
    let chaz = of("chaz");
    assert_eq!(
        names(&chaz, &servers()),
        [
            own("list_resources", "a"),
            own("list_resources", "b"),
            own("read_resource", "a"),
            own("read_resource", "b"),
            own("list_prompts", "b"),
            own("get_prompt", "b"),
        ]
    );
    let zut = of("zut");
    let shared = |name: &str| (name.to_owned(), None);
    assert_eq!(names(&zut, &servers()), [shared("mcp_list_resources"), shared("mcp_read_resource")]);
    assert_eq!(names(&zut, &servers()[2..]), []);
    assert_eq!(names(&of("mouaif"), &servers()), []);
    let always = ProfileWrappers::new(WrappersSettings { only_advertised: false, ..chaz.settings });
    assert_eq!(always.tools(&servers()[2..]).len(), 4);
}

#[test]
fn wrappers_have_schemas_and_routes() {
    let tools = of("chaz").tools(&servers()[1..2]);
    let (claim, read) = &tools[1];
    assert_eq!(claim, &Claim::Wrapper { server: "b".into(), template: "{server}__read_resource".into() });
    assert_eq!(read.route, Route::ReadResource(Some("b".into())));
    assert_eq!(read.input_schema["required"], json!(["uri"]));
    assert_eq!(read.input_schema["properties"].get(SERVER), None);
    assert_eq!(tools[3].1.input_schema["additionalProperties"], json!(true));
    let shared = of("zut").tools(&servers());
    assert_eq!(shared[1].0, Claim::Own("mcp_read_resource".into()));
    assert_eq!(shared[1].1.route, Route::ReadResource(None));
    assert!(shared[1].1.input_schema["properties"].get(SERVER).is_some());
    assert_eq!(shared[1].1.input_schema["required"], json!(["uri"]));
}

#[test]
fn resources_are_listed_with_what_is_known_of_them() {
    let list = |server: &str, resources: Vec<Value>| ResourceList {
        server: server.into(),
        resources: resources.into_iter().map(entry).collect(),
        templates: Vec::new(),
    };
    let one = list(
        "a",
        vec![json!({"uri": "x:1", "name": "One", "mimeType": "text/plain", "description": "a\nb"})],
    );
    assert_eq!(of("chaz").resources(std::slice::from_ref(&one)).text(), "x:1, One, text/plain: a b");
    let mut two = list("b", vec![json!({"uri": "x:2"})]);
    two.templates = vec![entry(json!({"uriTemplate": "x:{n}", "name": "any"}))];
    assert_eq!(
        of("zut").resources(&[one, two]).text(),
        "# a\nx:1, One, text/plain: a b\n# b\nx:2\nx:{n}, any"
    );
    assert_eq!(of("zut").resources(&[]).text(), "There are no resources.");
}

#[test]
fn reads_join_texts_and_stand_in_for_blobs() {
    let blob = |base64: &str| json!({"uri": "x:b", "mimeType": "image/png", "blob": base64});
    let thousand = "A".repeat(1332) + "AA==";
    let cases = [
        (json!([{"text": "one"}, {"text": "two"}, {"text": "three"}]), "one\ntwo\nthree"),
        (json!([{"text": "a"}, blob(&thousand), {"text": "b"}]), "a\n[binary image/png: ~1000 bytes]\nb"),
        (json!([blob("")]), "[binary image/png: ~0 bytes]"),
        (json!([{"blob": "aGVsbG8="}]), "[binary application/octet-stream: ~5 bytes]"),
        (json!([blob("%%%%")]), "[binary image/png: ~3 bytes]"),
        (json!([]), ""),
        (json!([{"uri": "x"}, 3]), ""),
        (json!("odd"), ""),
    ];
    for (contents, expected) in cases {
        assert_eq!(of("chaz").read(&json!({"contents": contents})).text(), expected);
    }
    let first = ProfileWrappers::new(WrappersSettings { read_joins_text: false, ..of("chaz").settings });
    assert_eq!(first.read(&json!({"contents": [{"text": "one"}, {"text": "two"}]})).text(), "one");
}

#[test]
fn prompts_are_listed_with_marks() {
    let review = json!({"name": "review", "description": "Reviews.", "arguments":
        [{"name": "path", "required": true}, {"name": "style", "required": false}, {"name": "x"}, {"title": "odd"}]});
    let listed = of("chaz").prompts(&[entry(review), entry(json!({"name": "bare"}))]);
    assert_eq!(listed.text(), "review(path*, style, x): Reviews.\nbare()");
    assert_eq!(of("chaz").prompts(&[]).text(), "There are no prompts.");
}

#[test]
fn a_prompt_is_one_block_of_lines() {
    let result = json!({"messages": [
        {"role": "user", "content": {"type": "text", "text": "Do {role}."}},
        {"role": "assistant", "content": {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}},
        {"role": "user", "content": [{"type": "resource", "resource": {"uri": "x:1", "text": "body"}},
            {"type": "resource_link", "uri": "x:2"}]},
        {"content": 3},
    ]});
    let block = of("chaz").prompt(&result);
    assert_eq!(block.content.len(), 1);
    assert_eq!(
        block.text(),
        "[user] Do {role}.\n[assistant] [binary image/png: ~5 bytes]\n[user] body\n[link to resource x:2]\n[unknown] "
    );
}

#[test]
fn the_server_that_a_call_concerns() {
    let both = ["a".to_owned(), "b".to_owned()];
    let arguments = |json: Value| json.as_object().unwrap().clone();
    let (none, named) = (arguments(json!({})), arguments(json!({"server": "b"})));
    assert_eq!(concerned(Some("c"), &named, &both), Ok("c"));
    assert_eq!(concerned(None, &named, &both), Ok("b"));
    assert_eq!(concerned(None, &none, &both[..1]), Ok("a"));
    assert_eq!(concerned(None, &named, &both[..1]), Err(HostError::NoServer("b".into())));
    let error = concerned(None, &none, &both).unwrap_err().to_string();
    assert!(error.contains("one of a, b"), "{error}");
    assert!(concerned(None, &arguments(json!({"server": 3})), &both).is_err());
}
