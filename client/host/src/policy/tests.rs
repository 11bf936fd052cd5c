use super::*;
use crate::error::HostError;
use serde_json::json;
use sparring_profiles::{BothHints, Profile};

fn tool(server: &str, raw: &str, annotations: Value) -> ModelTool {
    ModelTool {
        name: format!("mcp__{server}__{raw}"),
        server: Some(server.to_owned()),
        route: Route::Tool { server: server.to_owned(), tool: raw.to_owned() },
        title: None,
        description: None,
        input_schema: json!({"type": "object"}),
        output_schema: None,
        annotations: Some(annotations),
    }
}

fn settings(host: &str) -> PolicySettings {
    Profile::load(host).unwrap().settings().policy
}

fn book(rules: Value) -> RuleBook {
    let mut book = RuleBook::default();
    book.merge(&rules).unwrap();
    book
}

fn decide(
    settings: &PolicySettings,
    rules: &RuleBook,
    tool: &ModelTool,
    arguments: Value,
) -> (Layer, Decision) {
    let standing = Standing { settings, rules };
    let ruling = Layered.ruling(&standing, tool);
    let decision = Layered.decision(&standing, tool, &ruling, arguments.as_object().unwrap());
    (ruling.layer, decision)
}

#[test]
fn the_strongest_layer_that_speaks_wins() {
    let mouaif = settings("mouaif");
    let plain = tool("fs", "read", json!({}));
    let other = tool("fs", "write", json!({}));
    let mut rules = book(json!({}));
    assert_eq!(decide(&mouaif, &rules, &plain, json!({})), (Layer::Default, Decision::Ask));
    // The order in which rules come does not matter; a question is a decision and tightens a wider leave.
    for (rule, layer, decision) in [
        (json!({"app": "off"}), Layer::App, Decision::Off),
        (json!({"project": "allow"}), Layer::Project, Decision::Allow),
        (json!({"servers": {"fs": "ask"}}), Layer::Server, Decision::Ask),
        (json!({"tools": {"mcp__fs__read": {"mode": "allow"}}}), Layer::Tool, Decision::Allow),
    ] {
        rules.merge(&rule).unwrap();
        assert_eq!(decide(&mouaif, &rules, &plain, json!({})), (layer, decision), "{rule}");
    }
    assert_eq!(decide(&mouaif, &rules, &other, json!({})), (Layer::Server, Decision::Ask));
    for (rule, layer) in [
        (json!({"tools": {"mcp__fs__read": null}}), Layer::Server),
        (json!({"servers": {"fs": null}}), Layer::Project),
        (json!({"project": null}), Layer::App),
        (json!({"app": null}), Layer::Default),
    ] {
        rules.merge(&rule).unwrap();
        assert_eq!(decide(&mouaif, &rules, &plain, json!({})).0, layer, "{rule}");
    }
    assert_eq!(rules, RuleBook::default());
}

#[test]
fn rules_that_are_none_change_nothing() {
    let mut rules = book(json!({"app": "allow"}));
    let before = rules.clone();
    for wrong in [json!([]), json!({"tool": {}}), json!({"tools": []}), json!({"app": "ask", "project": 3})] {
        assert!(matches!(rules.merge(&wrong), Err(HostError::Config(_))), "{wrong}");
        assert_eq!(rules, before);
    }
}

#[test]
fn annotations_are_mapped_filter_hint_or_nothing() {
    let chaz = settings("chaz");
    let table = [
        (json!({"readOnlyHint": true}), "low", Layer::Annotations, Decision::Allow),
        (json!({"destructiveHint": true}), "high", Layer::Annotations, Decision::Ask),
        (json!({"readOnlyHint": true, "destructiveHint": true}), "high", Layer::Annotations, Decision::Ask),
        (json!({"readOnlyHint": true, "destructiveHint": false}), "low", Layer::Annotations, Decision::Allow),
        (json!({}), "medium", Layer::Default, Decision::Ask),
        (json!({"readOnlyHint": "true", "destructiveHint": 1}), "medium", Layer::Default, Decision::Ask),
        (json!({"readOnlyHint": false}), "medium", Layer::Default, Decision::Ask),
        (json!({"openWorldHint": true}), "medium", Layer::Default, Decision::Ask),
        (json!(true), "medium", Layer::Default, Decision::Ask),
    ];
    let rules = RuleBook::default();
    for (annotations, risk, layer, decision) in table {
        let tool = tool("a", "b", annotations.clone());
        let ruling = Layered.ruling(&Standing { settings: &chaz, rules: &rules }, &tool);
        assert_eq!(ruling.rule["risk"], risk, "{annotations}");
        assert_eq!(ruling.timeout(), Some(60.0));
        assert_eq!(decide(&chaz, &rules, &tool, json!({})), (layer, decision), "{annotations}");
    }
    let both = tool("a", "b", json!({"readOnlyHint": true, "destructiveHint": true}));
    let read_only = PolicySettings { both: BothHints::ReadOnly, ..chaz.clone() };
    assert_eq!(decide(&read_only, &rules, &both, json!({})).1, Decision::Allow);
    // The user's own rules are stronger than what a server says.
    let rules = book(json!({"servers": {"a": {"approval": "always"}}}));
    let harmless = tool("a", "b", json!({"readOnlyHint": true}));
    assert_eq!(decide(&chaz, &rules, &harmless, json!({})), (Layer::Server, Decision::Ask));
    for annotations in [Annotations::Hint, Annotations::Ignore] {
        let none = PolicySettings { annotations, ..chaz.clone() };
        assert_eq!(decide(&none, &RuleBook::default(), &harmless, json!({})).0, Layer::Default);
    }
}

#[test]
fn a_filter_offers_what_is_read_only_and_the_tools_of_resources() {
    let filter = PolicySettings { annotations: Annotations::Filter, ..settings("zut") };
    let rules = RuleBook::default();
    let standing = Standing { settings: &filter, rules: &rules };
    for (annotations, offered) in [
        (json!({"readOnlyHint": true}), true),
        (json!({"readOnlyHint": 1}), false),
        (json!({"readOnlyHint": "true"}), false),
        (json!({"destructiveHint": false}), false),
        (json!({}), false),
    ] {
        let withheld = Layered.withheld(&standing, &tool("a", "b", annotations.clone()));
        assert_eq!(withheld, (!offered).then_some(Withheld::NotReadOnly), "{annotations}");
    }
    for (route, offered) in [
        (Route::ListResources(None), true),
        (Route::ReadResource(None), true),
        (Route::Search, true),
        (Route::GetPrompt("a".into()), false),
    ] {
        let own = ModelTool { route, annotations: None, ..tool("a", "b", json!({})) };
        assert_eq!(Layered.withheld(&standing, &own).is_none(), offered, "{:?}", own.route);
    }
}

#[test]
fn approvals_ask_unless_they_say_otherwise() {
    let chaz = settings("chaz");
    let plain = tool("a", "b", json!({}));
    for (rule, decision) in [
        (json!({"approval": "never"}), Decision::Allow),
        (json!({"approval": "always"}), Decision::Ask),
        (json!({"approval": "unless_auto_approved"}), Decision::Ask),
        (json!({"approval": "nevver"}), Decision::Ask),
        (json!({"approval": true}), Decision::Ask),
        (json!({"risk": "low"}), Decision::Ask),
    ] {
        let rules = book(json!({"tools": {"mcp__a__*": rule}}));
        assert_eq!(decide(&chaz, &rules, &plain, json!({})), (Layer::Tool, decision), "{rules:?}");
    }
    let mut rules = book(json!({"auto_approve": ["mcp__a__*"]}));
    assert_eq!(decide(&chaz, &rules, &plain, json!({})).1, Decision::Allow);
    rules.merge(&json!({"tools": {"mcp__a__b": {"approval": "always"}}})).unwrap();
    assert_eq!(decide(&chaz, &rules, &plain, json!({})).1, Decision::Ask);
}

#[test]
fn an_exact_rule_beats_globs_and_the_longest_glob_the_others() {
    let rules =
        book(json!({"tools": {"*": "off", "mcp__a__*": "ask", "mcp__a__[": "off", "mcp__a__b": "allow"}}));
    let of = |name: &str| rules.tool(name).unwrap()["mode"].as_str().unwrap().to_owned();
    assert_eq!((of("mcp__a__b"), of("mcp__a__c"), of("x")), ("allow".into(), "ask".into(), "off".into()));
    assert_eq!(of("mcp__a__["), "off");
}

#[test]
fn modes_that_there_are_not_ask() {
    let mouaif = settings("mouaif");
    let plain = tool("fs", "read", json!({}));
    for (mode, decision) in [
        (json!("off"), Decision::Off),
        (json!("ask"), Decision::Ask),
        (json!("allowlist"), Decision::Ask),
        (json!("allow"), Decision::Allow),
        (json!("Allow"), Decision::Ask),
        (json!(1), Decision::Ask),
    ] {
        let rules = book(json!({"app": {"mode": mode}}));
        assert_eq!(decide(&mouaif, &rules, &plain, json!({})).1, decision, "{mode}");
        let withheld = Layered.withheld(&Standing { settings: &mouaif, rules: &rules }, &plain);
        assert_eq!(withheld.is_some(), decision == Decision::Off);
    }
    let few = PolicySettings { modes: vec![Mode::Ask], ..mouaif };
    assert_eq!(decide(&few, &book(json!({"app": "allow"})), &plain, json!({})).1, Decision::Ask);
}

#[test]
fn wrappers_obey_unless_the_host_says_otherwise() {
    let mouaif = settings("mouaif");
    let wrapper =
        ModelTool { route: Route::ReadResource(Some("fs".into())), ..tool("fs", "read", json!({})) };
    assert_eq!(decide(&mouaif, &RuleBook::default(), &wrapper, json!({})).1, Decision::Ask);
    let free = PolicySettings { wrappers_too: false, ..mouaif };
    assert_eq!(decide(&free, &RuleBook::default(), &wrapper, json!({})).1, Decision::Allow);
}

#[test]
fn patterns_match_the_name_and_the_first_string() {
    let mouaif = settings("mouaif");
    let read = tool("fs", "read", json!({}));
    let allowed = |pattern: &str, arguments: Value| {
        let rules = book(json!({"servers": {"fs": {"mode": "allowlist", "patterns": ["(", pattern]}}}));
        decide(&mouaif, &rules, &read, arguments).1 == Decision::Allow
    };
    let bare = "^mcp__fs__read$";
    let inside = "^mcp__fs__read src/.*$";
    for (pattern, arguments, expected) in [
        (bare, json!({}), true),
        (bare, json!({"n": 1}), true),
        (bare, json!({"path": "src/a"}), false),
        (inside, json!({"path": "src/a"}), true),
        (inside, json!({"n": 1, "path": "src/a"}), true),
        (inside, json!({"path": "etc/a", "other": "src/a"}), false),
        (inside, json!({"path": "src/a\n/etc"}), false),
        (inside, json!({"path": ["src/a"]}), false),
        (inside, json!({}), false),
        ("[", json!({}), false),
        ("(", json!({}), false),
        ("(a+)+$x", json!({"path": "a".repeat(5000)}), false),
        ("a{100000}{100000}", json!({"path": "a"}), false),
    ] {
        assert_eq!(allowed(pattern, arguments.clone()), expected, "{pattern} {arguments}");
    }
}

#[test]
fn sessions_have_what_is_allowed_and_not_switched_off() {
    let a = tool("a", "x", json!({}));
    let b = tool("b", "x", json!({}));
    let own = ModelTool { name: "own".into(), server: None, route: Route::Search, ..a.clone() };
    let set = |allowed: Option<&[&str]>, tools: &[&str], servers: &[&str]| Visible {
        allowed: allowed.map(|names| names.iter().copied().collect()),
        tools_off: tools.iter().copied().collect(),
        servers_off: servers.iter().copied().collect(),
    };
    for (visible, expected) in [
        (set(None, &[], &[]), [true, true, true]),
        (set(Some(&[]), &[], &[]), [false, false, false]),
        (set(Some(&["mcp"]), &[], &[]), [true, true, false]),
        (set(Some(&["mcp__a__*"]), &[], &[]), [true, false, false]),
        (set(Some(&["mcp__b__x", "own"]), &[], &[]), [false, true, true]),
        (set(None, &["mcp__a__x"], &[]), [false, true, true]),
        (set(None, &[], &["b"]), [true, false, true]),
        (set(Some(&["mcp"]), &[], &["b"]), [true, false, false]),
    ] {
        let seen = [&a, &b, &own].map(|tool| visible.withheld(tool, false).is_none());
        assert_eq!(seen, expected, "{visible:?}");
        assert_eq!(visible.withheld(&own, true), None);
    }
    assert!(matches!(Withheld::SwitchedOff.refusal("x"), HostError::Disabled(..)));
    assert!(matches!(Withheld::NotAllowed.refusal("x"), HostError::Denied { .. }));
}

#[test]
fn the_file_of_a_project_keeps_what_it_holds_besides() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".mcp.json");
    let servers = json!({"servers": {"b": {"command": "x"}, "a": {}}});
    std::fs::write(&path, servers.to_string()).unwrap();
    let file = RuleFile::new(&path, 0o600);
    let allow = Some(Rule::from_iter([("mode".to_owned(), Value::from("allow"))]));
    for scope in [Scope::Tool("mcp__a__b".into()), Scope::Server("a".into()), Scope::Project] {
        file.save(&Change { scope, rule: allow.clone() }).unwrap();
    }
    let written: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(written["servers"], servers["servers"]);
    assert_eq!(
        written["authorization"],
        json!({"tools": {"mcp__a__b": {"mode": "allow"}}, "servers": {"a": {"mode": "allow"}}, "mode": "allow"})
    );
    let mut rules = RuleBook::default();
    file.load(&mut rules).unwrap();
    assert_eq!(
        (rules.tool("mcp__a__b"), rules.server("a"), rules.project()),
        (allow.as_ref(), allow.as_ref(), allow.as_ref())
    );
    file.save(&Change { scope: Scope::Tool("mcp__a__b".into()), rule: None }).unwrap();
    let mut rules = RuleBook::default();
    file.load(&mut rules).unwrap();
    assert_eq!(rules.tool("mcp__a__b"), None);
    assert!(file.save(&Change { scope: Scope::App, rule: None }).is_err());
    RuleFile::new(folder.path().join("none"), 0o600).load(&mut rules).unwrap();
    std::fs::write(&path, "{").unwrap();
    assert!(matches!(file.load(&mut rules), Err(HostError::Config(text)) if text.contains(".mcp.json")));
}

fn question(tool: &str) -> Question {
    Question { tool: tool.into(), server: None, arguments: Map::new(), rule: Rule::new() }
}

#[tokio::test]
async fn a_call_waits_for_its_answer() {
    let approvals = Approvals::waiting();
    let (first, second, answered) = tokio::join!(biased;
        approvals.ask(question("a")),
        approvals.ask(question("b")),
        async {
            assert_eq!(approvals.pending().len(), 2);
            assert!(matches!(approvals.answer(Some("c"), Answer::Approve), Err(HostError::Refused(_))));
            approvals.answer_now_or_next(Some("c"), Answer::Approve);
            approvals.answer(Some("b"), Answer::Deny("no".into())).unwrap();
            approvals.answer(None, Answer::Always).unwrap()
        }
    );
    assert_eq!((first, second, answered), (Answer::Always, Answer::Deny("no".into()), question("a")));
    assert_eq!(
        approvals.ask(question("c")).await,
        Answer::Approve,
        "the answer was there before the question"
    );
    approvals.answer_now_or_next(None, Answer::Deny("no".into()));
    approvals.forget();
    approvals.set_auto(true);
    assert_eq!(approvals.ask(question("a")).await, Answer::Approve);
}

#[tokio::test]
async fn a_call_that_is_given_up_no_longer_asks() {
    let approvals = Approvals::waiting();
    tokio::select! { biased;
        _ = approvals.ask(question("a")) => panic!("nobody answered"),
        () = async { assert_eq!(approvals.pending().len(), 1) } => {}
    }
    assert!(approvals.pending().is_empty());
}

#[tokio::test]
async fn gates_refuse_by_name() {
    let arguments = Map::new();
    let refuses = |names: &[&str]| {
        let refused = names.iter().copied().collect();
        let arguments = arguments.clone();
        async move {
            let call =
                GatedCall { tool: "mcp__a__b", server: Some("a"), arguments: &arguments, refused: &refused };
            NameGate.check(call).await.is_err()
        }
    };
    assert!(refuses(&["mcp__a__*"]).await && refuses(&["mcp"]).await);
    assert!(!refuses(&["x"]).await && !refuses(&[]).await);
}
