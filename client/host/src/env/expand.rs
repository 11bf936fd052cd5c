//! Variables in text.

use sparring_profiles::Unset;

/// The spellings of variables that are replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spellings {
    /// `${VAR}`
    braces: bool,
    /// `${VAR:-default}`
    default: bool,
    /// `$VAR`
    bare: bool,
}

/// A variable in a text.
struct Reference<'a> {
    name: &'a str,
    default: Option<&'a str>,
    /// What follows.
    rest: &'a str,
}

impl Spellings {
    /// The spellings of `env.expand`; others are text like any other.
    pub fn new(spellings: &[String]) -> Self {
        let has = |spelling: &str| spellings.iter().any(|s| s == spelling);
        Self { braces: has("${VAR}"), default: has("${VAR:-default}"), bare: has("$VAR") }
    }

    /// The text with variables replaced, each once. A default counts where the variable is unset or empty, as in a
    /// shell.
    ///
    /// # Errors
    /// The variable that is unset, where that is an error.
    pub fn expand<'a>(
        self,
        text: &str,
        unset: Unset,
        value: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let Some(reference) = self.reference(from) else {
                out.push('$');
                rest = from.strip_prefix('$').unwrap_or_default();
                continue;
            };
            match (value(reference.name), reference.default) {
                (Some(""), Some(default)) | (None, Some(default)) => out.push_str(default),
                (Some(value), _) => out.push_str(value),
                (None, None) => match unset {
                    Unset::Empty => {}
                    Unset::Literal => {
                        out.push_str(from.strip_suffix(reference.rest).unwrap_or_default());
                    }
                    Unset::DisableServer | Unset::FailAll => return Err(reference.name.to_owned()),
                },
            }
            rest = reference.rest;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The variable that starts here, at a `$`.
    fn reference(self, from: &str) -> Option<Reference<'_>> {
        let after = from.strip_prefix('$')?;
        let Some(inner) = after.strip_prefix('{') else {
            let (name, rest) = name(after).filter(|_| self.bare)?;
            return Some(Reference { name, default: None, rest });
        };
        let (name, rest) = name(inner)?;
        if let Some(rest) = rest.strip_prefix('}').filter(|_| self.braces) {
            return Some(Reference { name, default: None, rest });
        }
        let (default, rest) = rest.strip_prefix(":-").filter(|_| self.default)?.split_once('}')?;
        Some(Reference { name, default: Some(default), rest })
    }
}

/// The name of a variable at the start.
fn name(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let starts = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    starts.then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spellings(list: &[&str]) -> Spellings {
        Spellings::new(&list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
    }

    fn value(name: &str) -> Option<&'static str> {
        match name {
            "A" => Some("1"),
            "_b2" => Some("two"),
            "EMPTY" => Some(""),
            "NESTED" => Some("${A} $A ${A:-x}"),
            _ => None,
        }
    }

    #[test]
    fn spellings_that_a_host_has_are_replaced_once() {
        let all = ["${VAR}", "${VAR:-default}", "$VAR"];
        let cases: [(&[&str], &str, &str); 22] = [
            (&all, "${A}", "1"),
            (&all, "x${A}y$A-${_b2}", "x1y1-two"),
            (&all, "$Ax $A.x", "? 1.x"),
            (&all, "${NESTED}", "${A} $A ${A:-x}"),
            (&all, "${EMPTY}|$EMPTY", "|"),
            (&all, "${EMPTY:-d}", "d"),
            (&all, "${A:-d}", "1"),
            (&all, "${X:-}", ""),
            (&all, "${X:-http://h:80/p}}", "http://h:80/p}"),
            (&all, ":${X:-a:b}:}", ":a:b:}"),
            (&all, "${X:-${A}}", "${A}"),
            (&all, "$", "$"),
            (&all, "$$A", "$1"),
            (&all, "$1 ${1} ${} ${A ${A- ${A:x}", "$1 ${1} ${} ${A ${A- ${A:x}"),
            (&all, "ä${A}ö", "ä1ö"),
            (&all, "100$", "100$"),
            (&["${VAR}"], "$A ${A} ${A:-d}", "$A 1 ${A:-d}"),
            (&["$VAR"], "$A ${A}", "1 ${A}"),
            (&["${VAR:-default}"], "${A} ${A:-d}", "${A} 1"),
            (&[], "$A ${A} ${A:-d}", "$A ${A} ${A:-d}"),
            (&["${env:VAR}"], "${env:A}", "${env:A}"),
            (&all, "", ""),
        ];
        for (list, text, expected) in cases {
            let expanded = spellings(list)
                .expand(text, Unset::Empty, |name| if name == "Ax" { Some("?") } else { value(name) });
            assert_eq!(expanded.as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn unset_variables_in_each_way() {
        let all = spellings(&["${VAR}", "${VAR:-default}", "$VAR"]);
        let expand = |unset| all.expand("a${NO}b$NO.", unset, value);
        assert_eq!(expand(Unset::Empty).as_deref(), Ok("ab."));
        assert_eq!(expand(Unset::Literal).as_deref(), Ok("a${NO}b$NO."));
        for unset in [Unset::DisableServer, Unset::FailAll] {
            assert_eq!(expand(unset), Err("NO".into()));
        }
    }
}
