use super::*;
use sparring_profiles::Profile;

fn of(host: &str) -> (Settings, ProfileEnv) {
    let settings = Profile::load(host).unwrap().settings();
    let rules = ProfileEnv::new(&settings);
    (settings, rules)
}

fn pairs(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn around() -> Surroundings {
    let env = pairs(&[
        ("PATH", "/bin"),
        ("HOME", "/home/u"),
        ("LANG", "C"),
        ("TMPDIR", "/tmp"),
        ("HTTPS_PROXY", "http://p"),
        ("OPENAI_API_KEY", "sk-1"),
        ("CANARY_XYZ", "c"),
        ("NODE_OPTIONS", "--no-warnings"),
        ("LD_PRELOAD", ""),
        ("TOKEN", "t0k"),
    ]);
    Surroundings {
        cwd: "/w".into(),
        project: Some("/w/p".into()),
        home: "/home/u".into(),
        env,
        state: "/s".into(),
    }
}

fn entry() -> ServerEntry {
    ServerEntry { name: "s".into(), command: Some("srv".into()), ..ServerEntry::default() }
}

#[test]
fn what_children_inherit() {
    let (_, chaz) = of("chaz");
    let mut mine = entry();
    mine.env = pairs(&[("PATH", "/own")]);
    let child = chaz.environment(&mine, &around());
    assert_eq!((child["PATH"].as_str(), child["CANARY_XYZ"].as_str()), ("/own", "c"));
    assert_eq!(chaz.environment(&entry(), &around())["PATH"], "/bin");

    let (_, zut) = of("zut");
    let child = zut.environment(&entry(), &around());
    let names: Vec<&str> = child.keys().map(String::as_str).collect();
    assert_eq!(names, ["HOME", "HTTPS_PROXY", "LANG", "PATH", "TMPDIR"]);
    let mut passing = entry();
    passing.env_pass = vec!["CANARY_XYZ".into(), "NOT_SET".into()];
    let child = zut.environment(&passing, &around());
    assert!(
        child.contains_key("CANARY_XYZ")
            && !child.contains_key("NOT_SET")
            && !child.contains_key("OPENAI_API_KEY")
    );

    let (mut settings, zidane) = of("zidane");
    let mut strict = entry();
    strict.strict_env = true;
    strict.env = pairs(&[("ONLY", "1")]);
    strict.env_pass = vec!["PATH".into()];
    assert_eq!(zidane.environment(&strict, &around()), strict.env);
    settings.env.strict_option = false;
    assert!(ProfileEnv::new(&settings).environment(&strict, &around()).contains_key("CANARY_XYZ"));
    settings.env.inherit = Inherit::None;
    settings.env.pass_option = false;
    assert_eq!(ProfileEnv::new(&settings).environment(&strict, &around()), strict.env);
}

#[test]
fn denied_names_and_exceptions() {
    let (mut settings, mouaif) = of("mouaif");
    let child = mouaif.environment(&entry(), &around());
    assert!(
        !child.contains_key("NODE_OPTIONS")
            && !child.contains_key("LD_PRELOAD")
            && child.contains_key("CANARY_XYZ")
    );
    let mut own = entry();
    own.env = pairs(&[("NODE_OPTIONS", "--mine")]);
    let child = mouaif.environment(&own, &around());
    assert_eq!(child["NODE_OPTIONS"], "--mine");
    assert!(!child.contains_key("LD_PRELOAD"));
    settings.env.explicit_beats_denylist = false;
    assert!(!ProfileEnv::new(&settings).environment(&own, &around()).contains_key("NODE_OPTIONS"));
}

#[test]
fn variables_are_replaced_in_the_fields_that_the_profile_names() {
    let everywhere = ServerEntry {
        name: "s".into(),
        command: Some("${TOKEN}".into()),
        args: vec![String::new(), "${TOKEN}".into(), "*".into()],
        cwd: Some("${TOKEN}".into()),
        env: pairs(&[("K", "${TOKEN}")]),
        url: Some("http://h/${TOKEN}".into()),
        headers: pairs(&[("H", "${TOKEN}")]),
        ..ServerEntry::default()
    };
    let (_, zut) = of("zut");
    let all = zut.expand(&everywhere, &around()).unwrap();
    assert_eq!(all.args, ["", "t0k", "*"]);
    assert_eq!(
        (all.command.as_deref(), all.cwd.as_deref(), all.url.as_deref()),
        (Some("t0k"), Some("t0k"), Some("http://h/t0k"))
    );
    assert_eq!((all.env["K"].as_str(), all.headers["H"].as_str()), ("t0k", "t0k"));
    let (_, chaz) = of("chaz");
    let some = chaz.expand(&everywhere, &around()).unwrap();
    assert_eq!(some, ServerEntry { env: pairs(&[("K", "t0k")]), ..everywhere });
}

#[test]
fn an_unset_variable_is_named_with_its_field_and_nothing_else_is() {
    let (_, zut) = of("zut");
    let cases = [
        (ServerEntry { command: Some("${NO}".into()), ..entry() }, "command"),
        (ServerEntry { args: vec!["a".into(), "${TOKEN}${NO}".into()], ..entry() }, "args.1"),
        (ServerEntry { env: pairs(&[("A", "${TOKEN}"), ("K", "${TOKEN}-${NO}")]), ..entry() }, "env.K"),
        (ServerEntry { headers: pairs(&[("X-Key", "${NO}")]), ..entry() }, "headers.X-Key"),
    ];
    for (entry, field) in cases {
        let error = zut.expand(&entry, &around()).unwrap_err();
        let expected =
            HostError::UnsetVariable { server: "s".into(), field: field.into(), variable: "NO".into() };
        assert_eq!(error, expected);
        assert!(!error.to_string().contains("t0k"));
    }
    let bearer = ServerEntry { bearer_env: Some("NO".into()), ..entry() };
    let error = zut.headers(&bearer, &around()).unwrap_err().to_string();
    assert!(error.contains("`bearerTokenEnvVar` needs the variable NO"), "{error}");
}

#[test]
fn headers_are_put_together() {
    let (mut settings, zut) = of("zut");
    let entry = ServerEntry {
        name: "s".into(),
        url: Some("http://h".into()),
        headers: pairs(&[("X-A", "a"), ("authorization", "old")]),
        header_env: pairs(&[("X-B", "CANARY_XYZ")]),
        bearer_env: Some("TOKEN".into()),
        ..ServerEntry::default()
    };
    let (_, target) = target(&zut, &entry, &around()).unwrap();
    let Target::Http(http) = target else { panic!("{target:?}") };
    let expected = [("X-A", "a"), ("X-B", "c"), ("Authorization", "Bearer t0k")];
    assert_eq!(http.headers, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
    settings.auth.bearer_from_env = false;
    settings.auth.header_from_env = false;
    assert_eq!(ProfileEnv::new(&settings).headers(&entry, &around()).unwrap().len(), 2);
    let (mut settings, _) = of("zut");
    settings.env.unset = Unset::Empty;
    let missing = ServerEntry { bearer_env: Some("NO".into()), ..entry };
    assert!(
        !ProfileEnv::new(&settings)
            .headers(&missing, &around())
            .unwrap()
            .iter()
            .any(|(_, v)| v.contains("Bearer"))
    );
}

#[test]
fn working_directories() {
    let (mut settings, _) = of("zut");
    let with_cwd = |cwd: &str| ServerEntry { cwd: Some(cwd.into()), ..entry() };
    let cases = [
        (Base::Host, Base::Host, entry(), "/w"),
        (Base::Project, Base::Host, entry(), "/w/p"),
        (Base::Host, Base::Host, with_cwd("x"), "/w/x"),
        (Base::Host, Base::Project, with_cwd("x"), "/w/p/x"),
        (Base::Host, Base::Project, with_cwd("/abs"), "/abs"),
        (Base::Host, Base::Project, with_cwd("../x"), "/w/p/../x"),
    ];
    for (default, base, entry, expected) in cases {
        settings.env.cwd_default = default;
        settings.env.cwd_base = base;
        assert_eq!(ProfileEnv::new(&settings).cwd(&entry, &around()), PathBuf::from(expected));
    }
    let mut homeless = around();
    homeless.project = None;
    settings.config.project_root = sparring_profiles::ProjectRoot::Given;
    assert_eq!(ProfileEnv::new(&settings).cwd(&with_cwd("x"), &homeless), PathBuf::from("/w/x"));
}

#[test]
fn argv_arrives_as_it_is_configured() {
    let (_, mouaif) = of("mouaif");
    let args: Vec<String> =
        ["", "a b", " x", "\"", "'", "\\", "$HOME", "${HOME}", "*", "--port=1", "\n", "é"]
            .map(str::to_owned)
            .to_vec();
    let mut long = args;
    long.push("x".repeat(8192));
    let entry = ServerEntry { args: long.clone(), ..entry() };
    let (_, target) = target(&mouaif, &entry, &around()).unwrap();
    let Target::Stdio(stdio) = target else { panic!("{target:?}") };
    assert_eq!(stdio.args, long.iter().map(std::ffi::OsString::from).collect::<Vec<_>>());
    assert_eq!(stdio.cwd, Some("/w".into()));
}

#[test]
fn an_entry_without_a_target_says_so() {
    let (_, zut) = of("zut");
    let error =
        target(&zut, &ServerEntry { name: "s".into(), ..ServerEntry::default() }, &around()).unwrap_err();
    assert_eq!(error.to_string(), "s: it has neither `command` nor `url`");
}
