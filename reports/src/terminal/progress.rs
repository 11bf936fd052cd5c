//! A line at the foot of the terminal while a run goes on.

use crate::model::CaseReport;
use crate::text::{count, escape};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How far a run is. Shows nothing if stderr is no terminal. Cases may finish on several threads.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    failed: AtomicUsize,
}

impl Progress {
    /// Begins a run of this many cases.
    pub fn start(total: usize) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        Self::on(target, total)
    }

    fn on(target: ProgressDrawTarget, total: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total.try_into().unwrap_or(u64::MAX)), target);
        // The template is ours and valid; if it were not, indicatif's own style would do.
        if let Ok(style) =
            ProgressStyle::with_template("  {bar:18} {human_pos}/{human_len}  {elapsed}  {wide_msg}")
        {
            bar.set_style(style.progress_chars("█▓░"));
        }
        Self { bar, failed: AtomicUsize::new(0) }
    }

    /// A case has ended.
    pub fn finished(&self, case: &CaseReport) {
        let bad = case.went_wrong();
        let failed = self.failed.fetch_add(bad.into(), Ordering::Relaxed) + usize::from(bad);
        let failures = match failed {
            0 => "no failure".to_owned(),
            n => format!("{} failed", count(n, "case")),
        };
        self.bar.set_message(format!("{failures}  {}", escape(&case.id)));
        self.bar.inc(1);
    }

    /// The run is over: clears the line. Dropping does the same.
    pub fn finish(self) {}
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Arc, Mutex};

    /// A terminal that keeps what is written to it.
    #[derive(Debug, Clone, Default)]
    struct Recorder(Arc<Mutex<String>>);

    impl TermLike for Recorder {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.write_str("<clear>")
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn case(id: &str, verdict: &str) -> CaseReport {
        serde_json::from_value(serde_json::json!({
            "id": id, "scenario": "s", "about": "", "revision": "2025-11-25", "transport": "stdio", "skipped": null,
            "took_ms": 1, "transcript": null, "again": "",
            "verdicts": [{
                "judge": "m", "kind": "monitor", "verdict": verdict, "reason": null, "prerequisite": null,
                "expected": null, "actual": [],
                "basis": {"id": "r", "kind": "requirement", "level": "must", "text": "", "source": null}
            }]
        }))
        .unwrap()
    }

    #[test]
    fn counts_and_names_what_ends() {
        let screen = Recorder::default();
        let progress = Progress::on(ProgressDrawTarget::term_like(Box::new(screen.clone())), 1_200);
        progress.finished(&case("a[2025-11-25,stdio]", "pass"));
        progress.finished(&case("b", "crash"));
        progress.finished(&case("c", "warn"));
        progress.finished(&case("d\u{1b}[2J", "fail"));
        // indicatif redraws at its own pace unless told to.
        progress.bar.force_draw();
        let shown = screen.0.lock().unwrap().clone();
        assert!(shown.contains("4/1,200"), "{shown}");
        assert!(shown.contains("2 cases failed"), "{shown}");
        assert!(shown.contains(r"d\u{1b}[2J"), "{shown}");
        assert!(!shown.contains("\u{1b}[2J"), "a case's id must not act on the terminal: {shown}");
        progress.finish();
        assert!(screen.0.lock().unwrap().ends_with("<clear>"), "{:?}", screen.0.lock().unwrap());
    }
}
