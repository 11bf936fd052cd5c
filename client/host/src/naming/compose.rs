//! The naming that a profile describes.

use super::{Charset, Claim, Composed, Naming, slug};
use crate::error::HostError;
use crate::template;
use sha2::{Digest as _, Sha256};
use sparring_profiles::{Clash, NamingSettings, Overflow, ServerSlug};
use std::collections::{HashMap, HashSet};

/// The naming of `[naming]`: a template, a class of characters, a longest length, and what is done about clashes.
///
/// A suffix is a hash of the raw name, and each member of a clash gets one, so that names depend neither on the run nor
/// on the order of arrival. Where names need not be stable, it is a hash of the turn in which they come.
#[derive(Debug, Clone)]
pub struct ProfileNames {
    settings: NamingSettings,
    charset: Charset,
}

/// The first `digits` hexadecimal digits of a hash over the parts.
pub(super) fn hex(parts: &[&str], digits: usize) -> String {
    nibbles(parts, 0).take(digits).map(|n| char::from_digit(n.into(), 16).unwrap_or_default()).collect()
}

fn nibbles(parts: &[&str], round: u32) -> impl Iterator<Item = u8> {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    if round > 0 {
        hash.update(round.to_be_bytes());
    }
    hash.finalize().into_iter().flat_map(|byte| [byte >> 4, byte & 15])
}

impl ProfileNames {
    /// Names as these settings want them.
    pub fn new(settings: NamingSettings) -> Self {
        let charset = Charset::parse(&settings.charset);
        Self { settings, charset }
    }

    fn max_len(&self) -> usize {
        usize::try_from(self.settings.max_len).unwrap_or(usize::MAX)
    }

    /// `{server}` and `{tool}` are replaced in one go, since a server may be called `{tool}`.
    fn fill<'a>(&self, template: &'a str, server: &str, tool: &'a str) -> String {
        let server = match self.settings.server_slug {
            ServerSlug::AsIs => server.to_owned(),
            ServerSlug::Opaque => slug(server),
        };
        let filled = template::fill(template, |name| match name {
            "server" => Some(server.as_str()),
            "tool" => Some(tool),
            _ => None,
        });
        self.charset.clean(&filled)
    }

    fn plain(&self, claim: &Claim) -> String {
        match claim {
            Claim::Own(name) => name.clone(),
            Claim::Wrapper { server, template } => self.fill(template, server, ""),
            Claim::Tool { server, tool } => self.fill(&self.settings.template, server, tool),
        }
    }

    /// The name with a suffix, within the longest length.
    fn hashed(&self, claim: &Claim, plain: &str, round: u32) -> String {
        let round_of_all = round.to_string();
        let parts = match claim {
            // The suffix is that of its turn, whoever has it.
            _ if !self.settings.stable => [round_of_all.as_str(), "", "turn"],
            Claim::Own(name) => [name.as_str(), "", "own"],
            Claim::Wrapper { server, template } => [server.as_str(), template.as_str(), "wrapper"],
            Claim::Tool { server, tool } => [server.as_str(), tool.as_str(), "tool"],
        };
        let digits = self.charset.digits();
        let len = usize::try_from(self.settings.hash_len).unwrap_or_default().min(self.max_len());
        let suffix: String =
            nibbles(&parts, round).filter_map(|n| digits.get(usize::from(n))).take(len).collect();
        let separator = self.charset.separator();
        let keep = self.max_len().saturating_sub(suffix.chars().count() + usize::from(separator.is_some()));
        let mut name: String = plain.chars().take(keep).collect();
        if !name.is_empty() {
            name.extend(separator);
        }
        name + &suffix
    }

    /// The name before clashes are looked at, and whether it needs a suffix in any case.
    fn first(&self, claim: &Claim, warnings: &mut Vec<String>) -> Option<(String, bool)> {
        let plain = self.plain(claim);
        if plain.chars().count() <= self.max_len() || matches!(claim, Claim::Own(_)) {
            return Some((plain, false));
        }
        match self.settings.on_overflow {
            Overflow::Hash => Some((plain, true)),
            Overflow::Truncate => Some((plain.chars().take(self.max_len()).collect(), false)),
            Overflow::Drop => {
                warnings.push(format!(
                    "{} is left out: its name would be longer than {} characters",
                    shown(claim),
                    self.settings.max_len
                ));
                None
            }
        }
    }

    /// Names by hashes, of those whose name is in want of one. They are given in an order of their own, so that a second
    /// round, if one is ever needed, concerns the same claim each time.
    fn hashes<'a>(
        &self,
        mut wanting: Vec<(&'a Claim, &str)>,
        taken: &mut HashSet<String>,
    ) -> HashMap<&'a Claim, String> {
        if self.settings.stable {
            wanting.sort();
        }
        let mut seen = HashSet::new();
        wanting.retain(|one| seen.insert(*one));
        let mut named = HashMap::new();
        for (claim, plain) in wanting {
            let free = (0..1000).map(|round| self.hashed(claim, plain, round)).find(|n| !taken.contains(n));
            if let Some(free) = free {
                taken.insert(free.clone());
                named.insert(claim, free);
            }
        }
        named
    }
}

impl Naming for ProfileNames {
    fn compose(&self, claims: &[Claim]) -> Result<Composed, HostError> {
        let mut warnings = Vec::new();
        let first: Vec<Option<(String, bool)>> =
            claims.iter().map(|claim| self.first(claim, &mut warnings)).collect();
        // Who wants which name as it is.
        let mut wanted: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, name) in first.iter().enumerate() {
            if let Some((plain, false)) = name {
                wanted.entry(plain).or_default().push(at);
            }
        }
        let mut names: Vec<Option<String>> = vec![None; claims.len()];
        let mut taken = HashSet::new();
        let mut wanting: Vec<usize> = Vec::new();
        wanting
            .extend(first.iter().enumerate().filter(|(_, n)| matches!(n, Some((_, true)))).map(|(at, _)| at));
        let mut groups: Vec<(&str, Vec<usize>)> = wanted.into_iter().collect();
        groups.sort_by_key(|(_, members)| members.first().copied());
        for (plain, mut members) in groups {
            // One that is claimed twice is one.
            let mut seen = HashSet::new();
            members.retain(|at| claims.get(*at).is_some_and(|claim| seen.insert(claim)));
            let own = members.iter().position(|at| matches!(claims.get(*at), Some(Claim::Own(_))));
            let winner = match (own, self.settings.on_clash) {
                (Some(own), _) => Some(own),
                (None, _) if members.len() == 1 => Some(0),
                (None, Clash::Hash) => None,
                (None, Clash::SkipLater) => Some(0),
                (None, Clash::Replace) => Some(members.len() - 1),
                (None, Clash::Error) => {
                    let all: Vec<String> =
                        members.iter().filter_map(|at| claims.get(*at)).map(shown).collect();
                    return Err(HostError::Config(format!(
                        "{} would all be called {plain:?}: rename a server",
                        all.join(" and ")
                    )));
                }
            };
            for (n, at) in members.iter().enumerate() {
                if winner == Some(n) {
                    taken.insert(plain.to_owned());
                    if let Some(name) = names.get_mut(*at) {
                        *name = Some(plain.to_owned());
                    }
                } else if self.settings.on_clash == Clash::Hash {
                    wanting.push(*at);
                } else if let (Some(loser), Some(winner)) =
                    (claims.get(*at), winner.and_then(|n| members.get(n)).and_then(|at| claims.get(*at)))
                {
                    warnings.push(format!(
                        "{} is left out: the name {plain:?} is that of {}",
                        shown(loser),
                        shown(winner)
                    ));
                }
            }
        }
        let pairs = wanting.iter().filter_map(|at| {
            let (plain, _) = first.get(*at)?.as_ref()?;
            Some((claims.get(*at)?, plain.as_str()))
        });
        let hashed = self.hashes(pairs.collect(), &mut taken);
        let mut given = HashSet::new();
        for at in wanting {
            if let (Some(claim), Some(name)) = (claims.get(at), names.get_mut(at))
                && given.insert(claim)
            {
                *name = hashed.get(claim).cloned();
            }
        }
        Ok(Composed { names, warnings })
    }

    fn aliases(&self, claim: &Claim) -> Vec<String> {
        match claim {
            Claim::Tool { server, tool } => {
                self.settings.aliases.iter().map(|template| self.fill(template, server, tool)).collect()
            }
            Claim::Own(_) | Claim::Wrapper { .. } => Vec::new(),
        }
    }
}

fn shown(claim: &Claim) -> String {
    match claim {
        Claim::Own(name) => format!("the host's {name:?}"),
        Claim::Wrapper { server, template } => format!("{template:?} of {server:?}"),
        Claim::Tool { server, tool } => format!("{tool:?} of {server:?}"),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
