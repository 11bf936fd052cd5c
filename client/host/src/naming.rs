//! Names under which a model sees the tools of several servers.

mod charset;
mod compose;

pub use charset::Charset;
pub use compose::ProfileNames;

use crate::error::HostError;
use std::collections::{BTreeSet, HashMap, HashSet};

/// What wants a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Claim {
    /// A tool of the host's own, under exactly this name. It never yields.
    Own(String),
    /// A wrapper tool of a server, by a template with `{server}`.
    Wrapper {
        /// The server.
        server: String,
        /// Such as `{server}__read_resource`.
        template: String,
    },
    /// A server's tool.
    Tool {
        /// The server.
        server: String,
        /// The raw name.
        tool: String,
    },
}

impl Claim {
    /// A server's tool.
    pub fn tool(server: impl Into<String>, tool: impl Into<String>) -> Self {
        Self::Tool { server: server.into(), tool: tool.into() }
    }
}

/// The outcome of [`Naming::compose`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Composed {
    /// One for each claim, in their order, all distinct. `None`: it is left out.
    pub names: Vec<Option<String>>,
    /// What was left out or replaced, in words for the user.
    pub warnings: Vec<String>,
}

/// Gives composed names. The default is [`ProfileNames`].
pub trait Naming: Send + Sync {
    /// A name for each claim.
    ///
    /// # Errors
    /// If two claim one name, and the host takes that as a mistake of the configuration.
    fn compose(&self, claims: &[Claim]) -> Result<Composed, HostError>;

    /// Other names under which a call reaches the claim too.
    fn aliases(&self, claim: &Claim) -> Vec<String>;
}

/// Finds the claim that a name stands for. Names are looked up, never taken apart.
#[derive(Debug, Clone, Default)]
pub struct NameTable {
    names: HashMap<String, usize>,
    aliases: HashMap<String, usize>,
}

impl NameTable {
    /// The table of `claims` with the names that they got.
    pub fn new(naming: &dyn Naming, claims: &[Claim], names: &[Option<String>]) -> Self {
        let named = || names.iter().enumerate().filter_map(|(at, name)| Some((at, name.as_ref()?)));
        let by_name: HashMap<String, usize> = named().map(|(at, name)| (name.clone(), at)).collect();
        let mut aliases = HashMap::new();
        let mut ambiguous = HashSet::new();
        for (at, _) in named() {
            let own: BTreeSet<String> =
                claims.get(at).map(|claim| naming.aliases(claim)).into_iter().flatten().collect();
            for alias in own {
                if by_name.contains_key(&alias) || ambiguous.contains(&alias) {
                    continue;
                }
                if aliases.insert(alias.clone(), at).is_some() {
                    // No call may reach the wrong tool.
                    aliases.remove(&alias);
                    ambiguous.insert(alias);
                }
            }
        }
        Self { names: by_name, aliases }
    }

    /// The index of the claim of that name, or of that alias.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).or_else(|| self.aliases.get(name)).copied()
    }
}

/// What `{server}` becomes where slugs are opaque: lower case letters, digits and single hyphens. A name without any of
/// these gets a hash.
pub fn slug(server: &str) -> String {
    let mut slug = String::new();
    for c in server.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => slug.push(c),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { format!("server-{}", compose::hex(&[server], 8)) } else { slug.to_owned() }
}
