//! Transcripts as they are stored: read strictly, and asked whether they are whole.

use sparring_wire::transcript::{Event, What};
use std::io::{self, BufRead, Read as _};

/// The longest line of a transcript, in bytes: the longest that a recorder writes (a 64 MiB line, each byte escaped).
const MAX_LINE: u64 = 512 << 20;

/// A transcript that could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its events.
    pub events: Vec<Event>,
    /// Why it can't be the whole of what was observed, in words; `None` if it is.
    pub incomplete: Option<String>,
}

/// Why a transcript can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The system's word.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line, counted from 1, is no event, or not the one that is due.
    #[error("line {line}: {why}")]
    Line {
        /// Its number.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// Reads JSON Lines, one event a line, numbered from 1 without a gap. A last line without its newline, which a writer
/// that was interrupted leaves behind, is left out and makes the transcript incomplete.
///
/// # Errors
/// The reader's, and the first line that is wrong.
pub fn read(mut from: impl BufRead) -> Result<Stored, Unreadable> {
    let mut events: Vec<Event> = Vec::new();
    let mut line = Vec::new();
    let mut cut = false;
    let mut open = 0_u64;
    let mut recordings = 0_u64;
    let mut ended = false;
    for number in 1.. {
        line.clear();
        let wrong = |why: String| Unreadable::Line { line: number, why };
        if from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.last() != Some(&b'\n') {
            if line.len() as u64 == MAX_LINE {
                return Err(wrong(format!("longer than {MAX_LINE} bytes")));
            }
            // A whole event that only lacks its newline is as good as any.
            if serde_json::from_slice::<Event>(&line).is_err() {
                cut = true;
                break;
            }
        }
        let text = std::str::from_utf8(&line).map_err(|_| wrong("not UTF-8".to_owned()))?;
        if text.trim().is_empty() {
            continue;
        }
        let event: Event = serde_json::from_str(text).map_err(|e| wrong(format!("this is no event: {e}")))?;
        let due = events.len() as u64 + 1;
        if event.n != due {
            return Err(wrong(format!(
                "`n` is {} where {due} is due: events are missing, or not in order",
                event.n
            )));
        }
        match event.what {
            What::Recorded(_) => {
                open += 1;
                recordings += 1;
            }
            What::End => open = open.saturating_sub(1),
            _ if ended => return Err(wrong("an event follows the end of the transcript".to_owned())),
            _ => {}
        }
        ended = open == 0 && matches!(event.what, What::End);
        events.push(event);
    }
    let incomplete = if cut {
        Some("its last line is cut off".to_owned())
    } else if open > 0 && recordings > 1 {
        Some(format!("{open} of its {recordings} recordings have no end: they still run, or were cut off"))
    } else if open > 0 {
        Some("the recording has no end: it still runs, or was cut off".to_owned())
    } else if !ended && !events.is_empty() {
        Some("it has no end: it was cut off, or written by an earlier version of Sparring".to_owned())
    } else {
        None
    };
    Ok(Stored { events, incomplete })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparring_wire::transcript::Recorded;

    fn lines(kinds: &[What]) -> String {
        let mut text = String::new();
        for (n, what) in (1..).zip(kinds) {
            let event = Event { n, at_us: n, server: None, incarnation: None, what: what.clone() };
            text += &serde_json::to_string(&event).unwrap();
            text.push('\n');
        }
        text
    }

    fn incomplete(text: &str) -> Option<String> {
        read(text.as_bytes()).unwrap().incomplete
    }

    fn begun() -> What {
        What::Recorded(Recorded::default())
    }

    #[test]
    fn a_transcript_is_whole_if_its_end_is_there() {
        let whole = lines(&[What::StdinClosed, What::End]);
        assert_eq!(incomplete(&whole), None);
        assert_eq!(incomplete(whole.trim_end()), None, "only the newline is missing");
        for cut in 1..whole.trim_end().len() {
            let stored = read(&whole.as_bytes()[..cut]).unwrap();
            assert!(stored.incomplete.is_some(), "{cut}");
            assert!(stored.events.len() < 2);
        }
        assert_eq!(incomplete(""), None, "nothing was observed, and nothing is missing");
    }

    #[test]
    fn recordings_that_share_a_file_each_have_an_end() {
        use What::{End, StdinClosed};
        assert_eq!(incomplete(&lines(&[begun(), StdinClosed, End, begun(), End])), None);
        assert_eq!(incomplete(&lines(&[begun(), begun(), StdinClosed, End, StdinClosed, End])), None);
        let one_killed = lines(&[begun(), StdinClosed, begun(), End]);
        assert!(incomplete(&one_killed).unwrap().starts_with("1 of its 2 recordings"));
    }

    #[test]
    fn what_is_no_transcript_is_refused_with_its_line() {
        let gap = r#"{"n":2,"at_us":0,"what":{"kind":"end"}}"#.to_owned() + "\n";
        let after = lines(&[What::End, What::StdinClosed]);
        for (text, line) in
            [("{}\n", "line 1"), (&*gap, "line 1"), (&*after, "line 2"), ("\n\u{e9}x\n", "line 2")]
        {
            assert!(read(text.as_bytes()).unwrap_err().to_string().starts_with(line), "{text}");
        }
    }
}
