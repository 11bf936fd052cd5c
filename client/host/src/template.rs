//! Templates of profiles: `{name}` stands for a value, a doubled brace for itself.

/// Fills a template. A name that `value` does not know stays as it stands.
pub(crate) fn fill<'a>(template: &'a str, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let doubled = after.strip_prefix("{{").map(|rest| ("{", rest));
        if let Some((brace, tail)) = doubled.or_else(|| after.strip_prefix("}}").map(|rest| ("}", rest))) {
            out.push_str(brace);
            rest = tail;
            continue;
        }
        let filled = after.strip_prefix('{').and_then(|inner| {
            let (name, tail) = inner.split_once('}')?;
            Some((value(name)?, tail))
        });
        match filled {
            Some((text, tail)) => {
                out.push_str(text);
                rest = tail;
            }
            None => {
                let (brace, tail) = after.split_at(1);
                out.push_str(brace);
                rest = tail;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn names_are_filled_in_once_and_braces_doubled() {
        let value = |name: &str| match name {
            "a" => Some("{b}"),
            "b" => Some("B"),
            _ => None,
        };
        for (template, filled) in [
            ("{a}-{b}", "{b}-B"),
            ("{{a}}", "{a}"),
            ("{c} {", "{c} {"),
            ("}", "}"),
            ("é{b}é", "éBé"),
            ("{{{b}}}", "{B}"),
        ] {
            assert_eq!(fill(template, value), filled, "{template}");
        }
    }
}
