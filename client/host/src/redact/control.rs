//! Control sequences of terminals.

/// A text without control sequences. Line breaks and tabs stay. What looks like the beginning of a sequence that never
/// ends is removed up to the end of its line.
pub(super) fn strip(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '\u{1b}' => match chars.peek() {
                Some('[') => {
                    chars.next();
                    csi(&mut chars);
                }
                // OSC, DCS, SOS, PM, APC
                Some(']' | 'P' | 'X' | '^' | '_') => {
                    chars.next();
                    string(&mut chars);
                }
                // Intermediate bytes, then a final one.
                Some(' '..='/') => {
                    while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
                    chars.next_if(|c| matches!(c, '0'..='~'));
                }
                Some('0'..='~') => drop(chars.next()),
                _ => {}
            },
            // The same in one character of the C1 set.
            '\u{9b}' => csi(&mut chars),
            '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => string(&mut chars),
            '\n' | '\t' => out.push(next),
            // A line break of two characters stays one.
            '\r' if chars.peek() == Some(&'\n') => {}
            _ if next.is_control() => {}
            _ => out.push(next),
        }
    }
    out
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Parameters and intermediate bytes, then a final one.
fn csi(chars: &mut Chars<'_>) {
    while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    chars.next_if(|c| matches!(c, '@'..='~'));
}

/// Up to BEL or ST, or else to the end of the line.
fn string(chars: &mut Chars<'_>) {
    while let Some(next) = chars.next_if(|c| *c != '\n') {
        match next {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' if chars.next_if_eq(&'\\').is_some() => return,
            _ => {}
        }
    }
}
