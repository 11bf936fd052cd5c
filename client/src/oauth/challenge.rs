//! The `WWW-Authenticate` header field, read leniently.

/// What the challenges of a response say to a client that authorizes by Bearer or DPoP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) resource_metadata: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) error: Option<String>,
    /// Whether tokens have to be bound to a key: DPoP is offered, and Bearer is not.
    pub(crate) bound: bool,
    /// Whether a proof is wanted with the nonce that the response carries.
    pub(crate) wants_nonce: bool,
}

impl Challenge {
    /// Reads the first Bearer challenge in the values of the field, and the first DPoP challenge for what that leaves
    /// open; each value may hold several challenges.
    pub(crate) fn find(values: &[String]) -> Self {
        let (bearer, dpop) = (Self::of("bearer", values), Self::of("dpop", values));
        let bound = bearer.is_none() && dpop.is_some();
        let (bearer, dpop) = (bearer.unwrap_or_default(), dpop.unwrap_or_default());
        Self {
            wants_nonce: dpop.error.as_deref() == Some("use_dpop_nonce"),
            resource_metadata: bearer.resource_metadata.or(dpop.resource_metadata),
            scope: bearer.scope.or(dpop.scope),
            error: bearer.error.or(dpop.error),
            bound,
        }
    }

    fn of(wanted: &str, values: &[String]) -> Option<Self> {
        let mut out = Self::default();
        for value in values {
            let mut inside = false;
            for (scheme, name, text) in (Tokens { rest: value }) {
                if let Some(scheme) = scheme {
                    if inside {
                        break;
                    }
                    inside = scheme.eq_ignore_ascii_case(wanted);
                }
                let Some(name) = name.filter(|_| inside) else { continue };
                let slot = match name.to_ascii_lowercase().as_str() {
                    "resource_metadata" => &mut out.resource_metadata,
                    "scope" => &mut out.scope,
                    "error" => &mut out.error,
                    _ => continue,
                };
                slot.get_or_insert(text);
            }
            if inside {
                return Some(out);
            }
        }
        None
    }
}

/// Yields (scheme if one starts here, parameter name, parameter value).
struct Tokens<'a> {
    rest: &'a str,
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

impl<'a> Tokens<'a> {
    fn token(&mut self) -> &'a str {
        let end = self.rest.find(|c| !is_token(c)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        token
    }

    fn spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn value(&mut self) -> String {
        self.spaces();
        let Some(quoted) = self.rest.strip_prefix('"') else { return self.token().to_owned() };
        let mut out = String::new();
        let mut chars = quoted.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &quoted[at + 1..];
                    return out;
                }
                '\\' => out.extend(chars.next().map(|(_, c)| c)),
                _ => out.push(c),
            }
        }
        self.rest = "";
        out
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (Option<&'a str>, Option<&'a str>, String);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', ',']);
            let first = self.rest.chars().next()?;
            if is_token(first) {
                break;
            }
            // Not part of the grammar: step over it.
            self.rest = &self.rest[first.len_utf8()..];
        }
        let word = self.token();
        self.spaces();
        if let Some(rest) = self.rest.strip_prefix('=') {
            // Base64 padding of a token68 is no value.
            self.rest = rest;
            return Some((None, Some(word), self.value()));
        }
        // A scheme. Its first parameter comes with the next step.
        Some((Some(word), None, String::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(value: &str) -> Challenge {
        Challenge::find(&[value.to_owned()])
    }

    #[test]
    fn parameters_are_found_in_any_order_and_spelling() {
        let whole =
            find(r#"Bearer scope="a b", resource_metadata="https://x/y?z=1,2", error="insufficient_scope""#);
        assert_eq!(whole.scope.as_deref(), Some("a b"));
        assert_eq!(whole.resource_metadata.as_deref(), Some("https://x/y?z=1,2"));
        assert_eq!(whole.error.as_deref(), Some("insufficient_scope"));
        assert_eq!(find(r"bEaReR Scope=a,error = e").scope.as_deref(), Some("a"));
        assert_eq!(find(r#"Bearer realm="a \"Bearer scope=x\"", scope=y"#).scope.as_deref(), Some("y"));
    }

    #[test]
    fn other_schemes_do_not_leak_in() {
        assert_eq!(find(r#"Basic realm="x", scope="no""#), Challenge::default());
        assert_eq!(
            find(r#"Basic realm="x", Bearer scope="yes", Digest scope="no""#).scope.as_deref(),
            Some("yes")
        );
        assert_eq!(find(r#"DPoP abc==, Bearer scope="yes""#).scope.as_deref(), Some("yes"));
        let two = ["Basic realm=x".to_owned(), "Bearer scope=s".to_owned()];
        assert_eq!(Challenge::find(&two).scope.as_deref(), Some("s"));
    }

    #[test]
    fn dpop_counts_where_bearer_is_not_offered() {
        let alone = find(r#"DPoP error="use_dpop_nonce", resource_metadata="https://x""#);
        assert!(alone.bound && alone.wants_nonce);
        assert_eq!(alone.resource_metadata.as_deref(), Some("https://x"));
        let both = find(r#"DPoP algs="ES256", error="insufficient_scope", scope=s, Bearer realm=r"#);
        assert!(!both.bound && !both.wants_nonce);
        assert_eq!(both.scope.as_deref(), Some("s"));
        assert_eq!(both.error.as_deref(), Some("insufficient_scope"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,60}", glue in "[A-Za-z=\", \\\\ä]{0,40}") {
            find(&text);
            find(&glue);
        }
    }
}
