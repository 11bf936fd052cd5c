//! Faults in where servers come from: files, projects, other programs.

use crate::drivers::ClientSetup;
use crate::mutants::decorate::requests;
use crate::mutants::{Mutant, of_host, settings};
use sparring_client::http::Purpose;
use sparring_host::config::{ConfigFiles, ConfigSource, Loaded};
use sparring_host::{HostError, Surroundings};
use std::sync::Arc;

type Reading = fn(&dyn ConfigSource, &Surroundings) -> Result<Loaded, HostError>;

/// Reads the configuration in another way.
struct Misread {
    right: Arc<dyn ConfigSource>,
    reading: Reading,
}

impl ConfigSource for Misread {
    fn load(&self, around: &Surroundings) -> Result<Loaded, HostError> {
        (self.reading)(&*self.right, around)
    }
}

fn reads(setup: &mut ClientSetup, reading: Reading) {
    setup.parts(move |parts| {
        parts.config = Arc::new(Misread { right: Arc::clone(&parts.config), reading });
    });
}

/// As seen from each folder of the project.
fn whole_tree(right: &dyn ConfigSource, around: &Surroundings) -> Result<Loaded, HostError> {
    let mut all = right.load(around)?;
    let folders = around.project.as_ref().and_then(|project| std::fs::read_dir(project).ok());
    for folder in folders.into_iter().flatten().flatten() {
        let there = right.load(&Surroundings { cwd: folder.path(), ..around.clone() })?;
        let new = there.entries.into_iter().filter(|entry| all.entries.iter().all(|e| e.name != entry.name));
        let new: Vec<_> = new.collect();
        all.entries.extend(new);
    }
    Ok(all)
}

/// Only what stands in the file that was read last (or first), and nothing of other files.
fn one_file(mut loaded: Loaded, last: bool) -> Loaded {
    let one = if last { loaded.entries.last() } else { loaded.entries.first() };
    let file = one.and_then(|entry| entry.source.file.clone());
    loaded.entries.retain(|entry| entry.source.file == file);
    loaded
}

pub(super) const MUTANTS: &[Mutant] = &[
    of_host("mewbo", "reads-whole-tree", "Takes the servers of all folders of the project.", |s| {
        reads(s, whole_tree);
    }),
    of_host("mewbo", "subtree-replaces-project", "Forgets the project where a folder has servers.", |s| {
        reads(s, |right, around| right.load(around).map(|loaded| one_file(loaded, false)));
    }),
    of_host("chaz", "folder-replaces-list", "Forgets the list where there is a folder of servers.", |s| {
        reads(s, |right, around| right.load(around).map(|loaded| one_file(loaded, true)));
    }),
    of_host(
        "zidane",
        "drops-servers-on-unreadable-file",
        "Has no servers while it can't read its configuration.",
        |s| reads(s, |right, around| Ok(right.load(around).unwrap_or_default())),
    ),
    of_host("zidane", "imports-unasked", "Takes servers of other programs over by itself.", |s| {
        let files = ConfigFiles::new(&s.host).import(true);
        s.parts(move |parts| parts.config = Arc::new(files));
    }),
    of_host("zut", "headers-on-post-only", "Sends configured header fields with POST only.", |s| {
        requests(s, |request| {
            if request.purpose != Purpose::McpPost {
                request.headers.retain(|(name, _)| !name.to_lowercase().starts_with("x-"));
            }
        });
    }),
];

pub(super) const SETTINGS: &[Mutant] = &settings![
    "chaz": "command-wins", "Takes the program where there is a URL too.",
        "config.keys" = { "command": "command", "args": "args", "env": "env" };
    "chaz": "refuses-both", "Does not take an entry with a program and a URL.", "config.both" = "error";
    "mewbo": "no-subtrees", "Reads the configuration of the project alone.", "config.subtree" = false;
    "zidane": "reads-configuration-once", "Does not see edits while it runs.", "config.reload" = "start";
    "mewbo": "reads-configuration-with-each-run", "Sees edits too early.", "config.reload" = "run";
    "chaz": "reads-configuration-with-each-session", "Sees edits too early.", "config.reload" = "session";
    "mouaif": "knows-no-legacy-places", "Does not read the place that is given up.",
        "config.files" = ["{project}/.mcp.json"];
    "mouaif": "reads-legacy-places-for-ever", "Reads the place that is given up beside the new one.",
        "config.legacy" = [];
    "mouaif": "ignores-inline-caches", "Does not take tools over that stand in an entry.",
        "config.inline_cache" = null;
    "zut": "off-switch-ignored", "Starts what is switched off.", "startup.off_switch" = false;
    "zidane": "imports-nothing", "Takes over no servers of other programs.", "config.imports" = [];
    "zidane": "imports-no-urls", "Takes over no servers with URLs.", "config.imports_http" = [];
    "zidane": "foreign-beats-own", "Takes the entries of other programs for stronger ones.",
        "config.files" = ["{project}/.mcp.json", "{project}/.agents/mcps.json"];
    "chaz": "ignores-folder", "Reads no folder of servers.", "config.folder_key" = null;
    "zut": "other-format", "Reads another format.", "config.format" = "toml";
    "mewbo": "ignores-second-root-key", "Knows one key for servers.", "config.root_keys" = ["servers"];
    "zidane": "lists-only", "Reads no maps of servers.", "config.shape" = ["list"];
    "zidane": "one-name-for-urls", "Knows one name for URLs.", "config.keys" = {
        "command": "command", "args": "args", "env": "env", "url": "url", "type": ["transport", "type"]
    };
    "zut": "one-spelling-for-http", "Knows one spelling of a transport.",
        "config.types" = { "stdio": ["stdio"], "http": ["http"] };
    "zut": "needs-types", "Does not connect where no transport is given.", "config.infers_type" = false;
    "mouaif": "lists-as-configured", "Lists servers in the order of the configuration.",
        "config.listing" = "configured";
    "zidane": "project-is-cwd", "Takes the working directory for the project.", "config.project_root" = "cwd";
    "zidane": "project-must-be-given", "Has no project where none is given.", "config.project_root" = "given";
    "mewbo": "folder-is-project", "Takes the working directory for the project.", "config.project_root" = "cwd";
    "zut": "skips-headers", "Replaces no variables in header fields.",
        "env.expand_in" = ["command", "args", "cwd", "env", "url"];
    "zut": "no-headers-from-variables", "Sends no header fields of variables.", "auth.header_from_env" = false;
    "zut": "no-bearer-from-variables", "Sends no token of a variable.", "auth.bearer_from_env" = false;
];
