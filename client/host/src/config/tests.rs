use super::*;
use crate::entry::Kind;
use serde_json::json;
use sparring_profiles::Profile;
use std::collections::BTreeMap;
use std::fs;
use tempfile::TempDir;

struct Case {
    folder: TempDir,
    settings: Settings,
    around: Surroundings,
    import: bool,
}

impl Case {
    fn of(host: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let around = Surroundings {
            cwd: at("p/a"),
            project: Some(at("p")),
            home: at("home"),
            env: BTreeMap::from([
                ("ZUT_HOME".to_owned(), at("zut").display().to_string()),
                ("MEWBO_HOME".to_owned(), at("mewbo").display().to_string()),
            ]),
            state: at("state"),
        };
        fs::create_dir_all(&around.cwd).unwrap();
        Self { settings: Profile::load(host).unwrap().settings(), folder, around, import: false }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn get(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }

    fn load(&self) -> Result<Loaded, String> {
        let files = ConfigFiles::new(&self.settings).import(self.import);
        files.load(&self.around).map_err(|error| error.to_string())
    }

    /// Names and programs.
    fn servers(&self) -> Vec<String> {
        let shown = |e: &ServerEntry| {
            format!("{}={}", e.name, e.command.as_deref().or(e.url.as_deref()).unwrap_or("-"))
        };
        self.load().unwrap().entries.iter().map(shown).collect()
    }
}

fn servers(key: &str, entries: &[(&str, &str)]) -> String {
    let entry = |(name, command): &(&str, &str)| ((*name).to_owned(), json!({"command": command}));
    json!({key: entries.iter().map(entry).collect::<serde_json::Map<_, _>>()}).to_string()
}

#[test]
fn the_strongest_file_that_is_there_wins() {
    let case = Case::of("zidane");
    let files = [
        "p/.agents/mcps.json",
        "p/.agents/mcp.json",
        "p/.zidane/mcps.json",
        "p/.zidane/mcp.json",
        "home/.agents/mcps.json",
        "home/.agents/mcp.json",
        "home/.zidane/mcps.json",
        "home/.zidane/mcp.json",
    ];
    for file in files {
        case.put(file, &servers("mcpServers", &[("s", file)]));
    }
    for file in files {
        let loaded = case.load().unwrap();
        assert_eq!(loaded.entries.len(), 1);
        assert_eq!(loaded.entries[0].command.as_deref(), Some(file));
        assert_eq!(loaded.entries[0].source.project, file.starts_with("p/"));
        assert_eq!(loaded.entries[0].source.file, Some(case.path(file)));
        fs::remove_file(case.path(file)).unwrap();
    }
    assert_eq!(case.load(), Ok(Loaded::default()));
}

#[test]
fn an_entry_is_replaced_as_a_whole_or_merged() {
    let mut case = Case::of("zut");
    case.put("p/a/.zut/mcp.json", &servers("mcpServers", &[("s", "strong")]));
    let weak =
        json!({"mcpServers": {"s": {"command": "weak", "env": {"K": "v"}}, "t": {"command": "other"}}});
    case.put("zut/mcp.json", &weak.to_string());
    assert_eq!(case.servers(), ["s=strong", "t=other"]);
    assert!(case.load().unwrap().entries[0].env.is_empty());
    case.settings.config.merge = sparring_profiles::Merge::MergeFields;
    assert_eq!(case.load().unwrap().entries[0].env["K"], "v");
    case.settings.config.merge = sparring_profiles::Merge::Error;
    assert!(case.load().unwrap_err().contains("configured twice"));
    // An entry that is wrong shadows a right one: nobody should get the weaker server unawares.
    case.settings.config.merge = sparring_profiles::Merge::ReplaceEntry;
    case.put("p/a/.zut/mcp.json", r#"{"mcpServers": {"s": {"command": 3}}}"#);
    assert_eq!(case.servers(), ["t=other"]);
    assert_eq!(case.load().unwrap().faults.len(), 1);
    // And a right one shadows a wrong one.
    case.put("p/a/.zut/mcp.json", &servers("mcpServers", &[("s", "strong")]));
    case.put("zut/mcp.json", r#"{"mcpServers": {"s": {"command": 3}}}"#);
    assert_eq!(case.load().unwrap().faults, []);
}

#[test]
fn deeper_files_count_for_their_subtree() {
    let mut case = Case::of("mewbo");
    case.put("p/.mcp.json", &servers("servers", &[("root", "r"), ("s", "root")]));
    case.put("p/a/.mcp.json", &servers("servers", &[("sub", "s"), ("s", "sub")]));
    case.put("p/b/.mcp.json", &servers("servers", &[("sibling", "x")]));
    case.put("mewbo/mcp.json", &servers("mcpServers", &[("global", "g")]));
    let argv = |text: &str| text.replace("\"command\":\"", "\"command\":[\"").replace("\"}", "\"]}");
    for file in ["p/.mcp.json", "p/a/.mcp.json", "p/b/.mcp.json", "mewbo/mcp.json"] {
        case.put(file, &argv(&fs::read_to_string(case.path(file)).unwrap()));
    }
    assert_eq!(case.servers(), ["sub=s", "s=sub", "root=r", "global=g"]);
    case.around.cwd = case.path("p");
    assert_eq!(case.servers(), ["root=r", "s=root", "global=g"]);
    // Without a project, project files do not count.
    case.around.project = None;
    assert_eq!(case.servers(), ["global=g"]);
}

#[test]
fn a_folder_of_servers_adds_to_the_list() {
    let mut case = Case::of("chaz");
    case.settings.config.files = vec!["{cwd}/chaz.yaml".into()];
    case.put("p/a/chaz.yaml", "mcp_server_dir: servers.d\nmcp_servers:\n- name: s\n  command: inline\n");
    case.put("p/a/servers.d/2.yaml", "name: t\ncommand: two\ndefault_policy: {risk: low}\n");
    case.put("p/a/servers.d/1.yaml", "command: one\n");
    case.put("p/a/servers.d/s.yaml", "command: hidden\n");
    case.put("p/a/servers.d/README.md", "not a server");
    case.put("p/a/servers.d/bad.yaml", "name: bad\ncommand: [x]\n");
    assert_eq!(case.servers(), ["s=inline", "1=one", "t=two"]);
    let loaded = case.load().unwrap();
    assert_eq!(loaded.entries[2].policy["risk"], json!("low"));
    assert_eq!(loaded.faults[0].server, "bad");
    assert!(
        loaded.faults[0].message.contains("bad.yaml: `command`: should be a string"),
        "{:?}",
        loaded.faults
    );
    case.put("p/a/chaz.yaml", "mcp_server_dir: none\n");
    assert!(case.load().unwrap_err().contains("chaz.yaml: "));
}

#[test]
fn foreign_files_count_only_if_wanted_and_never_win() {
    let mut case = Case::of("zidane");
    case.put("p/.mcp.json", &servers("mcpServers", &[("s", "foreign"), ("claude", "c"), ("off", "o")]));
    let project = case.path("p").display().to_string();
    case.put(
        "home/.claude.json",
        &json!({"mcpServers": {"global": {"command": "g"}, "claude": {"command": "later"}},
            "projects": {project: {"mcpServers": {"mine": {"command": "m", "disabled": true}}},
                "/other": {"mcpServers": {"theirs": {"command": "t"}}}}})
        .to_string(),
    );
    case.put(
        "home/.codex/config.toml",
        "model = \"x\"\n[mcp_servers.codex]\ncommand = \"cx\"\nargs = [\"a\"]\nstartup_timeout_sec = 5\n\
         [mcp_servers.web]\nurl = \"http://w\"\nbearer_token_env_var = \"T\"\n",
    );
    case.put("p/.ruler/mcp.json", r#"{"mcpServers": {"rh": {"url": "http://r"}, "rs": {"command": "r"}}}"#);
    case.put("home/.agents/mcp.json", &servers("mcpServers", &[("s", "own")]));
    assert_eq!(case.servers(), ["s=own", "rh=http://r"]);
    case.import = true;
    let all = [
        "s=own",
        "claude=c",
        "off=o",
        "mine=m",
        "global=g",
        "codex=cx",
        "web=http://w",
        "rh=http://r",
        "rs=r",
    ];
    assert_eq!(case.servers(), all);
    let loaded = case.load().unwrap();
    let named = |name: &str| loaded.entries.iter().find(|e| e.name == name).unwrap();
    assert!(!named("mine").is_on() && named("global").is_on());
    assert_eq!((named("codex").startup_timeout, named("web").bearer_env.as_deref()), (Some(5.0), Some("T")));
    // What others have written wrongly is no error here.
    case.put("home/.claude.json", "{");
    let loaded = case.load().unwrap();
    assert_eq!(loaded.warnings.len(), 1);
    assert!(loaded.warnings[0].contains(".claude.json:1:"), "{:?}", loaded.warnings);
}

#[test]
fn contributed_servers_are_the_weakest() {
    let case = Case::of("zut");
    case.put("zut/mcp.json", &servers("mcpServers", &[("s", "own")]));
    let plugin = |name: &str| ServerEntry {
        name: name.into(),
        command: Some("plugin".into()),
        ..ServerEntry::default()
    };
    let files = ConfigFiles::new(&case.settings).contributed(vec![plugin("s"), plugin("p")]);
    let names: Vec<Option<String>> =
        files.load(&case.around).unwrap().entries.into_iter().map(|entry| entry.command).collect();
    assert_eq!(names, [Some("own".to_owned()), Some("plugin".to_owned())]);
}

#[test]
fn one_file_can_stand_for_all_places() {
    let case = Case::of("zut");
    case.put("zut/mcp.json", &servers("mcpServers", &[("s", "own")]));
    case.put("mine.json", &servers("mcpServers", &[("m", "mine")]));
    let load = |name: &str| ConfigFiles::new(&case.settings).only(case.path(name)).load(&case.around);
    assert_eq!(load("mine.json").unwrap().entries[0].name, "m");
    let error = load("none.json").unwrap_err().to_string();
    assert!(error.ends_with("none.json: there is no such file"), "{error}");
}

#[test]
fn a_legacy_place_counts_until_the_first_save() {
    let case = Case::of("mouaif");
    let old = json!({"theme": "dark", "mcp": {"servers": {
        "s": {"command": "old", "toolCache": [{"name": "t"}], "note": "kept"}}}});
    case.put("p/.mouaif.json", &old.to_string());
    let loaded = case.load().unwrap();
    assert_eq!(case.servers(), ["s=old"]);
    assert_eq!(loaded.tool_caches, [("s".to_owned(), vec![json!({"name": "t"})])]);
    let new = ServerEntry { name: "n".into(), command: Some("new".into()), ..ServerEntry::default() };
    let file = add(&case.settings, &case.around, &Scope::Project, &new).unwrap();
    assert_eq!(file, case.path("p/.mcp.json"));
    assert_eq!(
        case.get("p/.mcp.json"),
        json!({"servers": {"s": {"command": "old", "note": "kept"}, "n": {"command": "new"}}})
    );
    assert_eq!(case.servers(), ["s=old", "n=new"]);
    assert_eq!(case.load().unwrap().tool_caches, []);
    // The old file is as it was, and counts no more.
    assert_eq!(case.get("p/.mouaif.json"), old);
    remove(&case.settings, &case.around, &Scope::Project, "s").unwrap();
    assert_eq!(case.servers(), ["n=new"]);
}

#[test]
fn tool_caches_leave_the_file_with_its_next_write() {
    let case = Case::of("mouaif");
    case.put("p/.mcp.json", r#"{"servers": {"s": {"command": "x", "toolCache": {"tools": [{"name": "t"}]}}, "r": {"command": "y"}}}"#);
    assert_eq!(case.load().unwrap().tool_caches, [("s".to_owned(), vec![json!({"name": "t"})])]);
    remove(&case.settings, &case.around, &Scope::Project, "r").unwrap();
    assert_eq!(case.get("p/.mcp.json"), json!({"servers": {"s": {"command": "x"}}}));
}

#[test]
fn an_unreadable_file_is_an_error_with_its_place() {
    let case = Case::of("zut");
    case.put("zut/mcp.json", "{\n  \"mcpServers\": {,\n");
    let error = case.load().unwrap_err();
    assert!(error.contains("zut/mcp.json:2:18: "), "{error}");
    case.put("zut/mcp.json", "\u{1}");
    assert!(case.load().unwrap_err().contains("mcp.json:1:1: "));
    fs::remove_file(case.path("zut/mcp.json")).unwrap();
    fs::create_dir(case.path("zut/mcp.json")).unwrap();
    assert!(case.load().unwrap_err().contains("can't be read"));
}

#[test]
fn an_equal_answer_means_that_nothing_has_changed() {
    let case = Case::of("zut");
    case.put("zut/mcp.json", &servers("mcpServers", &[("s", "x")]));
    let first = case.load().unwrap();
    case.put("zut/mcp.json", "{\n\"mcpServers\": {\"s\": {\"command\": \"x\"}}, \"other\": 1}");
    assert_eq!(case.load().unwrap(), first);
    case.put("zut/mcp.json", &servers("mcpServers", &[("s", "y")]));
    assert_ne!(case.load().unwrap(), first);
}

#[test]
fn servers_are_added_and_removed_where_they_belong() {
    let case = Case::of("zut");
    let entry = |name: &str, command: &str| ServerEntry {
        name: name.into(),
        command: Some(command.into()),
        args: vec!["--url".into(), String::new()],
        ..ServerEntry::default()
    };
    let user = add(&case.settings, &case.around, &Scope::User, &entry("u", "1")).unwrap();
    let project = add(&case.settings, &case.around, &Scope::Project, &entry("p", "2")).unwrap();
    assert_eq!((user, project), (case.path("zut/mcp.json"), case.path("p/a/.zut/mcp.json")));
    case.put(
        "zut/mcp.json",
        r#"{"z": 1, "mcpServers": {"u": {"command": "0", "x": {}}, "k": {"command": "k"}}, "a": 2}"#,
    );
    add(&case.settings, &case.around, &Scope::User, &entry("u", "3")).unwrap();
    let written = fs::read_to_string(case.path("zut/mcp.json")).unwrap();
    let expected = json!({"z": 1, "mcpServers": {"u": {"command": "3", "args": ["--url", ""]}, "k": {"command": "k"}}, "a": 2});
    // Order and other members stay.
    assert_eq!(written, format!("{}\n", serde_json::to_string_pretty(&expected).unwrap()));
    let gone = |scope: &Scope, name: &str| remove(&case.settings, &case.around, scope, name).unwrap();
    assert_eq!(gone(&Scope::Project, "u"), None);
    assert_eq!(gone(&Scope::User, "u"), Some(case.path("zut/mcp.json")));
    assert_eq!(case.servers(), ["p=2", "k=k"]);
    let file = Scope::File(case.path("mine.yaml"));
    add(&case.settings, &case.around, &file, &entry("f", "5")).unwrap();
    assert!(fs::read_to_string(case.path("mine.yaml")).unwrap().starts_with("mcpServers:"));
    assert_eq!(gone(&file, "f"), Some(case.path("mine.yaml")));
    // chaz has no places at all.
    let chaz = Case::of("chaz");
    let mut settings = chaz.settings.clone();
    settings.config.files = Vec::new();
    let error = add(&settings, &chaz.around, &Scope::Project, &entry("x", "y")).unwrap_err().to_string();
    assert!(error.contains("no place for servers of the project"), "{error}");
}

#[test]
fn lists_are_edited_as_lists() {
    let case = Case::of("zidane");
    let entry = |command: &str| ServerEntry {
        name: "s".into(),
        command: Some(command.into()),
        ..ServerEntry::default()
    };
    add(&case.settings, &case.around, &Scope::User, &entry("1")).unwrap();
    add(&case.settings, &case.around, &Scope::User, &entry("2")).unwrap();
    assert_eq!(case.get("home/.agents/mcps.json"), json!({"mcpServers": [{"name": "s", "command": "2"}]}));
    case.put(
        "home/.agents/mcps.json",
        r#"[{"name": "s", "command": "3"}, {"name": "t", "url": "http://h"}]"#,
    );
    add(&case.settings, &case.around, &Scope::User, &entry("4")).unwrap();
    assert_eq!(
        remove(&case.settings, &case.around, &Scope::User, "t").unwrap(),
        Some(case.path("home/.agents/mcps.json"))
    );
    assert_eq!(case.get("home/.agents/mcps.json"), json!([{"name": "s", "command": "4"}]));
}

#[test]
#[cfg(unix)]
fn files_get_the_hosts_mode_whatever_they_had() {
    use std::os::unix::fs::PermissionsExt as _;
    let case = Case::of("zut");
    let entry = ServerEntry { name: "s".into(), command: Some("x".into()), ..ServerEntry::default() };
    let mode = |name: &str| fs::metadata(case.path(name)).unwrap().permissions().mode() & 0o777;
    case.put("zut/mcp.json", "{}");
    fs::set_permissions(case.path("zut/mcp.json"), fs::Permissions::from_mode(0o644)).unwrap();
    add(&case.settings, &case.around, &Scope::User, &entry).unwrap();
    assert_eq!(mode("zut/mcp.json"), 0o600);
    add(&case.settings, &case.around, &Scope::Project, &entry).unwrap();
    assert_eq!(mode("p/a/.zut/mcp.json"), 0o600);
    // Nothing is left beside it.
    assert_eq!(fs::read_dir(case.path("zut")).unwrap().count(), 1);
}

#[test]
fn argv_survives_load_edit_and_save() {
    let case = Case::of("mouaif");
    let args = ["", "a b", " x", "\"", "'", "\\", "$HOME", "*", "--port=1", "\n", "é"];
    case.put("p/.mcp.json", &json!({"servers": {"s": {"command": "x", "args": args}}}).to_string());
    let entry = case.load().unwrap().entries.remove(0);
    assert_eq!(entry.args, args);
    assert_eq!(entry.transport(), Some(Kind::Stdio));
    add(&case.settings, &case.around, &Scope::Project, &entry).unwrap();
    assert_eq!(case.load().unwrap().entries[0].args, args);
}
