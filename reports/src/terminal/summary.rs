//! The summary of a run: what a person reads at a glance, and then each failure on its own.

use super::findings::{Finding, Remark, family, findings, reasons, remarks, split_id};
use super::{BOLD, DIM, GREEN, MAGENTA, MIN_WIDTH, Page, RED, TerminalOptions, YELLOW, style};
use crate::model::{CaseReport, Conclusion, Evidence, JudgeKind, Level, RunReport, Verdict};
use crate::text::{columns, count, cut, duration, escape, number};
use std::collections::BTreeMap;

/// Columns of a bar.
const BAR: usize = 18;
/// Events of one finding that are shown unless all are asked for.
const EVENTS: usize = 8;
/// Columns of one event's text that are shown unless all is asked for.
const EVENT_TEXT: usize = 400;
/// Reasons of a kind that are listed unless all are asked for.
const REASONS: usize = 3;

/// The summary of a run, as text for a terminal or a log. The same report and options give the same text.
pub fn render_summary(report: &RunReport, options: &TerminalOptions) -> String {
    let mut page = Page { out: String::new(), width: options.width.max(MIN_WIDTH), colour: options.colour };
    header(&mut page, report);
    if !report.cases.is_empty() {
        page.blank();
        bars(&mut page, report);
        page.blank();
        totals(&mut page, report);
        not_run(&mut page, report, options);
    }
    page.blank();
    let findings = findings(report, options.verbose);
    let full = if options.verbose { findings.len() } else { options.max_blocks.min(findings.len()) };
    for finding in &findings[..full] {
        block(&mut page, finding, options);
        page.blank();
    }
    if full < findings.len() {
        for finding in &findings[full..] {
            one_line(&mut page, finding);
        }
        page.paragraph(
            6,
            &format!(
                "{} in short; --verbose shows all in full.",
                count(findings.len() - full, "more failure")
            ),
        );
        page.blank();
    }
    let mut remarked = false;
    for verdict in [Verdict::Warn, Verdict::Inconclusive] {
        let all = remarks(report, verdict);
        let shown = if options.verbose { all.len() } else { options.max_blocks.min(all.len()) };
        for remark in &all[..shown] {
            short(&mut page, remark);
        }
        if shown < all.len() {
            let more = count(all.len() - shown, "more judge");
            page.paragraph(6, &format!("{more} with {}; --verbose lists them.", verdict.word()));
        }
        remarked |= !all.is_empty();
    }
    if remarked {
        page.blank();
    }
    conclusion(&mut page, report, options);
    page.out
}

fn header(page: &mut Page, report: &RunReport) {
    let client = &report.client;
    let (name, version, driver) = (escape(&client.name), escape(&client.version), escape(&client.driver));
    let mut parts = vec![format!("client: {name} {version} ({driver})")];
    if let Some(profile) = &client.profile {
        parts.push(format!("profile: {}", escape(profile)));
    }
    parts.push(format!("seed: {}", report.seed));
    let title = format!("Sparring {}", escape(&report.sparring_version));
    let mut line = page.paint(BOLD, &title);
    let mut used = columns(&title);
    for part in parts {
        if used + 3 + columns(&part) > page.width {
            page.line(&line);
            line = String::new();
            used = 0;
        }
        line.push_str("   ");
        line.push_str(&part);
        used += 3 + columns(&part);
    }
    page.line(&line);
}

/// How a case shows in the bars.
#[derive(Default)]
struct Tally {
    good: usize,
    bad: usize,
    skipped: usize,
}

impl Tally {
    fn count(&mut self, case: &CaseReport) {
        let slot = if case.skipped.is_some() {
            &mut self.skipped
        } else if case.went_wrong() {
            &mut self.bad
        } else {
            &mut self.good
        };
        *slot += 1;
    }

    const fn total(&self) -> usize {
        self.good + self.bad + self.skipped
    }

    /// Cells for each kind: in proportion, but what is there is seen, and failures most of all.
    fn cells(&self) -> [usize; 3] {
        let share = |n: usize| if n == 0 { 0 } else { (n * BAR / self.total().max(1)).max(1) };
        let bad = share(self.bad);
        let skipped = share(self.skipped).min(BAR - bad);
        [BAR - bad - skipped, bad, skipped]
    }
}

fn bars(page: &mut Page, report: &RunReport) {
    let mut transports: BTreeMap<&str, BTreeMap<&str, Tally>> = BTreeMap::new();
    for case in &report.cases {
        transports.entry(&case.transport).or_default().entry(&case.revision).or_default().count(case);
    }
    let tallies = || transports.values().flat_map(BTreeMap::values);
    let digits = tallies().map(|tally| number(tally.total()).len()).max().unwrap_or(1);
    // Stdio first: that is where everybody starts.
    let mut order: Vec<&str> = transports.keys().copied().collect();
    order.sort_by_key(|name| (*name != "stdio", *name));
    let name_width = order.iter().map(|name| columns(&escape(name))).max().unwrap_or(0);
    for transport in order {
        let label = escape(transport);
        let gap = name_width - columns(&label);
        let mut line = format!("  {label}{:gap$}", "");
        let indent = 2 + name_width;
        let mut used = indent;
        for (revision, tally) in &transports[transport] {
            let revision = escape(revision);
            let needed = columns(&revision) + 1 + BAR + 1 + digits;
            let space = if used == indent { 2 } else { 3 };
            if used > indent && used + space + needed > page.width {
                page.line(&line);
                line = " ".repeat(indent);
                used = indent;
            }
            let space = if used == indent { 2 } else { space };
            let [good, bad, skipped] = tally.cells();
            line.push_str(&" ".repeat(space));
            line.push_str(&format!("{revision} "));
            line.push_str(&page.paint(GREEN, &"█".repeat(good)));
            line.push_str(&page.paint(RED, &"▒".repeat(bad)));
            line.push_str(&page.paint(DIM, &"░".repeat(skipped)));
            line.push_str(&format!(" {:>digits$}", number(tally.total())));
            used += space + needed;
        }
        page.line(&line);
    }
    let mut legend = Vec::new();
    if tallies().any(|tally| tally.bad > 0) {
        legend.push("▒ with failures");
    }
    if tallies().any(|tally| tally.skipped > 0) {
        legend.push("░ not run");
    }
    if !legend.is_empty() {
        let legend = page.paint(DIM, &legend.join("   "));
        let indent = 4 + name_width;
        page.line(&format!("{:indent$}{legend}", ""));
    }
}

fn totals(page: &mut Page, report: &RunReport) {
    let skipped = report.cases.iter().filter(|case| case.skipped.is_some()).count();
    let verdicts: usize = report.cases.iter().map(|case| case.verdicts.len()).sum();
    let mut cases = count(report.cases.len(), "case");
    if skipped > 0 {
        cases.push_str(&format!(" ({} run)", number(report.cases.len() - skipped)));
    }
    page.line(&format!("  {cases} · {} · {}", count(verdicts, "verdict"), duration(report.took_ms)));

    let mut levels: BTreeMap<Level, BTreeMap<&str, usize>> = BTreeMap::new();
    for judge in report.cases.iter().flat_map(|case| &case.verdicts) {
        *levels.entry(judge.basis.level).or_default().entry(judge.verdict.word()).or_default() += 1;
    }
    for (level, counts) in levels {
        let name = match level {
            Level::Must => "MUST",
            Level::Should => "SHOULD",
            Level::May => "MAY",
            Level::Promise => "promises",
        };
        let label = page.paint(BOLD, &format!("{name:<10}"));
        let mut line = format!("  {label}");
        let mut used = 12;
        let seen = Verdict::ALL.into_iter().filter_map(|v| counts.get(v.word()).map(|n| (v, *n)));
        for (i, (verdict, n)) in seen.enumerate() {
            let text = format!("{} {}", number(n), verdict.word());
            if i > 0 && used + 3 + columns(&text) > page.width {
                page.line(&line);
                line = " ".repeat(12);
                used = 12;
            } else if i > 0 {
                line.push_str(" · ");
                used += 3;
            }
            line.push_str(&page.paint(style(verdict), &text));
            used += columns(&text);
        }
        page.line(&line);
    }
}

/// What was not run or not judged, and why.
fn not_run(page: &mut Page, report: &RunReport, options: &TerminalOptions) {
    let shown = if options.verbose { usize::MAX } else { REASONS };
    let mut begun = false;
    for verdict in [Verdict::Unsupported, Verdict::NotApplicable] {
        let skipped = report.cases.iter().filter_map(|case| case.skipped.as_ref());
        let cases = reasons(skipped.filter(|s| s.verdict == verdict).map(|s| s.reason.as_str()));
        let judges = report.cases.iter().flat_map(|case| &case.verdicts).filter(|j| j.verdict == verdict);
        let judges = reasons(judges.map(|j| j.reason.as_deref().unwrap_or("no reason given")));
        for (thing, reasons) in [("case", cases), ("verdict", judges)] {
            if reasons.is_empty() {
                continue;
            }
            if !std::mem::replace(&mut begun, true) {
                page.blank();
            }
            let total = reasons.iter().map(|(n, _)| n).sum();
            let head = format!("{} {}", count(total, thing), verdict.word());
            page.line(&format!("  {}", page.paint(style(verdict), &head)));
            let digits = number(reasons[0].0).len();
            for (n, reason) in reasons.iter().take(shown) {
                let indent = 6 + digits + 2;
                let lines = crate::text::wrap(&escape(reason), page.width - indent);
                for (i, line) in lines.iter().enumerate() {
                    let n = if i == 0 { number(*n) } else { String::new() };
                    page.line(&format!("      {n:>digits$}  {line}"));
                }
            }
            if reasons.len() > shown {
                let rest = reasons[shown..].iter().map(|(n, _)| n).sum::<usize>();
                let more = count(reasons.len() - shown, "more reason");
                page.paragraph(6, &format!("{} for {more}; --verbose lists them.", number(rest)));
            }
        }
    }
}

fn level_word(level: Level) -> &'static str {
    match level {
        Level::Must => "MUST",
        Level::Should => "SHOULD",
        Level::May => "MAY",
        Level::Promise => "promise",
    }
}

/// A failure in full.
fn block(page: &mut Page, finding: &Finding<'_>, options: &TerminalOptions) {
    let Finding { case, judge, .. } = finding;
    let word = judge.verdict.word().to_uppercase();
    let (scenario, parameters) = split_id(&case.id);
    let (scenario, parameters) = (escape(scenario), escape(parameters.unwrap_or_default()));
    let left = format!("{word}  {scenario} {parameters}");
    let painted =
        format!("{}  {} {parameters}", page.paint(style(judge.verdict), &word), page.paint(BOLD, &scenario));
    let right = format!("{} · {}", level_word(judge.basis.level), escape(&judge.basis.id));
    page.spread(&painted, columns(&left), &right);
    page.paragraph(6, &escape(&judge.basis.text));
    if let Some(source) = &judge.basis.source {
        page.paragraph(6, &escape(source));
    }
    page.blank();
    match judge.kind {
        JudgeKind::Check => page.row("check", &escape(&judge.judge)),
        JudgeKind::Monitor => page.row("monitor", &escape(&judge.judge)),
        JudgeKind::Case => {}
    }
    if let Some(reason) = &judge.reason {
        page.row("reason", &escape(reason));
    }
    if let Some(prerequisite) = &judge.prerequisite {
        events(page, "prerequisite", std::slice::from_ref(prerequisite), options);
    } else if judge.verdict == Verdict::NotTestable {
        page.row("prerequisite", "never seen");
    }
    if let Some(expected) = &judge.expected {
        page.row("expected", &escape(expected));
    }
    let all = &judge.actual;
    let shown = if options.verbose { all.len() } else { EVENTS.min(all.len()) };
    let hidden = all.len() - shown;
    // What led to an end is at the end; what proves a failure begins at the beginning.
    if matches!(judge.verdict, Verdict::Timeout | Verdict::Crash) {
        if hidden > 0 {
            page.row("actual", &format!("… {} before", count(hidden, "event")));
        }
        events(page, if hidden > 0 { "" } else { "actual" }, &all[hidden..], options);
    } else {
        events(page, "actual", &all[..shown], options);
        if hidden > 0 {
            page.row("", &format!("… {}", count(hidden, "more event")));
        }
    }
    if !finding.silenced.is_empty() {
        let names: Vec<_> = finding.silenced.iter().map(|judge| escape(&judge.judge)).collect();
        page.row("not testable", &format!("for that reason: {}", names.join(", ")));
    }
    if let [only] = &finding.also[..] {
        page.row("also", &format!("{} fails for the same reason", escape(&only.id)));
    } else if !finding.also.is_empty() {
        let family = family(case, &finding.also);
        let more = count(finding.also.len(), "more case");
        page.row("also", &format!("{more} fail for the same reason: {}", escape(&family)));
        if options.verbose {
            for case in &finding.also {
                page.row_unbroken("", &escape(&case.id));
            }
        }
    }
    if let Some(transcript) = &case.transcript {
        let path = match &options.folder {
            Some(folder) => format!("{}/{transcript}", folder.trim_end_matches('/')),
            None => transcript.clone(),
        };
        page.row_unbroken("transcript", &escape(&path));
    }
    page.blank();
    page.row_unbroken("again", &escape(&case.again));
    page.row_unbroken("learn", &format!("sparring explain {}", escape(&judge.basis.id)));
}

/// `#14  +812 ms  text`, numbers in columns.
fn events(page: &mut Page, label: &str, events: &[Evidence], options: &TerminalOptions) {
    let n_width = events.iter().map(|event| event.n.to_string().len()).max().unwrap_or(0);
    let at_width = events.iter().map(|event| number(event.at_ms).len()).max().unwrap_or(0);
    let indent = n_width + at_width + 9;
    for (i, event) in events.iter().enumerate() {
        let text = escape(&event.text);
        let text = if options.verbose { text } else { cut(&text, EVENT_TEXT).into_owned().into() };
        let head = format!(
            "{:<2$}  {:>3$} ms  ",
            format!("#{}", event.n),
            format!("+{}", number(event.at_ms)),
            n_width + 1,
            at_width + 1
        );
        let lines = crate::text::wrap(&text, page.width - super::VALUE_COLUMN - indent);
        for (j, line) in lines.iter().enumerate() {
            let label = if i == 0 && j == 0 { label } else { "" };
            let head = if j == 0 { page.paint(DIM, &head) } else { " ".repeat(columns(&head)) };
            page.row_unbroken(label, &format!("{head}{line}"));
        }
    }
}

/// A failure in one line.
fn one_line(page: &mut Page, finding: &Finding<'_>) {
    let verdict = finding.judge.verdict;
    let word = format!("{:<4}", verdict.word().to_uppercase());
    let more = if finding.also.is_empty() { String::new() } else { format!(" +{}", finding.also.len()) };
    let rest = format!("{}{more}  {}", escape(&finding.case.id), escape(&finding.judge.basis.id));
    let rest = cut(&rest, page.width - columns(&word) - 2).into_owned();
    let word = page.paint(style(verdict), &word);
    page.line(&format!("{word}  {rest}"));
}

/// A remark in two lines.
fn short(page: &mut Page, remark: &Remark<'_>) {
    let judge = remark.judge;
    let word = judge.verdict.word().to_uppercase();
    let name = escape(&judge.judge);
    let left = format!("{word}  {name}");
    let painted = format!("{}  {name}", page.paint(style(judge.verdict), &word));
    let right = format!(
        "{} · {} · {}",
        level_word(judge.basis.level),
        escape(&judge.basis.id),
        count(remark.cases, "case")
    );
    page.spread(&painted, columns(&left), &right);
    let mut reason = escape(judge.reason.as_deref().unwrap_or(&judge.basis.text)).into_owned();
    if remark.more_reasons > 0 {
        reason.push_str(&format!(" (and {})", count(remark.more_reasons, "other reason")));
    }
    // One line of reason is enough here: the JSON report has the rest.
    let room = page.width - 6;
    let reason = cut(&reason, room).into_owned();
    page.paragraph(6, &reason);
}

/// The last line: what it came to, why, and the exit code.
fn conclusion(page: &mut Page, report: &RunReport, options: &TerminalOptions) {
    if let Some(folder) = &options.folder {
        page.line(&format!("Report and transcripts: {}", escape(folder)));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for judge in report.cases.iter().flat_map(|case| &case.verdicts) {
        *counts.entry(judge.verdict.word()).or_default() += 1;
    }
    let of = |verdict: Verdict| counts.get(verdict.word()).copied().unwrap_or(0);
    let list = |verdicts: &[Verdict]| {
        let seen = verdicts.iter().filter(|v| of(**v) > 0);
        seen.map(|v| format!("{} {}", number(of(*v)), v.word())).collect::<Vec<_>>().join(", ")
    };
    let unsupported = report
        .cases
        .iter()
        .filter(|case| {
            case.skipped.as_ref().is_some_and(|s| s.verdict == Verdict::Unsupported)
                || case.verdicts.iter().any(|j| j.verdict == Verdict::Unsupported)
        })
        .count();
    let (colour, word, why) = match report.conclusion {
        Conclusion::Passed => {
            let mut why = "every judge that ran passed".to_owned();
            let apart = list(&[Verdict::Warn, Verdict::Inconclusive]);
            if !apart.is_empty() {
                why.push_str(&format!(", apart from {apart}, which fail no run"));
            }
            if unsupported > 0 {
                why.push_str(&format!("; {} unsupported, which was allowed", count(unsupported, "case")));
            }
            (GREEN, "PASS", why)
        }
        Conclusion::Failed => {
            let bad = report.cases.iter().filter(|case| case.went_wrong()).count();
            let verdicts = list(&[
                Verdict::Fail,
                Verdict::NotTestable,
                Verdict::Timeout,
                Verdict::Crash,
                Verdict::HarnessError,
            ]);
            (RED, "FAIL", format!("{verdicts} in {} of {}", number(bad), count(report.cases.len(), "case")))
        }
        Conclusion::Unsupported => (
            YELLOW,
            "UNSUPPORTED",
            format!(
                "{} beyond what the driver can do; --allow-unsupported accepts that",
                count(unsupported, "case")
            ),
        ),
        Conclusion::NothingRan => {
            let why = if report.cases.is_empty() { "no case was selected" } else { "no check ran" };
            (YELLOW, "NOTHING RAN", format!("{why}, so nothing is proven"))
        }
        Conclusion::HarnessError => (
            MAGENTA,
            "HARNESS ERROR",
            format!("{}: our fault, says nothing about the client", list(&[Verdict::HarnessError])),
        ),
        Conclusion::Interrupted => {
            let failed = list(&[Verdict::Fail, Verdict::NotTestable, Verdict::Timeout, Verdict::Crash]);
            let failed = if failed.is_empty() { String::new() } else { format!(", {failed} until then") };
            (
                YELLOW,
                "INTERRUPTED",
                format!("the report is partial: {}{failed}", count(report.cases.len(), "case")),
            )
        }
    };
    // One line however long it gets: it is what `tail -1` shows.
    let word = page.paint(colour.bold(), word);
    page.line(&format!("{word}   {why}.   exit {}", report.conclusion.exit_code()));
}
