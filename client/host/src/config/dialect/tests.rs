use super::*;
use crate::entry::Kind;
use serde_json::json;
use sparring_profiles::{Format, Profile};
use std::path::Path;

fn settings(host: &str) -> ConfigSettings {
    Profile::load(host).unwrap().settings().config
}

fn read_as(settings: &ConfigSettings, name: &str, text: &str) -> Result<Loaded, String> {
    let format = Document::format_of(Path::new(name), Format::Json);
    let document = Document::parse(Path::new(name), format, text.to_owned()).unwrap();
    let mut loaded = Loaded::default();
    let read = Dialect::new(settings).read(&document, &Source::default(), &mut loaded);
    read.map(|()| loaded).map_err(|error| error.to_string())
}

fn read(host: &str, name: &str, text: &str) -> Loaded {
    read_as(&settings(host), name, text).unwrap()
}

/// Name, transport, and what it is reached by.
fn shown(loaded: &Loaded) -> Vec<(String, Option<Kind>, String)> {
    let target = |e: &ServerEntry| e.url.clone().or_else(|| e.command.clone()).unwrap_or_default();
    loaded.entries.iter().map(|e| (e.name.clone(), e.transport(), target(e))).collect()
}

fn stdio_and_http() -> Vec<(String, Option<Kind>, String)> {
    vec![("a".into(), Some(Kind::Stdio), "srv".into()), ("b".into(), Some(Kind::Http), "http://h/mcp".into())]
}

#[test]
fn every_shape_and_spelling_of_the_hosts() {
    let cases = [
        ("chaz", "c.yaml", "mcp_servers:\n- name: a\n  command: srv\n- name: b\n  url: http://h/mcp\n"),
        ("zut", "c.json", r#"{"mcpServers": {"a": {"command": "srv"}, "b": {"url": "http://h/mcp"}}}"#),
        (
            "zut",
            "c.json",
            r#"{"mcpServers": {"a": {"command": "srv", "type": "stdio"},
            "b": {"url": "http://h/mcp", "type": "streamable-http"}}}"#,
        ),
        (
            "zut",
            "c.json",
            r#"{"mcpServers": {"a": {"command": "srv", "transport": "stdio"},
            "b": {"url": "http://h/mcp", "transport": "http"}}}"#,
        ),
        (
            "mewbo",
            "c.json",
            r#"{"servers": {"a": {"command": ["srv"], "transport": "stdio"},
            "b": {"url": "http://h/mcp", "transport": "streamable_http"}}}"#,
        ),
        (
            "mewbo",
            "c.json",
            r#"{"mcpServers": {"a": {"command": ["srv"], "transport": "stdio"},
            "b": {"url": "http://h/mcp", "transport": "streamable_http"}}}"#,
        ),
        (
            "mewbo",
            "c.json",
            r#"{"mcpServers": {"b": {"url": "http://h/mcp"}},
            "servers": {"a": {"command": ["srv"]}}}"#,
        ),
        (
            "mouaif",
            "c.json",
            r#"{"servers": {"a": {"command": "srv", "transport": "stdio"},
            "b": {"url": "http://h/mcp", "transport": "http"}}}"#,
        ),
        (
            "mouaif",
            "c.json",
            r#"{"mcp": {"servers": {"a": {"command": "srv"}, "b": {"url": "http://h/mcp"}}}}"#,
        ),
        ("zidane", "c.json", r#"{"mcpServers": {"a": {"command": "srv"}, "b": {"url": "http://h/mcp"}}}"#),
        (
            "zidane",
            "c.json",
            r#"{"mcpServers": [{"name": "a", "command": "srv", "transport": "stdio"},
            {"name": "b", "httpUrl": "http://h/mcp", "type": "streamable-http"}]}"#,
        ),
        ("zidane", "c.json", r#"[{"name": "a", "command": "srv"}, {"name": "b", "url": "http://h/mcp"}]"#),
        (
            "reference",
            "c.toml",
            "[mcpServers.a]\ncommand = \"srv\"\n[mcpServers.b]\nurl = \"http://h/mcp\"\n",
        ),
    ];
    for (host, name, text) in cases {
        let loaded = read(host, name, text);
        assert_eq!(loaded.faults, [], "{host}: {text}");
        assert_eq!(shown(&loaded), stdio_and_http(), "{host}: {text}");
    }
}

#[test]
fn what_a_host_does_not_read_it_refuses() {
    let error = read_as(&settings("zut"), "c.json", "{\n \"mcpServers\": []}").unwrap_err();
    assert_eq!(error, "c.json:2:16: `mcpServers` is a map of servers by name");
    let error = read_as(&settings("chaz"), "c.yaml", "mcp_servers: {a: {command: b}}").unwrap_err();
    assert_eq!(error, "c.yaml: `mcp_servers` is a list of servers");
    let error = read_as(&settings("zidane"), "c.json", "{\"mcpServers\": 3}").unwrap_err();
    assert!(error.contains("a list of servers, or a map of servers by name"), "{error}");
    // Nothing of ours is nothing.
    assert_eq!(read("zut", "c.json", "{\"servers\": {\"a\": {\"command\": \"b\"}}}"), Loaded::default());
    assert_eq!(read("zut", "c.json", ""), Loaded::default());
    assert_eq!(read("zut", "c.json", "{\"mcpServers\": null}"), Loaded::default());
}

#[test]
fn mistakes_in_entries_name_file_place_and_field_and_no_value() {
    let cases = [
        (r#"{"command": 3}"#, "c.json:3:19: `mcpServers.a.command`: should be a string"),
        (
            r#"{"command": "x", "args": "s3cret"}"#,
            "c.json:3:32: `mcpServers.a.args`: should be a list of strings",
        ),
        (
            r#"{"command": "x", "args": ["y", 1]}"#,
            "c.json:3:38: `mcpServers.a.args[1]`: should be a string; quote it",
        ),
        (
            r#"{"command": "x", "env": {"K": 5}}"#,
            "c.json:3:37: `mcpServers.a.env.K`: should be a string; quote it",
        ),
        (r#"{"command": "x", "env": []}"#, "c.json:3:31: `mcpServers.a.env`: should be a map to strings"),
        (
            r#"{"command": "x", "type": "pipe"}"#,
            "c.json:3:32: `mcpServers.a.type`: \"pipe\" is no transport here; known are stdio, http, streamable-http",
        ),
        (
            r#"{"command": "x", "startupTimeoutSec": 0}"#,
            "c.json:3:45: `mcpServers.a.startupTimeoutSec`: should be a number of seconds, above zero",
        ),
        (
            r#"{"command": "x", "enabled": "no"}"#,
            "c.json:3:35: `mcpServers.a.enabled`: should be true or false",
        ),
        (r#"{}"#, "c.json:3:7: `mcpServers.a`: it has neither `command` nor `url`"),
        (r#"{"command": ""}"#, "c.json:3:7: `mcpServers.a`: `command` is empty"),
        (r#"{"type": "http", "command": "x"}"#, "c.json:3:7: `mcpServers.a`: `url` is missing"),
        (r#"{"type": "stdio", "url": "x"}"#, "c.json:3:7: `mcpServers.a`: `command` is missing"),
        (r#""s3cret""#, "c.json:3:7: `mcpServers.a`: should be a map of fields"),
    ];
    for (entry, message) in cases {
        let loaded = read(
            "zut",
            "c.json",
            &format!("{{\n\"mcpServers\": {{\n \"a\": {entry},\n \"b\": {{\"command\": \"srv\"}}}}}}"),
        );
        assert_eq!(loaded.faults, [Fault { server: "a".into(), message: message.into() }]);
        // The others work.
        assert_eq!(shown(&loaded).len(), 1);
    }
    let listed = read(
        "chaz",
        "c.yaml",
        "mcp_servers:\n- command: x\n- name: a\n  command: x\n- {name: a, command: y}\n",
    );
    let messages: Vec<(&str, &str)> =
        listed.faults.iter().map(|f| (f.server.as_str(), f.message.as_str())).collect();
    assert_eq!(
        messages,
        [
            ("number 1", "c.yaml: `mcp_servers[0]`: the server has no `name`"),
            ("a", "c.yaml: `mcp_servers[2]`: there is a server \"a\" in this file already"),
        ]
    );
}

#[test]
fn a_command_and_a_url() {
    let both = r#"{"mcpServers": {"a": {"command": "x", "args": ["y"], "url": "http://h"}}}"#;
    let mut wins = settings("zut");
    wins.both = BothTargets::UrlWins;
    let entry = read_as(&wins, "c.json", both).unwrap().entries.remove(0);
    assert_eq!(entry.transport(), Some(Kind::Http));
    assert_eq!((entry.command, entry.args), (None, Vec::new()));
    let explicit = both.replace("{\"command\"", "{\"type\": \"stdio\", \"command\"");
    assert_eq!(read_as(&wins, "c.json", &explicit).unwrap().entries[0].transport(), Some(Kind::Http));
    let refused = read("zut", "c.json", both);
    assert!(refused.faults[0].message.contains("a command and a URL"), "{:?}", refused.faults);
    // What is switched off may be anything.
    let off = both.replace("{\"command\"", "{\"enabled\": false, \"command\"");
    assert_eq!(read("zut", "c.json", &off).faults, []);
}

#[test]
fn a_transport_that_is_not_inferred_has_to_be_there() {
    let mut strict = settings("zut");
    strict.infers_type = false;
    let loaded = read_as(&strict, "c.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#).unwrap();
    assert!(loaded.faults[0].message.ends_with("`type` is missing, one of stdio, http, streamable-http"));
}

#[test]
fn all_fields_are_read() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["", "b c", "\"", "\\"], "env": {"K": "v"},
        "envVars": ["P"], "strictEnv": true, "cwd": "d", "enabled": true, "required": true,
        "enabledTools": [], "disabledTools": ["t"], "startupTimeoutSec": 1.5, "toolTimeoutSec": 9,
        "toolTimeouts": {"t": 3}, "disclosure": "lazy", "cachedTools": {"tools": [{"name": "t"}]},
        "lazyConnect": true, "shared": false, "auth": "oauth", "policy": {"risk": "low"}, "unknown": [1]}}}"#;
    let entry = read("reference", "c.json", text).entries.remove(0);
    let expected = ServerEntry {
        name: "a".into(),
        command: Some("x".into()),
        args: ["", "b c", "\"", "\\"].map(str::to_owned).to_vec(),
        env: BTreeMap::from([("K".into(), "v".into())]),
        env_pass: vec!["P".into()],
        strict_env: true,
        cwd: Some("d".into()),
        enabled: Some(true),
        required: true,
        allow: Some(Vec::new()),
        deny: vec!["t".into()],
        startup_timeout: Some(1.5),
        tool_timeout: Some(9.0),
        per_tool_timeout: BTreeMap::from([("t".into(), 3.0)]),
        disclosure: Some(sparring_profiles::Disclosure::Lazy),
        supplied_tools: Some(vec![json!({"name": "t"})]),
        lazy_connect: true,
        shared: Some(false),
        auth: Some("oauth".into()),
        policy: Map::from_iter([("risk".to_owned(), json!("low"))]),
        ..ServerEntry::default()
    };
    assert_eq!(entry, expected);
    // And written again, with nothing but the names.
    let written = Dialect::new(&settings("reference")).write(&expected).unwrap();
    let document = json!({"mcpServers": {"a": written}}).to_string();
    assert_eq!(read("reference", "c.json", &document).entries, [expected]);
}

#[test]
fn entries_are_written_in_the_hosts_words() {
    let stdio = ServerEntry {
        name: "a".into(),
        command: Some("x".into()),
        args: vec![String::new(), "b c".into()],
        ..ServerEntry::default()
    };
    let http = ServerEntry {
        name: "b".into(),
        url: Some("http://h".into()),
        headers: BTreeMap::from([("K".into(), "v".into())]),
        ..ServerEntry::default()
    };
    let written =
        |host: &str, entry: &ServerEntry| Value::Object(Dialect::new(&settings(host)).write(entry).unwrap());
    assert_eq!(written("mewbo", &stdio), json!({"command": ["x", "", "b c"]}));
    assert_eq!(
        written("mewbo", &http),
        json!({"transport": "streamable_http", "url": "http://h", "headers": {"K": "v"}})
    );
    assert_eq!(written("zut", &stdio), json!({"command": "x", "args": ["", "b c"]}));
    let plain = ServerEntry { headers: BTreeMap::new(), ..http.clone() };
    assert_eq!(written("chaz", &plain), json!({"url": "http://h"}));
    let error = Dialect::new(&settings("chaz")).write(&http).unwrap_err().to_string();
    assert_eq!(error, "b: this host's configuration has no word for `headers`");
    let mut strict = settings("mouaif");
    strict.infers_type = false;
    assert_eq!(Value::Object(Dialect::new(&strict).write(&stdio).unwrap())["transport"], json!("stdio"));
}

#[test]
fn any_shape_is_made_one() {
    let shapes = [
        json!({"mcpServers": {"a": {"command": "srv"}, "b": {"httpUrl": "http://h/mcp"}}}),
        json!({"servers": {"a": {"command": ["srv"]}, "b": {"url": "http://h/mcp", "transport": "streamable_http"}}}),
        json!({"mcp_servers": {"a": {"command": "srv"}, "b": {"url": "http://h/mcp", "type": "streamableHttp"}}}),
        json!([{"name": "a", "command": "srv"}, {"name": "b", "type": "http", "url": "http://h/mcp"}]),
        json!({"a": {"command": "srv"}, "b": {"url": "http://h/mcp"}}),
    ];
    for shape in shapes {
        let (entries, faults) = Dialect::normalise("option", shape.clone());
        assert_eq!(faults, [], "{shape}");
        assert_eq!(shown(&Loaded { entries, ..Loaded::default() }), stdio_and_http(), "{shape}");
    }
    let (_, faults) = Dialect::normalise("option", json!({"mcpServers": {"a": {"command": 3}}}));
    assert!(faults[0].message.starts_with("option: `mcpServers.a.command`"), "{faults:?}");
}
