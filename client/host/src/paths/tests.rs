use super::*;
use serde_json::json;
use sparring_profiles::Profile;
use std::os::unix::fs::symlink;

struct Place {
    _folder: tempfile::TempDir,
    real: PathBuf,
    link: PathBuf,
}

/// A project `p` with a link to it, and neighbours.
fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let real = base.join("p");
    std::fs::create_dir_all(real.join("sub")).unwrap();
    std::fs::create_dir_all(base.join("p-evil")).unwrap();
    std::fs::write(real.join("a.txt"), "").unwrap();
    let link = base.join("link");
    symlink(&real, &link).unwrap();
    symlink("../p-evil", real.join("out")).unwrap();
    symlink("/nowhere/at/all", real.join("dangling")).unwrap();
    symlink("sub", real.join("inner")).unwrap();
    symlink("circle", real.join("circle")).unwrap();
    Place { _folder: folder, real, link }
}

fn settings() -> RootsSettings {
    Profile::load("mouaif").unwrap().settings().roots
}

#[test]
fn path_arguments_become_canonical_and_escapes_are_refused() {
    let Place { _folder, real, link } = place();
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let inside = |tail: &str| Some(text(&real.join(tail)));
    let table = [
        ("a.txt".to_owned(), inside("a.txt")),
        (text(&real.join("a.txt")), inside("a.txt")),
        (text(&link.join("a.txt")), inside("a.txt")),
        ("./sub/../a.txt".to_owned(), inside("a.txt")),
        ("inner/new".to_owned(), inside("sub/new")),
        ("inner/../a.txt".to_owned(), inside("a.txt")),
        ("not/yet/there.txt".to_owned(), inside("not/yet/there.txt")),
        (".".to_owned(), Some(text(&real))),
        ("circle".to_owned(), inside("circle")),
        ("../x".to_owned(), None),
        ("sub/../../p-evil/x".to_owned(), None),
        (text(&real.with_file_name("p-evil")), None),
        ("/etc/passwd".to_owned(), None),
        ("out/x".to_owned(), None),
        ("out/../a.txt".to_owned(), None),
        ("dangling".to_owned(), None),
    ];
    for project in [&real, &link] {
        let paths = ProjectPaths::new(&settings(), project, Some(project));
        for (given, expected) in &table {
            let arguments = Map::from_iter([("outputPath".to_owned(), Value::from(given.as_str()))]);
            let sent = paths.arguments(arguments);
            match expected {
                Some(expected) => assert_eq!(sent.unwrap()["outputPath"], json!(expected), "{given}"),
                None => assert_eq!(
                    sent,
                    Err(HostError::OutsideProject { field: "outputPath".into(), path: given.clone() }),
                    "{given}"
                ),
            }
        }
    }
}

#[test]
fn all_else_in_arguments_stays() {
    let Place { _folder, real, link: _ } = place();
    let paths = ProjectPaths::new(&settings(), &real, Some(&real));
    let arguments = json!({
        "filePath": "", "outputPath": 3, "outputDirPath": ["a"], "requestFilePath": {"filePath": "../x"},
        "responseFilePath": null, "path": "../x", "nested": {"filePath": "../x"}, "filepath": "../x",
    });
    let arguments = arguments.as_object().unwrap().clone();
    assert_eq!(paths.arguments(arguments.clone()), Ok(arguments));
}

#[test]
fn an_escape_passes_where_the_host_says_so_and_one_spelling_may_be_enough() {
    let Place { _folder, real, link } = place();
    let pass = RootsSettings { escape: Escape::Pass, ..settings() };
    let sent = |settings: &RootsSettings, path: &Path| {
        let arguments = Map::from_iter([("filePath".to_owned(), Value::from(path.to_str().unwrap()))]);
        ProjectPaths::new(settings, &real, Some(&link)).arguments(arguments)
    };
    let outside = real.with_file_name("p-evil");
    assert_eq!(sent(&pass, &real.join("out")).unwrap()["filePath"], json!(outside.to_str()));
    let one = RootsSettings { both_spellings: false, ..settings() };
    assert!(sent(&one, &link.join("a.txt")).is_err());
    assert!(sent(&one, &real.join("a.txt")).is_ok());
    assert!(sent(&one, Path::new("a.txt")).is_ok());
}

#[test]
fn the_root_is_the_declared_folder() {
    let Place { _folder, real, link } = place();
    let odd = real.join("ä b%#?");
    std::fs::create_dir(&odd).unwrap();
    let root = |answer, canonical, project: &Path| {
        let settings = RootsSettings { answer, canonical, ..settings() };
        ProjectPaths::new(&settings, &link, Some(project)).root().map(|root| root.uri)
    };
    let uri = |path: &Path| Some(format!("file://{}", path.display()));
    assert_eq!(root(RootAnswer::Project, true, &link), uri(&real));
    assert_eq!(root(RootAnswer::Project, false, &link), uri(&link));
    assert_eq!(root(RootAnswer::Cwd, true, Path::new("/")), uri(&real));
    assert_eq!(root(RootAnswer::None, true, &link), None);
    let encoded = root(RootAnswer::Project, true, &odd).unwrap();
    assert!(encoded.ends_with("/%C3%A4%20b%25%23%3F"), "{encoded}");
    assert_eq!(url::Url::parse(&encoded).unwrap().to_file_path(), Ok(odd));
}

#[test]
fn a_working_directory_outside_is_refused() {
    let Place { _folder, real, link } = place();
    let rules =
        |cwd_escape| ProjectPaths::new(&RootsSettings { cwd_escape, ..settings() }, &link, Some(&link));
    for (cwd, inside) in [
        (link.join("sub"), true),
        (real.join("sub/../sub"), true),
        (PathBuf::from("sub"), true),
        (real.join("../x"), false),
        (real.with_file_name("p-evil"), false),
        (real.join("out"), false),
        (PathBuf::from("/"), false),
    ] {
        assert_eq!(rules(Escape::Refuse).child_cwd(&cwd).is_ok(), inside, "{cwd:?}");
        assert!(rules(Escape::Pass).child_cwd(&cwd).is_ok());
    }
}
