//! The files that show the words: examples first, then the scenarios of the product.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// A file, as a path from the root of the repository.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) value: Value,
    pub(crate) scenario: bool,
    /// It was written to show words.
    pub(crate) example: bool,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|e| e == "yaml") {
            found.push(path);
        }
    }
}

pub(crate) fn files() -> Vec<File> {
    let folders = [
        ("scenarios/scripts/examples", false, true),
        ("docs/examples/scenarios", true, true),
        ("scenarios/scripts", false, false),
        ("scenarios/files", true, false),
    ];
    let mut files: Vec<File> = Vec::new();
    for (folder, scenario, example) in folders {
        let mut found = Vec::new();
        collect(&root().join(folder), &mut found);
        found.sort();
        assert!(!found.is_empty(), "{folder}");
        for path in found {
            let text = std::fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
            if files.iter().any(|file| file.path == path) {
                continue;
            }
            let value = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
            files.push(File { path, text, value, scenario, example });
        }
    }
    files
}

/// A part of a file that can stand by itself: the first line in the file, and the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excerpt {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The part of a file that a way leads into: an item of a list at the top, or all that stands under a key at the top.
pub(crate) fn excerpt(text: &str, way: &[Value]) -> Option<Excerpt> {
    let lines: Vec<&str> = text.lines().collect();
    let key = way.first()?.as_str()?;
    let first = lines.iter().position(|line| line.starts_with(&format!("{key}:")))?;
    let last = end(&lines, first, 0);
    let block = || Excerpt { line: first + 1, text: trimmed(&lines[first..last]) };
    let Some(item) = way.get(1).and_then(Value::as_u64) else { return Some(block()) };
    let Some(indent) = lines[first + 1..last]
        .iter()
        .find_map(|l| l.find(|c| c != ' ').filter(|&i| l[i..].starts_with("- ")))
    else {
        return Some(block());
    };
    let starts: Vec<usize> = (first + 1..last)
        .filter(|&n| lines[n].find(|c| c != ' ') == Some(indent) && lines[n][indent..].starts_with("- "))
        .collect();
    let start = *starts.get(usize::try_from(item).unwrap())?;
    let stop = starts.iter().find(|&&n| n > start).copied().unwrap_or(last);
    Some(Excerpt { line: start + 1, text: format!("{key}:\n{}", trimmed(&lines[start..stop])) })
}

/// Where the block that begins in a line ends: before the next line that is not indented further.
fn end(lines: &[&str], first: usize, indent: usize) -> usize {
    let next = lines.iter().enumerate().skip(first + 1).find(|(_, line)| {
        let at = line.find(|c| c != ' ');
        at.is_some_and(|at| at <= indent && !line[at..].starts_with('#'))
    });
    next.map_or(lines.len(), |(n, _)| n)
}

fn trimmed(lines: &[&str]) -> String {
    let mut lines = lines.to_vec();
    while lines.last().is_some_and(|l| l.trim().is_empty() || l.trim_start().starts_with('#')) {
        lines.pop();
    }
    lines.join("\n")
}
