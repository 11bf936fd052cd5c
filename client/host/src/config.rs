//! The configuration: which servers there are.

use crate::entry::ServerEntry;
use crate::error::HostError;
use crate::surroundings::Surroundings;
use serde_json::Value;

/// Where the servers come from. The default is the files of the profile.
pub trait ConfigSource: Send + Sync {
    /// All servers, as configured: merged, but with variables not yet replaced. Called again whenever an edit may count;
    /// an equal answer means that nothing has changed.
    ///
    /// # Errors
    /// [`HostError::Config`] for a file that can't be read, with place and field. Who has read it before keeps what it
    /// had. A single entry that is wrong is no error, but one of [`Loaded::faults`].
    fn load(&self, around: &Surroundings) -> Result<Loaded, HostError>;
}

/// A configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// The servers, those switched off included, strongest place first, in the order of the files.
    pub entries: Vec<ServerEntry>,
    /// Entries that can't be used.
    pub faults: Vec<Fault>,
    /// Caches of tools that stand in the configuration, which belong elsewhere: server and tools. They are dropped from
    /// the file with its next write.
    pub tool_caches: Vec<(String, Vec<Value>)>,
}

/// An entry that can't be used. The server counts as configured, and as failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The server's name, or its place in the list.
    pub server: String,
    /// What is wrong, with file, place and field. Values are not part of it.
    pub message: String,
}

/// Servers that a program gives, instead of files.
#[derive(Debug, Clone, Default)]
pub struct FixedConfig(pub Vec<ServerEntry>);

impl ConfigSource for FixedConfig {
    fn load(&self, _: &Surroundings) -> Result<Loaded, HostError> {
        Ok(Loaded { entries: self.0.clone(), ..Loaded::default() })
    }
}
