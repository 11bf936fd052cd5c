//! Results that need not be asked for again for a while (2026-07-28).

use super::ListKind;
use crate::raw::Raw;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::time::Duration;

/// How long a result may be used, and by whom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hint {
    /// For so long after it came; zero: not at all.
    pub ttl: Duration,
    /// Whether it is the same for every user.
    pub public: bool,
    /// Whether the server has said anything about it.
    pub stated: bool,
}

impl Hint {
    /// Of a result of the server. What is absent, or makes no sense, means that the result is stale at once and meant
    /// for one user.
    pub fn of(result: &Value) -> Self {
        let ttl = result.get("ttlMs");
        // Fractions and floats are lenient readings of an integer.
        let ms = ttl.and_then(|t| t.as_u64().or_else(|| t.as_f64().filter(|f| *f > 0.0).map(whole)));
        Self {
            ttl: Duration::from_millis(ms.unwrap_or(0)),
            public: result.get("cacheScope").is_some_and(|scope| scope == "public"),
            stated: ttl.is_some(),
        }
    }

    /// Of a result that is not parsed otherwise.
    pub(crate) fn of_raw(result: &Raw) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Peek<'a> {
            #[serde(borrow)]
            ttl_ms: Option<&'a RawValue>,
            #[serde(borrow)]
            cache_scope: Option<&'a RawValue>,
        }
        let Ok(peek) = result.parse::<Peek<'_>>() else { return Self::default() };
        let mut hint = serde_json::Map::new();
        for (name, member) in [("ttlMs", peek.ttl_ms), ("cacheScope", peek.cache_scope)] {
            if let Some(value) = member.and_then(|raw| serde_json::from_str(raw.get()).ok()) {
                hint.insert(name.to_owned(), value);
            }
        }
        Self::of(&Value::Object(hint))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates; negative ones are excluded"
)]
fn whole(ms: f64) -> u64 {
    ms as u64
}

/// What a result may depend on beside the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Context {
    /// Which credentials were in use.
    pub(crate) credentials: u64,
    /// How often the server has announced a change of this kind.
    pub(crate) changes: u64,
}

#[derive(Debug)]
struct Held {
    result: Raw,
    until: Duration,
    public: bool,
    context: Context,
}

/// More results than these are not kept.
const MAX_HELD: usize = 4096;
/// Nor more bytes in all.
const MAX_BYTES: usize = 64 << 20;

/// Results under the request that brought them.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    held: HashMap<(String, String), Held>,
    bytes: usize,
}

impl Cache {
    /// The result of such a request, if it is fresh; until when, and whether for everybody.
    pub(crate) fn get(
        &mut self,
        now: Duration,
        method: &str,
        key: &str,
        context: Context,
    ) -> Option<(Raw, Duration, bool)> {
        let name = (method.to_owned(), key.to_owned());
        let held = self.held.get(&name)?;
        let same = held.context.changes == context.changes
            && (held.public || held.context.credentials == context.credentials);
        if now < held.until && same {
            return Some((held.result.clone(), held.until, held.public));
        }
        self.remove(&name);
        None
    }

    /// Keeps a result, if its hint allows it.
    pub(crate) fn put(
        &mut self,
        now: Duration,
        method: &str,
        key: &str,
        context: Context,
        (result, hint): (&Raw, Hint),
    ) {
        let name = (method.to_owned(), key.to_owned());
        self.remove(&name);
        let size = result.as_str().len();
        if hint.ttl.is_zero() || size > MAX_BYTES {
            return;
        }
        if self.held.len() >= MAX_HELD || self.bytes.saturating_add(size) > MAX_BYTES {
            self.held.retain(|_, held| now < held.until);
            self.bytes = self.held.values().map(|held| held.result.as_str().len()).sum();
            if self.held.len() >= MAX_HELD || self.bytes.saturating_add(size) > MAX_BYTES {
                self.clear();
            }
        }
        self.bytes = self.bytes.saturating_add(size);
        let until = now.saturating_add(hint.ttl);
        self.held.insert(name, Held { result: result.clone(), until, public: hint.public, context });
    }

    /// Forgets all results of a method.
    pub(crate) fn forget_all(&mut self, method: &str) {
        self.forget_if(method, |_| true);
    }

    /// Forgets the results of a method whose key is such.
    pub(crate) fn forget_if(&mut self, method: &str, such: impl Fn(&str) -> bool) {
        self.held.retain(|(of, key), _| of != method || !such(key));
        self.bytes = self.held.values().map(|held| held.result.as_str().len()).sum();
    }

    fn remove(&mut self, name: &(String, String)) {
        if let Some(held) = self.held.remove(name) {
            self.bytes = self.bytes.saturating_sub(held.result.as_str().len());
        }
    }

    fn clear(&mut self) {
        self.held.clear();
        self.bytes = 0;
    }
}

/// The list whose changes make a result of this method stale.
pub(crate) fn depends_on(method: &str) -> Option<ListKind> {
    Some(match method {
        "tools/list" => ListKind::Tools,
        "prompts/list" => ListKind::Prompts,
        "resources/list" => ListKind::Resources,
        "resources/templates/list" => ListKind::Templates,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    const fn context(credentials: u64, changes: u64) -> Context {
        Context { credentials, changes }
    }

    #[test]
    fn hints_that_make_no_sense_mean_stale_and_private() {
        for (result, ttl, public) in [
            (json!({"ttlMs": 500, "cacheScope": "public"}), 500, true),
            (json!({"ttlMs": 500, "cacheScope": "tenant"}), 500, false),
            (json!({"ttlMs": 500.9}), 500, false),
            (json!({"ttlMs": 0, "cacheScope": "public"}), 0, true),
            (json!({"ttlMs": -1}), 0, false),
            (json!({"ttlMs": "500"}), 0, false),
            (json!({}), 0, false),
        ] {
            let hint = Hint::of(&result);
            assert_eq!((hint.ttl, hint.public), (ms(ttl), public), "{result}");
            assert_eq!(Hint::of_raw(&Raw::from(result)), hint);
        }
    }

    #[test]
    fn a_result_is_fresh_until_its_time_is_over_and_under_its_own_key_only() {
        let mut cache = Cache::default();
        let result = Raw::from(json!({"a": 1}));
        let hint = Hint { ttl: ms(500), public: false, stated: true };
        cache.put(ms(1000), "m", "k", context(0, 0), (&result, hint));
        assert_eq!(cache.get(ms(1499), "m", "k", context(0, 0)), Some((result, ms(1500), false)));
        assert_eq!(cache.get(ms(1499), "m", "other", context(0, 0)), None);
        assert_eq!(cache.get(ms(1499), "other", "k", context(0, 0)), None);
        assert_eq!(cache.get(ms(1500), "m", "k", context(0, 0)), None);
        assert_eq!((cache.held.len(), cache.bytes), (0, 0));
    }

    #[test]
    fn changes_and_other_credentials_make_it_stale() {
        let mut cache = Cache::default();
        let result = Raw::from(json!({}));
        for (public, credentials, changes, fresh) in
            [(false, 0, 0, true), (false, 1, 0, false), (true, 1, 0, true), (true, 0, 1, false)]
        {
            let hint = Hint { ttl: ms(500), public, stated: true };
            cache.put(ms(0), "m", "k", context(0, 0), (&result, hint));
            assert_eq!(cache.get(ms(1), "m", "k", context(credentials, changes)).is_some(), fresh);
        }
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let mut cache = Cache::default();
        let result = Raw::from(json!({}));
        let hint = Hint { ttl: ms(500), public: true, stated: true };
        for n in 0..3 * MAX_HELD {
            cache.put(ms(0), "m", &n.to_string(), context(0, 0), (&result, hint));
        }
        assert!(cache.held.len() <= MAX_HELD);
        let huge = Raw::from(json!("x".repeat(MAX_BYTES)));
        cache.put(ms(0), "m", "huge", context(0, 0), (&huge, hint));
        assert!(cache.bytes <= MAX_BYTES);
    }
}
