//! Names under which a model sees the tools of several servers.

use sha2::{Digest as _, Sha256};
use std::collections::HashMap;

/// A tool as its server names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RawName {
    /// The server's name.
    pub server: String,
    /// The tool's name, as in `tools/list`.
    pub tool: String,
}

/// Gives composed names.
pub trait Naming: Send + Sync {
    /// One composed name for each of `tools`, in their order; `None`: the tool is left out. The names have to be
    /// distinct.
    fn compose(&self, tools: &[RawName]) -> Vec<Option<String>>;
}

/// The default naming: a template, a charset, a longest length. Where two tools would get one name, or a name had
/// to be changed, a hash of the raw name is appended. So the names do not depend on the order of arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedNames {
    /// With `{server}` and `{tool}`.
    pub template: String,
    /// Characters that stay besides ASCII letters and digits; all others become `_`.
    pub others: String,
    /// The longest name, in characters.
    pub max_len: usize,
}

impl Default for HashedNames {
    fn default() -> Self {
        Self { template: "mcp__{server}__{tool}".into(), others: "_-".into(), max_len: 64 }
    }
}

/// Characters of the hash.
const HASH: usize = 8;

impl HashedNames {
    fn plain(&self, name: &RawName) -> String {
        let clean = |text: &str| -> String {
            text.chars()
                .map(|c| if c.is_ascii_alphanumeric() || self.others.contains(c) { c } else { '_' })
                .collect()
        };
        // Both are replaced in one go: a server may be called `{tool}`.
        let mut out = String::new();
        let mut rest = self.template.as_str();
        while let Some(at) = rest.find('{') {
            out.push_str(&clean(&rest[..at]));
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("{server}") {
                out.push_str(&clean(&name.server));
                rest = after;
            } else if let Some(after) = rest.strip_prefix("{tool}") {
                out.push_str(&clean(&name.tool));
                rest = after;
            } else {
                out.push('_');
                rest = &rest[1..];
            }
        }
        out.push_str(&clean(rest));
        out
    }

    fn hashed(&self, name: &RawName, plain: &str, round: u32) -> String {
        let mut hash = Sha256::new();
        hash.update(name.server.as_bytes());
        hash.update([0]);
        hash.update(name.tool.as_bytes());
        if round > 0 {
            hash.update(round.to_be_bytes());
        }
        let digest = hash.finalize();
        let hex: String = digest.iter().take(HASH / 2).map(|b| format!("{b:02x}")).collect();
        let keep = self.max_len.saturating_sub(HASH + 1);
        let start: String = plain.chars().take(keep).collect();
        let whole = if start.is_empty() { hex } else { format!("{start}_{hex}") };
        whole.chars().take(self.max_len).collect()
    }
}

impl Naming for HashedNames {
    fn compose(&self, tools: &[RawName]) -> Vec<Option<String>> {
        let plain: Vec<String> = tools.iter().map(|name| self.plain(name)).collect();
        let mut distinct: HashMap<&str, Vec<&RawName>> = HashMap::new();
        for (name, plain) in tools.iter().zip(&plain) {
            let owners = distinct.entry(plain).or_default();
            if !owners.contains(&name) {
                owners.push(name);
            }
        }
        let fits = |plain: &String| {
            plain.chars().count() <= self.max_len
                && distinct.get(plain.as_str()).is_some_and(|o| o.len() == 1)
        };
        let mut taken: HashMap<String, &RawName> = HashMap::new();
        for (name, plain) in tools.iter().zip(&plain) {
            if fits(plain) {
                taken.insert(plain.clone(), name);
            }
        }
        // In an order of their own, so that a second hash, if one is ever needed, goes to the same tool each time.
        let mut rest: Vec<(&RawName, &String)> = tools.iter().zip(&plain).filter(|(_, p)| !fits(p)).collect();
        rest.sort();
        rest.dedup();
        let mut named: HashMap<&RawName, String> = HashMap::new();
        for (name, plain) in rest {
            let free =
                (0..1000).map(|round| self.hashed(name, plain, round)).find(|n| !taken.contains_key(n));
            if let Some(free) = free {
                taken.insert(free.clone(), name);
                named.insert(name, free);
            }
        }
        let pick = |(name, plain): (&RawName, &String)| {
            if fits(plain) { Some(plain.clone()) } else { named.get(name).cloned() }
        };
        let mut seen = std::collections::HashSet::new();
        // A tool that is given twice keeps one name.
        tools.iter().zip(&plain).map(|pair| pick(pair).filter(|_| seen.insert(pair.0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw(server: &str, tool: &str) -> RawName {
        RawName { server: server.into(), tool: tool.into() }
    }

    #[test]
    fn plain_names_stay_plain_and_clashes_get_hashes() {
        let names = HashedNames::default();
        let tools = [raw("a", "x"), raw("a", "x.y"), raw("a", "x y"), raw("b", "x")];
        let composed: Vec<String> = names.compose(&tools).into_iter().flatten().collect();
        assert_eq!(composed[0], "mcp__a__x");
        assert!(composed[1].starts_with("mcp__a__x_y_") && composed[1].len() == "mcp__a__x_y_".len() + 8);
        assert_ne!(composed[1], composed[2]);
        assert_eq!(composed[3], "mcp__b__x");
        let long = names.compose(&[raw("server", &"t".repeat(80))]);
        assert_eq!(long[0].as_ref().map(String::len), Some(64));
        assert_eq!(
            HashedNames { template: "{server}.{tool}".into(), ..names }.compose(&[raw("{tool}", "x")])[0]
                .as_deref(),
            Some("_tool__x")
        );
    }

    proptest! {
        #[test]
        fn names_are_valid_distinct_and_do_not_depend_on_the_order(
            tools in prop::collection::hash_set(("[a_]{1,2}", "[a_. é]{0,3}|[ab]{60,70}|.{0,8}"), 0..12),
            max_len in 12usize..70,
            seed in any::<u64>(),
        ) {
            let tools: Vec<RawName> = tools.into_iter().map(|(s, t)| raw(&s, &t)).collect();
            let names = HashedNames { max_len, ..HashedNames::default() };
            let composed: HashMap<RawName, String> = tools.iter().cloned()
                .zip(names.compose(&tools)).filter_map(|(t, n)| Some((t, n?))).collect();
            prop_assert_eq!(composed.len(), tools.len());
            let distinct: std::collections::HashSet<&String> = composed.values().collect();
            prop_assert_eq!(distinct.len(), tools.len());
            for name in composed.values() {
                prop_assert!(name.len() <= max_len && !name.is_empty());
                prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            }
            let mut other = tools.clone();
            other.sort_by_key(|t| {
                let mut hash = Sha256::new();
                hash.update(seed.to_be_bytes());
                hash.update(t.server.as_bytes());
                hash.update(t.tool.as_bytes());
                hash.finalize().to_vec()
            });
            for (tool, name) in other.iter().zip(names.compose(&other)) {
                prop_assert_eq!(Some(&composed[tool]), name.as_ref());
            }
        }
    }
}
