//! Embeds what the program carries inside: the catalogue, digested from YAML to JSON so that a run does not spend time on
//! it, and the scenario files, as they are.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed=build.rs");

    digest(&here.join("requirements/client-requirements.yaml"), &out.join("requirements.json"))?;
    digest(&here.join("requirements/promises.yaml"), &out.join("promises.json"))?;

    let files = here.join("files");
    println!("cargo::rerun-if-changed={}", files.display());
    let mut found = Vec::new();
    collect(&files, &mut found)?;
    found.sort();
    let mut table = String::from("&[\n");
    for path in &found {
        let name = path
            .strip_prefix(&files)?
            .components()
            .map(|c| c.as_os_str().to_string_lossy())
            .collect::<Vec<_>>()
            .join("/");
        writeln!(table, "    ({name:?}, include_str!({:?})),", path.display().to_string())?;
    }
    table.push_str("]\n");
    fs::write(out.join("files.rs"), table)?;
    Ok(())
}

/// Rewrites a YAML file as JSON. What the entries have to look like is checked where they are read.
fn digest(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", from.display());
    let text = fs::read_to_string(from)?;
    let value: serde_json::Value =
        serde_saphyr::from_str(&text).map_err(|e| format!("{}: {e}", from.display()))?;
    fs::write(to, serde_json::to_string(&value)?)?;
    Ok(())
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "yaml") {
            println!("cargo::rerun-if-changed={}", path.display());
            found.push(path);
        }
    }
    Ok(())
}
