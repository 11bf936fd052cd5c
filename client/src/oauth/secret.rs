//! A text that is never shown.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A token, a password, a key: its `Debug` shows nothing of it, and there is no `Display`. Serialised it is the bare
/// text, because a credential store has to keep it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text itself. Whoever asks for it takes care of it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
