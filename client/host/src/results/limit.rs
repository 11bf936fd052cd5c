//! Text that is too long.

use crate::model::Part;
use sparring_profiles::{LimitScope, ResultsSettings};

/// A limit of text, in bytes of UTF-8. Only text counts; earlier blocks are kept first.
#[derive(Debug, Clone, Copy)]
pub struct TextLimit {
    from: usize,
    to: usize,
    scope: LimitScope,
}

/// The longest mark that stands for what was cut.
const MARK: usize = 64;

impl TextLimit {
    /// The limit of a host; `None`: it has none.
    pub fn new(settings: &ResultsSettings) -> Option<Self> {
        let [from, to] = settings.text_limit?;
        let bytes = |n| usize::try_from(n).unwrap_or(usize::MAX);
        Some(Self { from: bytes(from), to: bytes(to), scope: settings.limit_scope })
    }

    /// Cuts the text of these parts. Text blocks after the cut are gone; whatever else there is stays.
    pub fn apply(&self, parts: &mut Vec<Part>) {
        if self.scope == LimitScope::Block {
            for part in parts {
                if let Part::Text { text } = part {
                    let whole = text.len();
                    if whole > self.to {
                        self.end(text, self.kept(), whole);
                    }
                }
            }
            return;
        }
        let whole = parts.iter().map(text_len).sum();
        if whole <= self.to {
            return;
        }
        let mut left = self.kept();
        let mut ended = false;
        parts.retain_mut(|part| {
            let Part::Text { text } = part else { return true };
            if ended {
                return false;
            }
            if text.len() < left {
                left -= text.len();
            } else {
                self.end(text, left, whole);
                ended = true;
            }
            true
        });
    }

    /// How much is kept of what is too long: as much as leaves room for the mark, if the range does.
    fn kept(&self) -> usize {
        let with_mark = self.to.saturating_sub(MARK);
        // A code point that would be split can take up to three bytes more off.
        if with_mark >= self.from + 3 { with_mark } else { self.to }
    }

    fn end(&self, text: &mut String, keep: usize, whole: usize) {
        let kept = cut(text, keep).len();
        text.truncate(kept);
        text.push_str(&format!("\n[cut: the text has {whole} bytes]"));
    }
}

fn text_len(part: &Part) -> usize {
    match part {
        Part::Text { text } => text.len(),
        _ => 0,
    }
}

/// The start of a text, of at most so many bytes, and no code point split.
pub fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: impl Into<String>) -> Part {
        Part::Text { text: text.into() }
    }

    fn applied(range: [usize; 2], scope: LimitScope, mut parts: Vec<Part>) -> Vec<String> {
        TextLimit { from: range[0], to: range[1], scope }.apply(&mut parts);
        let shown = |part: &Part| match part {
            Part::Text { text } => text.clone(),
            _ => "image".to_owned(),
        };
        parts.iter().map(shown).collect()
    }

    fn kept(text: &str) -> usize {
        text.split("\n[cut").next().unwrap().len()
    }

    #[test]
    fn ranges_of_the_hosts_are_kept() {
        for [from, to] in [[50_900, 51_200], [99_700, 102_400]] {
            for (length, cut) in
                [(from - 1, false), (from, false), (to, false), (to + 1, true), (1 << 20, true)]
            {
                let texts = applied([from, to], LimitScope::Result, vec![text("x".repeat(length))]);
                assert_eq!(texts[0].contains("[cut: the text has"), cut, "{length}");
                if cut {
                    assert!((from..=to).contains(&kept(&texts[0])));
                    assert!(texts[0].len() <= to + 256);
                } else {
                    assert_eq!(texts[0].len(), length);
                }
            }
        }
    }

    #[test]
    fn no_code_point_is_split() {
        for shift in 0..4 {
            let texts = applied(
                [97, 100],
                LimitScope::Result,
                vec![text(format!("{}{}", "a".repeat(shift), "🦀".repeat(50)))],
            );
            assert!((97..=100).contains(&kept(&texts[0])), "{}", kept(&texts[0]));
            assert!(!texts[0].contains('\u{fffd}'));
        }
        assert_eq!(cut("aä", 2), "a");
        assert_eq!(cut("aä", 3), "aä");
        assert_eq!(cut("aä", 99), "aä");
        assert_eq!(cut("🦀", 3), "");
    }

    #[test]
    fn earlier_blocks_are_kept_first_and_pictures_do_not_count() {
        let image = || Part::Image { data: "A".repeat(400), mime: "image/png".into() };
        let three =
            || vec![text("a".repeat(60)), image(), text("b".repeat(60)), image(), text("c".repeat(60))];
        let texts = applied([90, 100], LimitScope::Result, three());
        assert_eq!(texts.len(), 4);
        assert_eq!(texts[0], "a".repeat(60));
        assert!(texts[2].starts_with(&"b".repeat(40)), "{}", texts[2]);
        assert_eq!(texts[0].len() + kept(&texts[2]), 100);
        assert_eq!(texts[3], "image");
        // By block, none of them is too long.
        assert_eq!(applied([90, 100], LimitScope::Block, three()).len(), 5);
        let each = applied([90, 100], LimitScope::Block, vec![text("a".repeat(101)), text("b".repeat(101))]);
        assert!(each.iter().all(|t| kept(t) == 100));
        // Exactly at the edge, the next block goes as a whole, and that is told.
        let edge = applied([90, 100], LimitScope::Result, vec![text("a".repeat(100)), text("b")]);
        assert_eq!(edge.len(), 1);
        assert!(edge[0].contains("[cut: the text has 101 bytes]"), "{}", edge[0]);
    }
}
