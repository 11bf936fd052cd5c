//! What the harness does by itself between operations: files of the case, and signals.

use super::Entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sparring_profiles::{Format, Neutral, Shape};
use std::collections::BTreeMap;

/// Arguments of [`Op::Write`](super::Op::Write). Paths start in the case's folder, which is the client's working directory
/// and holds its HOME as `home`; they never leave it. What is removed is removed first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Write {
    /// Files and folders to remove, with everything in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Files by path, with their text; a path that ends in `/` is a folder. Folders above are made.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Symbolic links by path, with what they point at: a path from the link's own folder, or an absolute one with
    /// `{case}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, String>,
    /// Modes by path, in octal, such as `"0644"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub modes: BTreeMap<String, String>,
}

/// Arguments of [`Op::Configure`](super::Op::Configure). A number that is too large for the profile means its last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Configure {
    /// Which of the profile's `config.files`, from 0; the strongest by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<u32>,
    /// This file instead, by its path in the case's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What `{project}` and `{cwd}` of `config.files` mean: a path in the case's folder, which it is itself by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Which of the scenario's servers are in it; all by default, and none if `entries` are given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// Entries by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entries: BTreeMap<String, Entry>,
    /// Which of the profile's `config.root_keys`, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_key: Option<u32>,
    /// Which of the profile's `config.shape`, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<u32>,
    /// Which of several names of a field (`config.keys`), from 0.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<Neutral, u32>,
    /// Which spelling of the transport (`config.types`), from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spelling: Option<u32>,
    /// Leave the transport out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untyped: bool,
    /// The file names this folder, from where it lies itself, for further files of one server each
    /// (`config.folder_key`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The file is one of such a folder: its only entry stands by itself, with its name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// The dialect of another host instead of the profile's, by the name of a built-in profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    /// The whole text of the file instead, such as one that can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

/// Arguments of [`Op::Disk`](super::Op::Disk).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// A file or folder in the case's folder.
    pub path: String,
    /// Say of each file whether it holds this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
}

/// Arguments of [`Op::Signal`](super::Op::Signal).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// `SIGINT`, `SIGTERM`, `SIGHUP` or `SIGKILL`; or `exit`: its stdin is closed, so that it ends by itself.
    pub signal: String,
}

/// The formats that a dialect can have, as their files end.
pub const fn extension(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Yaml => "yaml",
        Format::Toml => "toml",
    }
}

/// The shape where the profile says nothing: a list in YAML, else a map.
pub const fn usual_shape(format: Format) -> Shape {
    match format {
        Format::Yaml => Shape::List,
        Format::Json | Format::Toml => Shape::Map,
    }
}
