//! Conclusions and exit codes: part of the program's interface.

use crate::sample::{case, good, judge, lost_session, monitor, report, skipped};
use sparring_reports::model::{Conclusion, JudgeKind, Level, Verdict, exit_code};

#[test]
fn every_conclusion_has_its_documented_code() {
    let all = [
        Conclusion::Passed,
        Conclusion::Failed,
        Conclusion::Unsupported,
        Conclusion::NothingRan,
        Conclusion::HarnessError,
        Conclusion::Interrupted,
    ];
    for conclusion in all {
        // No `_`: a new conclusion must be put here, and into `all`.
        let code = match conclusion {
            Conclusion::Passed => 0,
            Conclusion::Failed => 1,
            Conclusion::HarnessError => 4,
            Conclusion::NothingRan => 5,
            Conclusion::Unsupported => 6,
            Conclusion::Interrupted => 130,
        };
        assert_eq!(conclusion.exit_code(), code, "{conclusion:?}");
        assert!(exit_code::TABLE.iter().any(|(known, _)| *known == code), "{code} is documented");
    }
    let mut codes = exit_code::TABLE.map(|(code, _)| code);
    assert!(codes.is_sorted(), "in order");
    assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 130], "codes are never reused");
    codes.sort_unstable();
    assert!(codes.windows(2).all(|pair| pair[0] != pair[1]), "each code means one thing");
}

#[test]
fn what_cases_come_to() {
    let one = |judge| vec![case("s", "2025-11-25", "stdio", vec![judge])];
    let check = |verdict| one(judge(JudgeKind::Check, "s/c", Level::Must, verdict));
    let of = |cases: &[_]| Conclusion::of(cases, false, false);

    for verdict in Verdict::ALL {
        let expected = match verdict {
            Verdict::Pass | Verdict::Warn | Verdict::Inconclusive => Conclusion::Passed,
            Verdict::Fail | Verdict::NotTestable | Verdict::Timeout | Verdict::Crash => Conclusion::Failed,
            Verdict::Unsupported => Conclusion::Unsupported,
            Verdict::NotApplicable => Conclusion::NothingRan,
            Verdict::HarnessError => Conclusion::HarnessError,
        };
        assert_eq!(of(&check(verdict)), expected, "{verdict:?}");
    }
    assert_eq!(of(&[]), Conclusion::NothingRan);
    assert_eq!(
        of(&one(monitor("m", Level::Must, Verdict::Pass, ""))),
        Conclusion::NothingRan,
        "monitors alone prove nothing"
    );
    assert_eq!(Conclusion::of(&check(Verdict::Fail), false, true), Conclusion::Interrupted);

    let unsupported = skipped("u", "2025-11-25", "stdio", Verdict::Unsupported, "no `read`");
    let mut cases = vec![unsupported, case("s", "2025-11-25", "stdio", good("s"))];
    assert_eq!(of(&cases), Conclusion::Unsupported);
    assert_eq!(Conclusion::of(&cases, true, false), Conclusion::Passed);
    assert_eq!(Conclusion::of(&cases[..1], true, false), Conclusion::NothingRan);
    cases.push(case("h", "2025-11-25", "stdio", vec![monitor("m", Level::Must, Verdict::HarnessError, "x")]));
    assert_eq!(of(&cases), Conclusion::HarnessError);
    cases.push(case("l", "2025-11-25", "http", vec![lost_session("l")]));
    assert_eq!(of(&cases), Conclusion::Failed, "a failure outweighs what is not the client's fault");
    assert_eq!(report(cases).conclusion, Conclusion::Failed);
}
