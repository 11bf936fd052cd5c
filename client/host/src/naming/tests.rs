use super::*;
use crate::naming::NameTable;
use proptest::prelude::*;

fn names(change: impl FnOnce(&mut NamingSettings)) -> ProfileNames {
    let mut settings = NamingSettings::default();
    change(&mut settings);
    ProfileNames::new(settings)
}

fn composed(naming: &ProfileNames, claims: &[Claim]) -> Vec<Option<String>> {
    naming.compose(claims).unwrap().names
}

fn given(naming: &ProfileNames, claims: &[Claim]) -> Vec<String> {
    composed(naming, claims).into_iter().map(Option::unwrap).collect()
}

#[test]
fn templates_of_the_hosts() {
    let cases = [
        ("{server}__{tool}", "fs__read_file"),
        ("mcp_{server}_{tool}", "mcp_fs_read_file"),
        ("mcp__{server}__{tool}", "mcp__fs__read_file"),
        ("{tool}", "read_file"),
        ("{{{tool}}}", "_read_file_"),
    ];
    for (template, expected) in cases {
        let naming = names(|n| n.template = template.into());
        assert_eq!(given(&naming, &[Claim::tool("fs", "read_file")]), [expected]);
    }
    // Both places are filled in one go.
    let naming = names(|n| {
        n.template = "{server}.{tool}".into();
        n.charset = "[a-z{}.]".into();
    });
    assert_eq!(given(&naming, &[Claim::tool("{tool}", "x")]), ["{tool}.x"]);
}

#[test]
fn odd_characters_are_substituted_and_clashes_of_that_get_a_hash_each() {
    let naming = names(|_| {});
    let raw = ["a.b", "a/b", "a b", "ä", "工具", "🦀", "", "plain"];
    let claims: Vec<Claim> = raw.iter().map(|tool| Claim::tool("x.y", *tool)).collect();
    let all = given(&naming, &claims);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), raw.len(), "{all:?}");
    assert!(all.iter().all(|n| n.chars().all(|c| naming.charset.has(c))), "{all:?}");
    for name in &all[..3] {
        let suffix = name.strip_prefix("mcp__x_y__a_b_").unwrap();
        assert_eq!(suffix.len(), 8);
    }
    assert_eq!(all[7], "mcp__x_y__plain");
}

#[test]
fn names_depend_on_the_order_of_arrival_only_where_they_need_not_be_stable() {
    let (one, two) = (Claim::tool("s", "a.b"), Claim::tool("s", "a/b"));
    for (stable, same) in [(true, true), (false, false)] {
        let naming = names(|n| n.stable = stable);
        let forth = given(&naming, &[one.clone(), two.clone()]);
        let back = given(&naming, &[two.clone(), one.clone()]);
        assert_ne!(forth[0], forth[1]);
        assert_eq!(forth[0] == back[1], same, "{forth:?} {back:?}");
    }
}

#[test]
fn the_longest_length_includes_the_suffix() {
    let naming = names(|_| {});
    let prefix = "mcp__s__".len();
    for (length, kept) in [(63, true), (64, true), (65, false), (200, false)] {
        let name = given(&naming, &[Claim::tool("s", "t".repeat(length - prefix))]).remove(0);
        assert_eq!(name.len(), length.min(64));
        assert_eq!(!name.contains("t_"), kept, "{name}");
    }
    let long = "t".repeat(200);
    let two = given(&naming, &[Claim::tool("s", format!("{long}a")), Claim::tool("s", format!("{long}b"))]);
    assert_ne!(two[0], two[1]);
    let short = names(|n| n.hash_len = 4);
    let name = given(&short, &[Claim::tool("s", &long)]).remove(0);
    assert_eq!((name.len(), name.rfind('_')), (64, Some(59)));
}

#[test]
fn other_ways_with_names_that_are_too_long() {
    let cut = names(|n| n.on_overflow = Overflow::Truncate);
    assert_eq!(given(&cut, &[Claim::tool("s", "t".repeat(99))]), [format!("mcp__s__{}", "t".repeat(56))]);
    let dropped = names(|n| n.on_overflow = Overflow::Drop)
        .compose(&[Claim::tool("s", "t".repeat(99)), Claim::tool("s", "t")]);
    let dropped = dropped.unwrap();
    assert_eq!(dropped.names, [None, Some("mcp__s__t".into())]);
    assert!(dropped.warnings[0].contains("longer than 64"), "{:?}", dropped.warnings);
    // Multi-byte characters are counted as one each.
    let wide = names(|n| {
        n.charset = "[^ ]".into();
        n.max_len = 10;
    });
    assert_eq!(given(&wide, &[Claim::tool("s", "ää")]), ["mcp__s__ää"]);
}

fn clash() -> [Claim; 2] {
    [Claim::tool("a__b", "c"), Claim::tool("a", "b__c")]
}

#[test]
fn each_way_with_clashes() {
    let template = |n: &mut NamingSettings| n.template = "{server}__{tool}".into();
    let with = |on: Clash| {
        names(|n| {
            template(n);
            n.on_clash = on;
        })
    };
    let hashed = given(&with(Clash::Hash), &clash());
    assert!(hashed.iter().all(|n| n.starts_with("a__b__c_")) && hashed[0] != hashed[1], "{hashed:?}");
    let skipped = with(Clash::SkipLater).compose(&clash()).unwrap();
    assert_eq!(skipped.names, [Some("a__b__c".into()), None]);
    assert_eq!(skipped.warnings.len(), 1);
    assert!(skipped.warnings[0].starts_with("\"b__c\" of \"a\" is left out"), "{:?}", skipped.warnings);
    assert_eq!(composed(&with(Clash::Replace), &clash()), [None, Some("a__b__c".into())]);
    let error = with(Clash::Error).compose(&clash()).unwrap_err().to_string();
    assert!(error.contains("\"c\" of \"a__b\" and \"b__c\" of \"a\""), "{error}");
    // The same tool twice is no clash.
    let twice = [Claim::tool("a", "x"), Claim::tool("a", "x")];
    for on in [Clash::Hash, Clash::SkipLater, Clash::Replace, Clash::Error] {
        assert_eq!(composed(&with(on), &twice), [Some("a__x".into()), None]);
    }
}

#[test]
fn own_tools_keep_their_names() {
    for on in [Clash::Hash, Clash::SkipLater, Clash::Replace, Clash::Error] {
        let naming = names(|n| {
            n.template = "{server}__{tool}".into();
            n.on_clash = on;
        });
        let claims = [
            Claim::tool("mcp", "list"),
            Claim::Own("mcp__list".into()),
            Claim::Own("a name that the charset lacks".into()),
        ];
        let names = composed(&naming, &claims);
        assert_eq!(names[1].as_deref(), Some("mcp__list"));
        assert_eq!(names[2].as_deref(), Some("a name that the charset lacks"));
        assert_ne!(names[0], names[1]);
    }
}

#[test]
fn wrappers_are_named_by_their_template_and_clash_like_tools() {
    let naming = names(|n| n.template = "{server}__{tool}".into());
    let wrapper =
        |server: &str| Claim::Wrapper { server: server.into(), template: "{server}__read_resource".into() };
    let all = given(&naming, &[wrapper("my server"), wrapper("fs"), Claim::tool("fs", "read_resource")]);
    assert_eq!(all[0], "my_server__read_resource");
    assert!(all[1].starts_with("fs__read_resource_") && all[2].starts_with("fs__read_resource_"));
    assert_ne!(all[1], all[2]);
}

#[test]
fn slugs_are_opaque() {
    for (server, expected) in [("My Server", "my-server"), ("a.b", "a-b"), ("--x--", "x"), ("a", "a")] {
        assert_eq!(slug(server), expected);
    }
    assert!(slug("工具").starts_with("server-"));
    assert_ne!(slug("工具"), slug("工"));
    let naming = names(|n| n.server_slug = ServerSlug::Opaque);
    assert_eq!(given(&naming, &[Claim::tool("My Server", "Read")]), ["mcp__my-server__Read"]);
}

#[test]
fn aliases_reach_tools_unless_they_could_reach_two() {
    let naming = names(|n| {
        n.template = "mcp_{server}_{tool}".into();
        n.aliases = vec!["mcp__{server}__{tool}".into(), "{server}:{tool}".into()];
        n.charset = "[\\w:-]".into();
    });
    let mut claims = vec![Claim::tool("fs", "read"), Claim::tool("a", "b__c"), Claim::tool("a__b", "c")];
    claims.push(Claim::Own("mcp__fs__list".into()));
    claims.push(Claim::tool("fs", "list"));
    let names = naming.compose(&claims).unwrap().names;
    let table = NameTable::new(&naming, &claims, &names);
    assert_eq!(table.find("mcp_fs_read"), Some(0));
    assert_eq!(table.find("mcp__fs__read"), Some(0));
    assert_eq!(table.find("fs:read"), Some(0));
    // Two tools have this alias, so it reaches neither.
    assert_eq!(table.find("mcp__a__b__c"), None);
    assert_eq!(table.find("a__b:c"), Some(2));
    // A name beats an alias.
    assert_eq!(table.find("mcp__fs__list"), Some(3));
    assert_eq!(table.find("read"), None);
}

#[test]
fn a_suffix_consists_of_allowed_characters() {
    let naming = names(|n| n.charset = "[a-z_]".into());
    let all = given(&naming, &[Claim::tool("s", "x.1"), Claim::tool("s", "x.2")]);
    assert!(all.iter().all(|n| n.chars().all(|c| naming.charset.has(c))), "{all:?}");
    let bare = names(|n| n.charset = "[a-z]".into());
    let all = given(&bare, &[Claim::tool("s", "a.b"), Claim::tool("s", "a-b")]);
    assert_ne!(all[0], all[1]);
}

proptest! {
    #[test]
    fn names_are_valid_distinct_and_do_not_depend_on_the_order(
        tools in prop::collection::hash_set(("[a_]{1,2}", "[a_. é]{0,3}|[ab]{60,70}|.{0,8}"), 0..12),
        max_len in 12u32..70,
        turn in any::<prop::sample::Index>(),
    ) {
        let claims: Vec<Claim> = tools.into_iter().map(|(s, t)| Claim::tool(s, t)).collect();
        let naming = names(|n| n.max_len = max_len);
        let all: HashMap<Claim, String> = claims.iter().cloned().zip(given(&naming, &claims)).collect();
        let distinct: HashSet<&String> = all.values().collect();
        prop_assert_eq!(distinct.len(), claims.len());
        for name in all.values() {
            prop_assert!(name.len() <= max_len as usize && !name.is_empty());
            prop_assert!(name.chars().all(|c| naming.charset.has(c)));
        }
        let mut other = claims.clone();
        if !other.is_empty() {
            let turn = turn.index(other.len());
            other.rotate_left(turn);
            other.reverse();
        }
        for (claim, name) in other.iter().zip(given(&naming, &other)) {
            prop_assert_eq!(&all[claim], &name);
        }
    }
}
