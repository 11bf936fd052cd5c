//! For a person at a terminal: progress while the run goes on, and the summary at its end.

mod findings;
mod progress;
mod summary;

pub use progress::Progress;
pub use summary::render_summary;

use crate::model::Verdict;
use crate::text;
use anstyle::{AnsiColor, Effects, Style};
use std::io::IsTerminal as _;

/// The narrowest page that is laid out; a narrower terminal breaks the lines itself.
pub const MIN_WIDTH: usize = 80;
/// Lines longer than this are hard to read.
pub const MAX_WIDTH: usize = 140;

/// How the summary is to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalOptions {
    /// Columns; at least [`MIN_WIDTH`] are taken.
    pub width: usize,
    /// Whether to use colours.
    pub colour: bool,
    /// Show everything: each failure in full, all events, all reasons.
    pub verbose: bool,
    /// How many failures are shown in full; the others have one line each. (`verbose` shows all.)
    pub max_blocks: usize,
    /// The folder with reports and transcripts, to be named in the summary.
    pub folder: Option<String>,
}

impl Default for TerminalOptions {
    /// 80 columns without colour: what suits a file.
    fn default() -> Self {
        Self { width: MIN_WIDTH, colour: false, verbose: false, max_blocks: 10, folder: None }
    }
}

impl TerminalOptions {
    /// What suits this process's stdout: its width if it is a terminal, and colours unless `NO_COLOR` and its kin
    /// say otherwise.
    pub fn for_stdout() -> Self {
        let stdout = std::io::stdout();
        let width = if stdout.is_terminal() {
            terminal_size::terminal_size_of(&stdout)
                .map_or(MIN_WIDTH, |(terminal_size::Width(columns), _)| columns.into())
        } else {
            // A log of a CI server: wide enough for most evidence.
            120
        };
        Self {
            width: width.clamp(MIN_WIDTH, MAX_WIDTH),
            colour: anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
            ..Self::default()
        }
    }
}

const BOLD: Style = Style::new().effects(Effects::BOLD);
const DIM: Style = Style::new().effects(Effects::DIMMED);
const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const RED: Style = AnsiColor::Red.on_default();
const MAGENTA: Style = AnsiColor::Magenta.on_default();

/// The colour of a verdict. Each has its word beside it: nothing is said by colour alone.
const fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Pass => GREEN,
        Verdict::Fail | Verdict::NotTestable | Verdict::Timeout | Verdict::Crash => RED,
        Verdict::Warn | Verdict::Inconclusive => YELLOW,
        Verdict::HarnessError => MAGENTA,
        Verdict::Unsupported | Verdict::NotApplicable => DIM,
    }
}

/// Text under construction, with what its layout needs to know.
struct Page {
    out: String,
    width: usize,
    colour: bool,
}

/// Where the values of a block's rows stand.
const VALUE_COLUMN: usize = 21;

impl Page {
    /// Adds a style to text that is already laid out (styles take no columns).
    fn paint(&self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn blank(&mut self) {
        self.out.push('\n');
    }

    /// A paragraph, with all its lines `indent` columns to the right.
    fn paragraph(&mut self, indent: usize, text: &str) {
        for line in text::wrap(text, self.width - indent) {
            self.line(&format!("{:indent$}{line}", ""));
        }
    }

    /// `label          value`, the value's further lines under its first.
    fn row(&mut self, label: &str, value: &str) {
        for (i, line) in text::wrap(value, self.width - VALUE_COLUMN).iter().enumerate() {
            self.row_unbroken(if i == 0 { label } else { "" }, line);
        }
    }

    /// The same, on one line however long it gets: for what is to be copied.
    fn row_unbroken(&mut self, label: &str, value: &str) {
        let label = self.paint(DIM, &format!("{label:<15}"));
        self.line(&format!("      {label}{value}"));
    }

    /// Text on the left, painted already, and dim text on the right end of the line, or of the next ones where both
    /// don't fit.
    fn spread(&mut self, left: &str, left_columns: usize, right: &str) {
        let needed = left_columns + text::columns(right);
        if needed + 2 <= self.width {
            let gap = self.width - needed;
            let right = self.paint(DIM, right);
            self.line(&format!("{left}{:gap$}{right}", ""));
        } else {
            self.line(left);
            for line in text::wrap(right, self.width - 6) {
                let line = self.paint(DIM, &line);
                self.line(&format!("      {line}"));
            }
        }
    }
}
