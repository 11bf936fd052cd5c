//! Orders what judges found: what has one cause is one finding.

use crate::model::{CaseReport, JudgeReport, RunReport, Verdict};
use std::collections::BTreeMap;

/// A failure, and the cases that fail in the same way: the same judge says the same for the same reason.
pub(super) struct Finding<'a> {
    /// The first of the cases: the one that is shown.
    pub(super) case: &'a CaseReport,
    /// What the judge said of it.
    pub(super) judge: &'a JudgeReport,
    /// The other cases.
    pub(super) also: Vec<&'a CaseReport>,
    /// Judges that could say nothing about the shown case, since it went wrong in the way that this finding tells.
    pub(super) silenced: Vec<&'a JudgeReport>,
}

/// How much a verdict explains of what else goes wrong in the same case; the first is told first. `None`: no failure.
const fn rank(verdict: Verdict) -> Option<u8> {
    match verdict {
        Verdict::Crash => Some(0),
        Verdict::Timeout => Some(1),
        Verdict::Fail => Some(2),
        Verdict::NotTestable => Some(3),
        Verdict::HarnessError => Some(4),
        Verdict::Pass
        | Verdict::Warn
        | Verdict::Unsupported
        | Verdict::NotApplicable
        | Verdict::Inconclusive => None,
    }
}

/// The failures and harness errors of a run, what explains most first. Unless `each` is asked for, `not-testable` is
/// told with the failure of the same case that silenced the judge, not as a finding of its own.
pub(super) fn findings(report: &RunReport, each: bool) -> Vec<Finding<'_>> {
    let mut found: Vec<Finding<'_>> = Vec::new();
    let mut known: BTreeMap<(&str, &str, Option<&str>), usize> = BTreeMap::new();
    for case in &report.cases {
        let mut bad: Vec<_> = case
            .verdicts
            .iter()
            .filter_map(|judge| rank(judge.verdict).map(|rank| (rank, judge.basis.level, judge)))
            .collect();
        bad.sort_by_key(|(rank, level, _)| (*rank, *level));
        let explained = bad.iter().any(|(_, _, judge)| judge.verdict != Verdict::NotTestable);
        let (silenced, told): (Vec<_>, Vec<_>) = bad
            .into_iter()
            .map(|(_, _, judge)| judge)
            .partition(|judge| !each && explained && judge.verdict == Verdict::NotTestable);
        let mut silenced = Some(silenced);
        for judge in told {
            let key = (judge.judge.as_str(), judge.verdict.word(), judge.reason.as_deref());
            if let Some(&at) = known.get(&key) {
                found[at].also.push(case);
                silenced = None;
            } else {
                known.insert(key, found.len());
                let silenced = silenced.take().unwrap_or_default();
                found.push(Finding { case, judge, also: Vec::new(), silenced });
            }
        }
    }
    found.sort_by_key(|finding| (rank(finding.judge.verdict), finding.judge.basis.level));
    found
}

/// What all judges with one verdict said, by judge: for verdicts that fail nothing.
pub(super) struct Remark<'a> {
    /// The first of them.
    pub(super) judge: &'a JudgeReport,
    /// How many cases.
    pub(super) cases: usize,
    /// How many reasons besides the first one's.
    pub(super) more_reasons: usize,
}

/// The remarks with this verdict, in the order of the judges' first appearance.
pub(super) fn remarks(report: &RunReport, verdict: Verdict) -> Vec<Remark<'_>> {
    let mut judges: Vec<(&JudgeReport, usize, Vec<Option<&str>>)> = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for judge in report.cases.iter().flat_map(|case| &case.verdicts).filter(|j| j.verdict == verdict) {
        let at = *known.entry(&judge.judge).or_insert_with(|| {
            judges.push((judge, 0, Vec::new()));
            judges.len() - 1
        });
        let (_, cases, reasons) = &mut judges[at];
        *cases += 1;
        if !reasons.contains(&judge.reason.as_deref()) {
            reasons.push(judge.reason.as_deref());
        }
    }
    judges
        .into_iter()
        .map(|(judge, cases, reasons)| Remark { judge, cases, more_reasons: reasons.len() - 1 })
        .collect()
}

/// Reasons with their counts, the most frequent first.
pub(super) fn reasons<'a>(reasons: impl Iterator<Item = &'a str>) -> Vec<(usize, &'a str)> {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counted.entry(reason).or_default() += 1;
    }
    let mut counted: Vec<_> = counted.into_iter().map(|(reason, n)| (n, reason)).collect();
    counted.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    counted
}

/// A few words for the cases beside the first: their parameters if it is all one scenario, else what their ids begin
/// with, as a pattern for `--case`.
pub(super) fn family(first: &CaseReport, also: &[&CaseReport]) -> String {
    const SHOWN: usize = 6;
    if also.iter().all(|case| case.scenario == first.scenario) {
        let mut list: Vec<_> =
            also.iter().take(SHOWN).map(|case| split_id(&case.id).1.unwrap_or(case.id.as_str())).collect();
        if also.len() > SHOWN {
            list.push("…");
        }
        return list.join(" ");
    }
    let mut common = first.scenario.as_str();
    for case in also {
        let same = common.bytes().zip(case.scenario.bytes()).take_while(|(a, b)| a == b).count();
        // Ids are ASCII words, but ids of a foreign file may be anything.
        common = &common[..(0..=same).rev().find(|&at| common.is_char_boundary(at)).unwrap_or(0)];
    }
    // Whole words only; one that all ids have whole stays.
    let end = common.rfind(['.', '-']).map_or(0, |at| at + 1);
    match &common[..end] {
        "" => "of several areas".to_owned(),
        common => format!("{common}*"),
    }
}

/// `scenario[parameters]#2` as the scenario and the rest.
pub(super) fn split_id(id: &str) -> (&str, Option<&str>) {
    id.find('[').map_or((id, None), |at| (&id[..at], Some(&id[at..])))
}
