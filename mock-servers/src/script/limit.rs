//! Numbers that a script may not make as large as it likes: each stands for memory or work of the mock's.

use serde::{Deserialize, Deserializer, de};

/// A number, or none.
pub(super) trait Number {
    /// It, if there is one.
    fn number(&self) -> Option<u64>;
}

macro_rules! numbers {
    ($($kind:ty),+) => {$(
        impl Number for $kind {
            fn number(&self) -> Option<u64> {
                Some(u64::from(*self))
            }
        }
    )+};
}
numbers!(u8, u32, u64);

impl<N: Number> Number for Option<N> {
    fn number(&self) -> Option<u64> {
        self.as_ref()?.number()
    }
}

/// Reads a number from `MIN` to `MAX`.
pub(super) fn within<'de, const MIN: u64, const MAX: u64, N, D>(deserializer: D) -> Result<N, D::Error>
where
    N: Number + Deserialize<'de>,
    D: Deserializer<'de>,
{
    let read = N::deserialize(deserializer)?;
    match read.number() {
        Some(n) if !(MIN..=MAX).contains(&n) => {
            Err(de::Error::custom(format!("{n} is not from {MIN} to {MAX}")))
        }
        _ => Ok(read),
    }
}

/// Reads offsets, each greater than the one before.
pub(super) fn ascending<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let read = Vec::<u32>::deserialize(deserializer)?;
    match read.iter().zip(read.iter().skip(1)).find(|(first, second)| first >= second) {
        Some((first, second)) => {
            Err(de::Error::custom(format!("{second} does not follow {first}: offsets ascend")))
        }
        None => Ok(read),
    }
}

#[cfg(test)]
mod tests {
    use crate::script::{Actions, ServerScript};
    use serde_json::{Value, from_value, json};

    #[test]
    fn numbers_have_limits_wherever_they_come_from() {
        let script = |value: Value| from_value::<ServerScript>(value).map_err(|e| e.to_string());
        for (key, right, wrong) in [("many_tools", 100_000, 100_001), ("page_size", 1, 0)] {
            script(json!({key: right})).unwrap();
            let why = script(json!({key: wrong})).unwrap_err();
            assert!(why.contains(&format!("{wrong} is not from ")), "{why}");
        }
        for wrong in [
            json!({"many_tools": 4_000_000_000_u32}),
            json!({"process": {"descendants": [{"depth": 0}]}}),
            json!({"process": {"descendants": [{"depth": 9}]}}),
            json!({"resources": [{"uri": "a:b", "blob_bytes": 67_108_865}]}),
        ] {
            assert!(script(wrong.clone()).is_err(), "{wrong}");
        }
        let actions = |action: &Value| from_value::<Actions>(json!([action]));
        for right in [
            json!({"pad_to": 67_108_864}),
            json!({"split_at": [1, 2, 30]}),
            json!({"repeat_stdout": {"line": "x", "times": 1_000_000}}),
            json!({"repeat": {"times": 100_000, "do": [{"count": "x"}]}}),
        ] {
            actions(&right).unwrap();
        }
        for wrong in [
            json!({"pad_to": 67_108_865}),
            json!({"split_at": [1, 1]}),
            json!({"split_at": [3, 2]}),
            json!({"repeat_stdout": {"line": "x", "times": 1_000_001}}),
            json!({"stderr_bytes": 67_108_865}),
            json!({"blank_lines": 1_000_001}),
            json!({"reply": {"pad_head": 67_108_865}}),
            json!({"input_required": {"state_bytes": 67_108_865}}),
            json!({"change_server": {"page_size": 0}}),
            json!({"respond": "\"{{fill 67108865}}\""}),
            json!({"respond": "\"{{nothing}}\""}),
            json!({"repeat": {"times": 100_000_000, "do": [{"count": "x"}]}}),
            json!({"repeat": {"times": 1, "do": [{"pad_to": 67_108_865}]}}),
        ] {
            assert!(actions(&wrong).is_err(), "{wrong}");
            let rules = json!({"rules": [{"on": "ping", "do": [wrong]}]});
            assert!(script(rules.clone()).is_err(), "{rules}");
        }
        let many = json!({"repeat": {"times": 60_000, "do": [{"count": "x"}]}});
        assert!(from_value::<Actions>(json!([many, many])).is_err(), "in all");
    }
}
