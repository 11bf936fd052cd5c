//! What a model answers.

use super::*;

fn script(json: Value) -> ServerScript {
    serde_json::from_value(json).unwrap()
}

fn answer(model: &Model, method: &str, params: Option<&Value>) -> Result<Value, RpcError> {
    match model.answer(model.speaks()[0], method, params, &Map::new())? {
        Reply::Result(result) => Ok(result),
        Reply::Ask(ask) => panic!("{ask:?}"),
    }
}

fn walk(model: &Model) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut params = json!({});
    while pages.len() < 6 {
        let page = answer(model, "tools/list", Some(&params)).unwrap();
        pages.push(
            page["tools"]
                .as_array()
                .unwrap()
                .iter()
                .map(|t| t["name"].as_str().unwrap().to_owned())
                .collect(),
        );
        match page.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    pages
}

#[test]
fn each_cursor_style_leads_through_all_pages_once() {
    for style in ["opaque", "empty-string", "numeric"] {
        let model = Model::new(
            &script(json!({"many_tools": 5, "page_size": 2, "cursors": style})),
            Revision::V2025_06_18,
        );
        assert_eq!(
            walk(&model),
            [vec!["tool-000", "tool-001"], vec!["tool-002", "tool-003"], vec!["tool-004"]],
            "{style}"
        );
        let error = answer(&model, "tools/list", Some(&json!({"cursor": "made up"}))).unwrap_err();
        assert_eq!(error.code, codes::INVALID_PARAMS);
    }
}

#[test]
fn the_repeated_cursor_never_ends() {
    let model = Model::new(
        &script(json!({"many_tools": 3, "page_size": 2, "cursors": "repeated"})),
        Revision::V2025_06_18,
    );
    let pages = walk(&model);
    assert_eq!(pages.len(), 6);
    assert!(pages[1..].iter().all(|p| p == &["tool-002"]));
}

#[test]
fn what_a_revision_lacks_is_left_out() {
    let text = script(json!({
        "tools": ["add", {"name": "t", "title": "T", "annotations": "{\"readOnlyHint\": true}", "output_schema": "{\"type\": \"object\"}"}],
    }));
    let keys = |revision| {
        let list = answer(&Model::new(&text, revision), "tools/list", None).unwrap();
        let keys: Vec<String> = list["tools"][1].as_object().unwrap().keys().cloned().collect();
        (list["tools"][0].get("outputSchema").is_some(), keys.join(" "))
    };
    assert_eq!(keys(Revision::V2024_11_05), (false, "name inputSchema".into()));
    assert_eq!(keys(Revision::V2025_03_26), (false, "name inputSchema annotations".into()));
    assert_eq!(keys(Revision::V2025_06_18), (true, "name title inputSchema outputSchema annotations".into()));
}

#[test]
fn methods_without_their_capability_do_not_exist() {
    let model = Model::new(&script(json!({"tools": ["echo"]})), Revision::V2025_06_18);
    assert_eq!(answer(&model, "prompts/list", None).unwrap_err().code, codes::METHOD_NOT_FOUND);
    assert_eq!(answer(&model, "tasks/list", None).unwrap_err().code, codes::METHOD_NOT_FOUND);
    assert!(answer(&model, "tools/list", None).is_ok());
}

#[test]
fn errors_have_their_codes() {
    let model = Model::new(
        &script(json!({
            "tools": ["echo"], "resources": [{"uri": "a://b/c"}], "templates": ["{\"name\":\"t\",\"uriTemplate\":\"t://{x}/y\"}"],
            "prompts": [{"name": "p", "arguments": "[{\"name\":\"x\",\"required\":true}]"}],
        })),
        Revision::V2025_06_18,
    );
    let code = |method: &str, params: Value| answer(&model, method, Some(&params)).map_err(|e| e.code);
    assert_eq!(code("tools/call", json!({"name": "no"})), Err(-32602));
    assert_eq!(code("tools/call", json!({"name": "echo", "arguments": []})), Err(-32602));
    assert_eq!(code("resources/read", json!({"uri": "a://no"})), Err(-32002));
    assert_eq!(code("resources/subscribe", json!({"uri": "a://no"})), Err(-32002));
    assert_eq!(code("resources/read", json!({"uri": "t:///y"})), Err(-32002));
    assert!(code("resources/read", json!({"uri": "t://1/y"})).is_ok());
    assert_eq!(code("prompts/get", json!({"name": "p"})), Err(-32602));
    assert!(code("prompts/get", json!({"name": "p", "arguments": {"x": "1"}})).is_ok());
    assert_eq!(code("logging/setLevel", json!({"level": "loud"})), Err(-32602));
    assert_eq!(code("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "q"}})), Err(-32602));
}
