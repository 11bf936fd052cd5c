//! Faults in what hosts configure, in environments, in names, and in how results and wrappers reach the model.

use crate::drivers::ClientSetup;
use crate::mutants::{Mutant, of_host, settings};
use sparring_host::env::EnvRules;
use sparring_host::{HostError, ServerEntry, Surroundings};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The rules for environments, with another answer to one question.
struct Bent {
    rules: Arc<dyn EnvRules>,
    /// Variables are replaced once more.
    twice: bool,
    /// What is inherited lies on top.
    inherited_wins: bool,
}

impl EnvRules for Bent {
    fn expand(&self, entry: &ServerEntry, around: &Surroundings) -> Result<ServerEntry, HostError> {
        let once = self.rules.expand(entry, around)?;
        if self.twice { self.rules.expand(&once, around) } else { Ok(once) }
    }

    fn environment(&self, entry: &ServerEntry, around: &Surroundings) -> BTreeMap<String, String> {
        let mut child = self.rules.environment(entry, around);
        if self.inherited_wins {
            child.extend(around.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        child
    }

    fn cwd(&self, entry: &ServerEntry, around: &Surroundings) -> PathBuf {
        self.rules.cwd(entry, around)
    }

    fn headers(
        &self,
        entry: &ServerEntry,
        around: &Surroundings,
    ) -> Result<Vec<(String, String)>, HostError> {
        self.rules.headers(entry, around)
    }
}

fn bends(setup: &mut ClientSetup, bend: fn(&mut Bent)) {
    setup.parts(move |parts| {
        let rules = Arc::clone(&parts.env);
        let mut bent = Bent { rules, twice: false, inherited_wins: false };
        bend(&mut bent);
        parts.env = Arc::new(bent);
    });
}

pub(super) const MUTANTS: &[Mutant] = &[
    of_host("chaz", "inherited-beats-own", "Lets its own variables win over those of the entry.", |s| {
        bends(s, |bent| bent.inherited_wins = true);
    }),
    of_host("zut", "expands-twice", "Replaces variables in the values of variables.", |s| {
        bends(s, |bent| bent.twice = true);
    }),
];

pub(super) const SETTINGS: &[Mutant] = &settings![
    "chaz": "minimal-environment", "Passes only a few variables on.", "env.inherit" = "minimal";
    "zut": "leaks-environment", "Passes its whole environment on.", "env.inherit" = "all";
    "zut": "bare-environment", "Passes nothing on.", "env.inherit" = "none";
    "mouaif": "no-denylist", "Passes dangerous variables on.", "env.denylist" = [];
    "mouaif": "denies-everything", "Passes nothing on where it should leave out a few.", "env.inherit" = "none";
    "mouaif": "denylist-after-override", "Leaves out what the user has set on purpose.",
        "env.explicit_beats_denylist" = false;
    "zidane": "strict-ignored", "Passes its environment on though the entry is strict.", "env.strict_option" = false;
    "zut": "pass-ignored", "Does not pass named variables on.", "env.pass_option" = false;
    "zut": "cwd-from-project", "Resolves working directories in the project.", "env.cwd_base" = "project";
    "mouaif": "cwd-from-host", "Resolves working directories in its own.", "env.cwd_base" = "host";
    "zut": "default-cwd-is-project", "Starts servers in the project.", "env.cwd_default" = "project";
    "zut": "expands-nothing", "Replaces no variables.", "env.expand" = [];
    "zut": "no-defaults", "Knows no defaults of variables.", "env.expand" = ["${VAR}"];
    "mewbo": "braces-only", "Does not know variables without braces.", "env.expand" = ["${VAR}"];
    "zut": "expands-env-only", "Replaces variables in `env` alone.", "env.expand_in" = ["env"];
    "zut": "unset-becomes-empty", "Takes an unset variable for an empty one.", "env.unset" = "empty";
    "mouaif": "expands-argv", "Replaces variables in arguments.", "env.argv_verbatim" = false;
    "chaz": "hashes-clashing-names", "Offers both of two tools with one name.", "naming.on_clash" = "hash";
    "zidane": "knows-no-aliases", "Does not know other forms of names.", "naming.aliases" = [];
    "zut": "describes-pictures", "Describes pictures instead of showing them.", "results.image" = "describe";
    "zut": "hands-on-sound", "Hands on sound.", "results.audio" = "audio";
    "mouaif": "drops-embedded-image", "Drops pictures in resources.", "results.embedded_image" = "drop";
    "zut": "describes-embedded-text", "Describes text in resources.", "results.embedded_text" = "describe";
    "mouaif": "stub-contains-base64", "Hands on whole blobs.", "results.embedded_blob" = "keep";
    "zut": "drops-links", "Drops links to resources.", "results.resource_link" = "drop";
    "zut": "always-structured", "Hands on structured content beside other content.", "results.structured" = "both";
    "zut": "never-structured", "Drops structured content.", "results.structured" = "ignore";
    "zut": "no-text-limit", "Hands on text of any length.", "results.text_limit" = null;
    "zut": "limits-text-early", "Cuts text much too early.", "results.text_limit" = [900, 1000];
    "zut": "limit-per-block", "Limits each block by itself.", "results.limit_scope" = "block";
    "chaz": "no-wrappers", "Has no tools for resources.", "wrappers.resources" = [];
    "chaz": "wrappers-always", "Has tools for what is not there.", "wrappers.only_advertised" = false;
    "chaz": "first-content-only", "Reads only the first content.", "wrappers.read_joins_text" = false;
    "chaz": "size-of-base64", "Tells other sizes.", "wrappers.blob_line" = "[binary {mime}: ~12 bytes]";
    "chaz": "no-prompt-wrappers", "Has no tools for prompts.", "wrappers.prompts" = [];
    "chaz": "no-marks", "Does not mark required arguments.", "wrappers.required_mark" = "";
    "chaz": "prompt-without-roles", "Leaves the roles out of prompts.", "wrappers.prompt_line" = "{text}";
    "zut": "last-file-wins", "Takes the weakest file for the strongest.",
        "config.files" = ["{env:ZUT_HOME}/mcp.json", "{cwd}/.zut/mcp.json"];
    "zut": "merges-env-of-shadowed-entry", "Merges entries of one name.", "config.merge" = "merge-fields";
    "zut": "other-root-key", "Looks for servers under another key.", "config.root_keys" = ["servers"];
    "mewbo": "other-words", "Does not know the words of entries.",
        "config.keys" = { "url": "address", "argv": "program" };
];
