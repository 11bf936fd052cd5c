//! The invariants of ARCHITECTURE.md that can be read off the source tree.

#[cfg(test)]
mod architecture {
    use sparring_reports::model::exit_code;
    use sparring_scenarios::op::{FEATURES, OPERATIONS};
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::{Path, PathBuf};
    use toml::Table;

    /// What each crate of the workspace may build on. `dev` is for its tests only, beside the rest.
    const MAY_USE: [(&str, &[&str], &[&str]); 13] = [
        ("sparring-wire", &[], &[]),
        ("sparring-profiles", &["sparring-wire"], &[]),
        ("sparring-client", &["sparring-wire"], &[]),
        ("sparring-host", &["sparring-wire", "sparring-client", "sparring-profiles"], &[]),
        (
            "sparring-client-cli",
            // The harness for its driver mode alone.
            &["sparring-wire", "sparring-client", "sparring-host", "sparring-profiles", "sparring"],
            &[],
        ),
        ("sparring-mock-servers", &["sparring-wire"], &[]),
        ("sparring-scenarios", &["sparring-wire", "sparring-mock-servers", "sparring-profiles"], &[]),
        ("sparring-reports", &[], &[]),
        (
            "sparring",
            &[
                "sparring-wire",
                "sparring-client",
                "sparring-host",
                "sparring-profiles",
                "sparring-mock-servers",
                "sparring-scenarios",
                "sparring-reports",
            ],
            &[],
        ),
        ("sparring-benches", &["sparring-wire", "sparring-client", "sparring-mock-servers"], &["sparring"]),
        (
            "sparring-fuzz-targets",
            &["sparring", "sparring-wire", "sparring-mock-servers", "sparring-scenarios"],
            &[],
        ),
        ("own-client", &[], &["sparring"]),
        ("serve-rust", &[], &["sparring-client"]),
    ];

    /// Modules (a file, or a folder, or both) that do no input or output and know no time but what they are told.
    const PURE: [&str; 5] =
        ["wire/src", "reports/src/model", "client/src/core", "mock-servers/src/core", "harness/src/judge"];

    /// Fields of profiles that no host can read: they say what a driver may do to it.
    const OF_DRIVERS: [&str; 2] = ["timeouts.settable", "restart.settable"];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
    }

    fn text(path: &str) -> String {
        fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn manifest(path: &str) -> Table {
        text(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The files of the tree, relative to its root; nothing that a build or a package manager made.
    fn files() -> Vec<String> {
        fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
            const MADE: [&str; 7] = [
                ".git",
                "target",
                "node_modules",
                ".venv",
                "__pycache__",
                "sparring-report",
                ".pytest_cache",
            ];
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if MADE.iter().any(|made| entry.file_name() == *made) {
                    continue;
                }
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    walk(root, &path, found);
                } else {
                    let relative = path.strip_prefix(root).unwrap().to_str().unwrap();
                    found.push(relative.replace('\\', "/"));
                }
            }
        }
        let mut found = Vec::new();
        walk(&root(), &root(), &mut found);
        found.sort();
        assert!(found.iter().any(|file| file == "harness/tests/architecture.rs"), "the walk finds this file");
        found
    }

    /// The manifests of the workspace's members, by package name.
    fn members() -> BTreeMap<String, Table> {
        let workspace = manifest("Cargo.toml");
        let members = workspace["workspace"]["members"].as_array().unwrap();
        members
            .iter()
            .map(|member| {
                let table = manifest(&format!("{}/Cargo.toml", member.as_str().unwrap()));
                (table["package"]["name"].as_str().unwrap().to_owned(), table)
            })
            .collect()
    }

    /// The names of a manifest's dependencies, with those of its targets.
    fn dependencies(manifest: &Table, kinds: &[&str]) -> BTreeSet<String> {
        let mut tables = vec![manifest];
        if let Some(targets) = manifest.get("target").and_then(|target| target.as_table()) {
            tables.extend(targets.values().filter_map(|target| target.as_table()));
        }
        let mut names = BTreeSet::new();
        for table in tables {
            for kind in kinds {
                let Some(found) = table.get(*kind).and_then(|kind| kind.as_table()) else { continue };
                for (name, how) in found {
                    names
                        .insert(how.get("package").and_then(|name| name.as_str()).unwrap_or(name).to_owned());
                }
            }
        }
        names
    }

    #[test]
    fn dependencies_point_one_way() {
        let members = members();
        let listed: BTreeSet<_> = MAY_USE.iter().map(|(name, _, _)| (*name).to_owned()).collect();
        assert_eq!(members.keys().cloned().collect::<BTreeSet<_>>(), listed, "each crate has its place");
        for (name, may, may_in_tests) in MAY_USE {
            for (kinds, allowed) in [
                (["dependencies", "build-dependencies"].as_slice(), may.to_vec()),
                (["dev-dependencies"].as_slice(), [may, may_in_tests].concat()),
            ] {
                for used in dependencies(&members[name], kinds) {
                    assert!(
                        !listed.contains(&used) || allowed.contains(&used.as_str()),
                        "{name} must not depend on {used} ({})",
                        kinds[0]
                    );
                }
            }
        }
        let harness = dependencies(&members["sparring"], &["dependencies"]);
        assert!(harness.contains("sparring-wire"), "manifests are read as they should be: {harness:?}");
    }

    #[test]
    fn no_mcp_sdk_at_any_depth() {
        let lock = manifest("Cargo.lock");
        let packages: Vec<_> =
            lock["package"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
        assert!(packages.contains(&"tokio"), "the lock file is read as it should be");
        for name in packages {
            let sdk = name.starts_with("rmcp") || name.split(['-', '_']).any(|word| word == "mcp");
            assert!(!sdk, "{name} is in Cargo.lock: the product must not share code with what it tests");
        }
    }

    #[test]
    fn pure_modules_are_pure() {
        const FORBIDDEN: [&str; 13] = [
            "tokio::",
            "hyper::",
            "reqwest::",
            "nix::",
            "async fn",
            "std::fs",
            "std::net",
            "std::process",
            "std::thread",
            "std::env",
            "std::io::std",
            "Instant::now",
            "SystemTime::now",
        ];
        let files = files();
        for module in PURE {
            let (file, folder) = (format!("{module}.rs"), format!("{module}/"));
            let mut scanned: Vec<_> =
                files.iter().filter(|path| **path == file || path.starts_with(&folder)).collect();
            let lib = format!("{}/src/lib.rs", module.split('/').next().unwrap());
            let stub = text(&lib).lines().count() < 10;
            assert!(!scanned.is_empty() || stub, "{module} is gone: say here where its code is now");
            scanned.retain(|path| !path.contains("/tests"));
            for path in scanned {
                for (i, line) in text(path).lines().enumerate() {
                    let code = line.split("//").next().unwrap_or_default();
                    if code.trim() == "#[cfg(test)]" {
                        break;
                    }
                    for word in FORBIDDEN {
                        assert!(
                            !code.contains(word),
                            "{path}:{}: `{word}` in a module that must be pure",
                            i + 1
                        );
                    }
                }
            }
        }
    }

    /// The table that follows a header, row by row and cell by cell.
    fn table(text: &str, header: &str) -> Vec<Vec<String>> {
        let (_, after) = text.split_once(header).unwrap_or_else(|| panic!("there is a table `{header}`"));
        after
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
            .collect()
    }

    /// The words in backticks.
    fn quoted(text: &str) -> Vec<&str> {
        text.split('`').skip(1).step_by(2).collect()
    }

    #[test]
    fn the_readme_has_the_exit_codes() {
        let documented: Vec<_> = table(&text("README.md"), "| exit code | meaning |")
            .into_iter()
            .map(|row| (row[0].parse::<u8>().unwrap(), row[1].clone()))
            .collect();
        let real: Vec<_> =
            exit_code::TABLE.iter().map(|(code, meaning)| (*code, (*meaning).to_owned())).collect();
        assert_eq!(documented, real);
    }

    #[test]
    fn the_driver_protocol_page_is_complete() {
        let page = text("docs/driver-protocol.md");
        let methods: BTreeSet<_> = table(&page, "| method | params | result |")
            .iter()
            .flat_map(|row| quoted(&row[0]).into_iter().map(str::to_owned).collect::<Vec<_>>())
            // What every adapter may be asked, declared or not.
            .filter(|method| !matches!(method.as_str(), "hello" | "bench"))
            .collect();
        assert_eq!(methods, OPERATIONS.map(str::to_owned).into());

        let (_, after) = page.split_once("\nFeatures: ").unwrap();
        let paragraph = after.split("\n\n").next().unwrap();
        let features: BTreeSet<_> = quoted(paragraph).into_iter().collect();
        assert_eq!(features, FEATURES.into());
    }

    #[test]
    fn the_profile_in_the_docs_is_the_reference_clients() {
        use sparring_scenarios::profile::Profile;
        let page = text("docs/profiles.md");
        let block = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        assert_eq!(Profile::parse("docs/profiles.md", block), Profile::reference());
    }

    #[test]
    fn the_code_map_has_every_crate() {
        let map = text("ARCHITECTURE.md");
        for name in members().keys() {
            assert!(map.contains(&format!("(`{name}`)")), "ARCHITECTURE.md does not say where {name} is");
        }
        assert!(map.lines().count() <= 300, "a map as large as the land is no map");
        for module in PURE {
            let krate = module.split('/').next().unwrap();
            assert!(map.contains(&format!("{krate}/")), "{module}");
        }
    }

    #[test]
    fn links_lead_somewhere() {
        let mut links = 0;
        for page in files().iter().filter(|file| file.ends_with(".md")) {
            for rest in text(page).split("](").skip(1) {
                let link = rest.split(')').next().unwrap();
                let target = link.split('#').next().unwrap();
                if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let path = root().join(page).parent().unwrap().join(target);
                assert!(path.exists(), "{page} links to {link}");
                links += 1;
            }
        }
        assert!(links > 5, "links are found at all");
    }

    /// Paths that exist on one machine only: this tree's own, this user's, and those of common kinds of machine.
    #[test]
    fn no_file_knows_its_machine() {
        let mut machine: Vec<String> = ["work", "root", "Users", "home/runner", "github/workspace"]
            .map(|folder| format!("/{folder}/"))
            .into();
        machine.push(root().to_str().unwrap().to_owned());
        if let Some(home) = std::env::var("HOME").ok().filter(|home| home.len() > 1) {
            machine.push(format!("{}/", home.trim_end_matches('/')));
        }
        for file in files() {
            // What is not text has no paths that a person put there.
            let Ok(text) = fs::read_to_string(root().join(&file)) else { continue };
            for (i, line) in text.lines().enumerate() {
                for path in &machine {
                    for (at, _) in line.match_indices(path.as_str()) {
                        // A path begins here; `https://host/work/` and `a/root/b` are others.
                        let before = line[..at].chars().next_back();
                        let begins = !before.is_some_and(|c| c.is_alphanumeric() || "./-_}".contains(c));
                        assert!(!begins, "{file}:{}: `{path}` is a path of one machine", i + 1);
                    }
                }
            }
        }
    }

    /// A field that nothing reads is a promise that the reference client keeps or breaks by chance.
    #[test]
    fn every_setting_is_read_by_the_host() {
        let is_code = |path: &String| {
            path.ends_with(".rs")
                && !path.ends_with("tests.rs")
                && (path.starts_with("client/host/src/") || path.starts_with("client/cli/src/"))
        };
        let code: String = files().iter().filter(|path| is_code(path)).map(|path| text(path)).collect();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let reads = |name: &str| {
            let dotted = format!(".{name}");
            // A field, and neither a method nor the beginning of a longer name.
            code.match_indices(&dotted).any(|(at, _)| {
                let rest = code.get(at + dotted.len()..).unwrap_or_default();
                !rest.starts_with(|c: char| is_word(c) || c == '(')
            })
        };
        let ids = sparring_profiles::FIELDS.iter().map(|field| field.id);
        let idle: Vec<&str> = ids
            .filter(|id| !OF_DRIVERS.contains(id))
            .filter(|id| !id.split_once('.').is_some_and(|(_, name)| reads(name)))
            .collect();
        assert!(idle.is_empty(), "no code of the host reads {idle:?}");
    }
}
