//! What the lint says of a good file that is made bad in one thing.

use super::*;
use crate::load;

const GOOD: &str = "\
scenario: area.name
version: 1
about: Words.
where: { transports: [stdio, http], revisions: 2025-06-18.. }
twin: lifecycle.plain
server:
  tools: [echo]
  rules:
    - { on: tools/call, label: held, do: [ { hold_until: { on: tools/call } } ] }
drive:
  - open:
  - { call: { tool: echo }, as: first, background: true }
  - { await: { step: first } }
  - close:
judge:
  - check: one
    requirement: lifecycle-initialize-first
    after: { step: open }
    expect: { request: tools/call }
    killed_by: some-mutant
";

fn read(relative: &str, text: &str) -> Loaded {
    let mut loaded = load::parse(relative.to_owned(), relative.to_owned(), text.to_owned().into())
        .unwrap_or_else(|e| panic!("{e}"));
    loaded.built_in = true;
    loaded
}

/// What the lint says of the good file after the replacements.
fn said(replacements: &[(&str, &str)]) -> String {
    let mut text = GOOD.to_owned();
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    lint(&[read("area/name.yaml", &text)]).iter().map(|d| d.render(false)).collect()
}

/// The codes of what it says.
fn codes(replacements: &[(&str, &str)]) -> String {
    let said = said(replacements);
    let heads = said.lines().filter(|line| line.starts_with("error[") || line.starts_with("warning["));
    let codes = heads.filter_map(|line| line.split(['[', ']']).nth(1));
    codes.collect::<Vec<_>>().join(" ")
}

const EXPECT: &str = "expect: { request: tools/call }";
const REQUIREMENT: &str = "requirement: lifecycle-initialize-first";

#[test]
fn a_good_file_is_clean() {
    assert_eq!(said(&[]), "");
}

#[test]
fn the_scenario_as_a_whole() {
    insta::assert_snapshot!(said(&[("scenario: area.name", "scenario: Area.name")]), @r"
        error[scenario-id]: `Area.name` is no id: write lower-case words with dots and dashes, as in `http.session.lost`
         ┌─ area/name.yaml:1:11
         │
        1│ scenario: Area.name
         │           ^^^^^^^^^
        ");
    insta::assert_snapshot!(said(&[("scenario: area.name", "scenario: area.other")]), @r"
        error[scenario-id]: the scenario `area.other` belongs in a file `area/other.yaml`
         ┌─ area/name.yaml:1:11
         │
        1│ scenario: area.other
         │           ^^^^^^^^^^
        ");
    insta::assert_snapshot!(said(&[("version: 1", "version: 0")]), @r"
        error[version]: versions count from 1
         ┌─ area/name.yaml:2:10
         │
        2│ version: 0
         │          ^
        ");
    insta::assert_snapshot!(said(&[("twin: lifecycle.plain", "twin: lifecycle.plane")]), @r"
        error[twin]: there is no scenario `lifecycle.plane`
         ┌─ area/name.yaml:5:7
         │
        5│ twin: lifecycle.plane
         │       ^^^^^^^^^^^^^^^ did you mean `lifecycle.plain`?
        ");
    insta::assert_snapshot!(said(&[("server:", "servers:\n  a: { tools: [echo] }\nserver:")]), @r"
        error[servers]: a scenario has either `server` or `servers`
         ┌─ area/name.yaml:6:1
         │
        6│ servers:
         │ ^^^^^^^
        ");
    insta::assert_snapshot!(said(&[("drive:", "deadline_ms: 5\ndrive:")]), @r"
        error[deadline]: a deadline is between 1000 and 120000 ms
          ┌─ area/name.yaml:10:14
          │
        10│ deadline_ms: 5
          │              ^
        ");
    assert_eq!(codes(&[("twin: lifecycle.plain", "twin: area.name")]), "twin");
    assert_eq!(codes(&[("about: Words.", "about: ''")]), "about");
    let no_checks = &GOOD[GOOD.find("  - check").unwrap()..];
    assert_eq!(codes(&[("judge:\n", "judge: []\n"), (no_checks, "")]), "no-checks");
}

#[test]
fn ids_are_unique_over_all_files() {
    let set = [read("area/name.yaml", GOOD), read("name.yaml", GOOD)];
    let wrong: String = lint(&set).iter().map(|d| d.render(false)).collect();
    insta::assert_snapshot!(wrong, @r"
        error[duplicate-id]: `area.name` is also the id of area/name.yaml
         ┌─ name.yaml:1:11
         │
        1│ scenario: area.name
         │           ^^^^^^^^^
        ");
}

#[test]
fn where_it_applies() {
    let at = "{ transports: [stdio, http], revisions: 2025-06-18.. }";
    insta::assert_snapshot!(said(&[(at, "{ revisions: 2025-11-26.. }")]), @r"
        error[revisions]: `2025-11-26` is no released revision; known are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28
         ┌─ area/name.yaml:4:21
         │
        4│ where: { revisions: 2025-11-26.. }
         │                     ^^^^^^^^^^^^
        ");
    insta::assert_snapshot!(said(&[(at, "{ transports: [stdio, sse-legacy], revisions: 2025-06-18.. }")]), @r"
        error[transports]: none of the scenario's revisions has the transport sse-legacy
         ┌─ area/name.yaml:4:30
         │
        4│ where: { transports: [stdio, sse-legacy], revisions: 2025-06-18.. }
         │                              ^^^^^^^^^^
        ");
    insta::assert_snapshot!(said(&[(at, "{ needs: [samplign] }")]), @r"
        error[unknown-feature]: `samplign` is no feature of drivers
         ┌─ area/name.yaml:4:18
         │
        4│ where: { needs: [samplign] }
         │                  ^^^^^^^^ did you mean `sampling`?
        ");
    insta::assert_snapshot!(said(&[(at, "{ promises: [naming.max_length = 64] }")]), @r"
        error[unknown-promise]: `naming.max_length` is no promise of the catalogue
         ┌─ area/name.yaml:4:21
         │
        4│ where: { promises: [naming.max_length = 64] }
         │                     ^^^^^^^^^^^^^^^^^^^^^^ did you mean `naming.max_len`?
        ");
    assert_eq!(codes(&[(at, "{ promises: ['naming.max_len = sixty four'] }")]), "promise-value");
    assert_eq!(codes(&[(at, "{ promises: [naming.max_len = 64] }")]), "");
}

#[test]
fn what_a_check_rests_on() {
    insta::assert_snapshot!(said(&[(REQUIREMENT, "requirement: lifecycle-initialise-first")]), @r"
        error[unknown-requirement]: `lifecycle-initialise-first` is no requirement of the catalogue
          ┌─ area/name.yaml:17:18
          │
        17│     requirement: lifecycle-initialise-first
          │                  ^^^^^^^^^^^^^^^^^^^^^^^^^^ did you mean `lifecycle-initialize-first`?
        ");
    insta::assert_snapshot!(said(&[(REQUIREMENT, "requirement: jsonrpc-batch-receive")]), @r"
        error[never-applies]: `jsonrpc-batch-receive` holds in no case of this scenario
          ┌─ area/name.yaml:17:18
          │
        17│     requirement: jsonrpc-batch-receive
          │                  ^^^^^^^^^^^^^^^^^^^^^ it holds in 2025-03-26 over stdio, http
        ");
    insta::assert_snapshot!(said(&[(REQUIREMENT, "promise: naming.maxlen")]), @r"
        error[unknown-promise]: `naming.maxlen` is no promise of the catalogue
          ┌─ area/name.yaml:17:14
          │
        17│     promise: naming.maxlen
          │              ^^^^^^^^^^^^^ did you mean `naming.max_len`?
        ");
    insta::assert_snapshot!(said(&[(REQUIREMENT, "requirement: lifecycle-initialize-first\n    promise: naming.max_len")]), @r"
        error[basis]: a check rests on exactly one of `requirement` and `promise`
          ┌─ area/name.yaml:18:5
          │
        18│     promise: naming.max_len
          │     ^^^^^^^
        ");
    assert_eq!(codes(&[(REQUIREMENT, "transports: [stdio]")]), "basis");
    assert_eq!(
        codes(&[(REQUIREMENT, "requirement: lifecycle-initialize-first\n    revisions: 2024-11-05")]),
        "never-applies"
    );
    assert_eq!(
        codes(&[(REQUIREMENT, "requirement: lifecycle-initialize-first\n    revisions: yesterday")]),
        "revisions"
    );
    // Somewhere is enough: the check is not applicable elsewhere.
    assert_eq!(codes(&[(REQUIREMENT, "requirement: http-accept-202")]), "");
}

#[test]
fn one_judgement_that_can_fail() {
    insta::assert_snapshot!(said(&[(EXPECT, "until: { step: close }")]), @r"
    error[judgement]: the check `one` needs one of expect, never, count, each, order and spacing
      ┌─ area/name.yaml:16:5
      │
    16│   - check: one
      │     ^^^^^
    ");
    insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: tools/call }\n    order: [ { request: initialize }, { request: ping } ]")]), @r"
        error[judgement]: a check has only one judgement, and this one has expect and order
          ┌─ area/name.yaml:20:5
          │
        20│     order: [ { request: initialize }, { request: ping } ]
          │     ^^^^^
        ");
    insta::assert_snapshot!(said(&[(EXPECT, "never: { request: ping }"), ("    after: { step: open }\n", ""), ("twin: lifecycle.plain\n", "")]), @r"
        error[negative-check]: a check that nothing happens needs `after`: the event that gave it the occasion
          ┌─ area/name.yaml:17:5
          │
        17│     never: { request: ping }
          │     ^^^^^
        error[negative-check]: a check that nothing happens needs a `twin`: a scenario where the same thing is expected
          ┌─ area/name.yaml:17:5
          │
        17│     never: { request: ping }
          │     ^^^^^
        ");
    insta::assert_snapshot!(said(&[(EXPECT, "count: { of: { request: ping }, max: 0 }"), ("twin: lifecycle.plain\n", "")]), @r"
        error[negative-check]: a check that nothing happens needs a `twin`: a scenario where the same thing is expected
          ┌─ area/name.yaml:18:5
          │
        18│     count: { of: { request: ping }, max: 0 }
          │     ^^^^^
        ");
    insta::assert_snapshot!(said(&[(EXPECT, "spacing: { from: { request: initialize }, to: { request: ping }, min_ms: 5 }")]), @r"
        error[time]: `lifecycle-initialize-first` says nothing about time
          ┌─ area/name.yaml:19:5
          │
        19│     spacing: { from: { request: initialize }, to: { request: ping }, min_ms: 5 }
          │     ^^^^^^^
        ");
    let counts = [
        "count: { of: { request: ping } }",
        "count: { of: { request: ping }, min: 0 }",
        "count: { of: { request: ping }, min: 3, max: 2 }",
        "order: [ { request: ping } ]",
        "each: { of: { request: ping } }",
        "expect: { request: ping, nth: 0 }",
    ];
    for wrong in counts {
        assert_eq!(codes(&[(EXPECT, wrong)]), "counts", "{wrong}");
    }
    let time = "requirement: lifecycle-timeout-configurable";
    let spacing = "spacing: { from: { request: ping }, to: { step: first }, min_ms: 5 }";
    assert_eq!(codes(&[(REQUIREMENT, time), (EXPECT, spacing)]), "");
    assert_eq!(codes(&[(REQUIREMENT, "promise: restart.backoff_s"), (EXPECT, spacing)]), "");
}

#[test]
fn names_of_checks_and_mutants() {
    let second = format!("{}{}", GOOD, &GOOD[GOOD.find("  - check").unwrap()..]);
    let wrong: String = lint(&[read("area/name.yaml", &second)]).iter().map(|d| d.render(false)).collect();
    insta::assert_snapshot!(wrong, @r"
        error[check-name]: another check is also called `one`
          ┌─ area/name.yaml:21:12
          │
        21│   - check: one
          │            ^^^
        ");
    insta::assert_snapshot!(said(&[("check: one", "check: One thing")]), @r"
        error[check-name]: `One thing` is no name: write lower-case words with dashes
          ┌─ area/name.yaml:16:12
          │
        16│   - check: One thing
          │            ^^^^^^^^^
        ");
    insta::assert_snapshot!(said(&[("    killed_by: some-mutant\n", "")]), @r"
    error[killed-by]: the check `one` names no mutant that fails it
      ┌─ area/name.yaml:16:5
      │
    16│   - check: one
      │     ^^^^^
    ");
    let set = [read("area/name.yaml", GOOD)];
    assert!(lint_mutants(&set, &["some-mutant"]).is_empty());
    let wrong: String = lint_mutants(&set, &["some-mutants"]).iter().map(|d| d.render(false)).collect();
    insta::assert_snapshot!(wrong, @r"
        error[unknown-mutant]: there is no mutant `some-mutant`
          ┌─ area/name.yaml:20:16
          │
        20│     killed_by: some-mutant
          │                ^^^^^^^^^^^ did you mean `some-mutants`?
        ");
}

#[test]
fn heads_and_restrictions_of_patterns() {
    insta::assert_snapshot!(said(&[(EXPECT, "expect: { nth: 2 }")]), @r"
    error[pattern-head]: a pattern needs a head: one of request, notification, answer, server_request, server_notification, server_answer, http, process, stream, step, driver_event, rule
      ┌─ area/name.yaml:19:13
      │
    19│     expect: { nth: 2 }
      │             ^^^^^^^^^^
    ");
    insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: ping, notification: notifications/cancelled }")]), @r"
        error[pattern-head]: a pattern has only one head, and this one has request and notification
          ┌─ area/name.yaml:19:30
          │
        19│     expect: { request: ping, notification: notifications/cancelled }
          │                              ^^^^^^^^^^^^
        ");
    insta::assert_snapshot!(said(&[(EXPECT, "expect: [ { request: ping }, { step: close, header: { accept: present }, outcome: error } ]")]), @r"
        error[pattern-restriction]: `header` is for HTTP exchanges
          ┌─ area/name.yaml:19:49
          │
        19│     expect: [ { request: ping }, { step: close, header: { accept: present }, outcome: error } ]
          │                                                 ^^^^^^
        ");
    insta::assert_snapshot!(said(&[(EXPECT, "expect: { http: POST, header: { Accept: present } }")]), @r"
        error[header-name]: header names are written in lower case here
          ┌─ area/name.yaml:19:37
          │
        19│     expect: { http: POST, header: { Accept: present } }
          │                                     ^^^^^^
        ");
    insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: tool/call }")]), @r"
        error[unknown-method]: clients send no `tool/call`
          ┌─ area/name.yaml:19:24
          │
        19│     expect: { request: tool/call }
          │                        ^^^^^^^^^ did you mean `tools/call`?
        ");
    insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: ping, same_id: true }"), ("    after: { step: open }\n", "")]), @r"
        error[pattern-restriction]: `same_id` compares with the event of `after`, and there is none
          ┌─ area/name.yaml:18:30
          │
        18│     expect: { request: ping, same_id: true }
          │                              ^^^^^^^
        ");
    let restrictions = [
        "{ step: close, params: '{}' }",
        "{ request: ping, result: '{}' }",
        "{ request: ping, error: any }",
        "{ answer: ping, params: '{}' }",
        "{ process: started, signal: SIGTERM }",
        "{ request: ping, outcome: ok }",
        "{ step: close, outcome: ok, failure: [timeout] }",
        "{ step: close, outcome: error, value: '{}' }",
        "{ step: close, names_id: requestId }",
        "{ rule: held, status: 200 }",
        "{ request: ping, role: other }",
        "{ step: close, server: server }",
        "{ http: POST, incarnation: 1 }",
    ];
    for wrong in restrictions {
        let after = ("after: { step: open }", "after: { request: ping }");
        assert_eq!(codes(&[(EXPECT, &format!("expect: {wrong}")), after]), "pattern-restriction", "{wrong}");
    }
    assert_eq!(codes(&[(EXPECT, "expect: { request: notifications/cancelled }")]), "unknown-method");
    assert_eq!(codes(&[(EXPECT, "expect: { http: FETCH }")]), "unknown-method");
    // In `each.are` the head may be left out; restrictions still have to fit to it.
    assert_eq!(codes(&[(EXPECT, "each: { of: { http: POST }, are: { header: { accept: present } } }")]), "");
    assert_eq!(
        codes(&[(EXPECT, "each: { of: { http: POST }, are: { outcome: ok } }")]),
        "pattern-restriction"
    );
}

#[test]
fn json_patterns() {
    insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: ping, params: '{\"a\": {\"$lenght\": 3}}' }")]), @r#"
error[json-pattern]: `$lenght` is no operator
  ┌─ area/name.yaml:19:46
  │
19│     expect: { request: ping, params: '{"a": {"$lenght": 3}}' }
  │                                              ^^^^^^^^^ did you mean `$length`?
"#);
    let wrong = [
        r#"{"a": {"$type": "text"}}"#,
        r#"{"a": {"$any": 1}}"#,
        r#"{"a": {"$length": "3"}}"#,
        r#"{"a": {"$class": "a-z"}}"#,
        r#"{"a": {"$distinct": 1}}"#,
        r#"{"a": {"$any": true, "b": 1}}"#,
        r#"{"a": {"$has": {"$nothing": 1}}}"#,
        r#"{"a": "{{id}}"}"#,
    ];
    for wrong in wrong {
        let expect = format!("expect: {{ request: ping, params: '{wrong}' }}");
        assert_eq!(codes(&[(EXPECT, &expect)]), "json-pattern", "{wrong}");
    }
    let fine = "expect: { request: ping, params: '{\"a\": {\"$exactly\": {\"$x\": 1}}}' }";
    assert_eq!(codes(&[(EXPECT, fine)]), "");
}

#[test]
fn no_success_on_the_drivers_word_alone() {
    insta::assert_snapshot!(said(&[(EXPECT, "expect: { step: first, outcome: ok }")]), @r"
        error[word-alone]: this takes a success on the driver's word alone; name in `after` what a server has to have seen or sent
          ┌─ area/name.yaml:19:5
          │
        19│     expect: { step: first, outcome: ok }
          │     ^^^^^^
        ");
    let told = [
        (EXPECT, "expect: { step: first, outcome: ok }"),
        ("after: { step: open }", "after: { request: tools/call }"),
    ];
    assert_eq!(codes(&told), "");
    assert_eq!(codes(&[(EXPECT, "expect: { step: first, outcome: error }")]), "");
}

#[test]
fn names_that_have_to_exist() {
    insta::assert_snapshot!(said(&[(EXPECT, "expect: { step: frist, outcome: error }")]), @r"
        error[unknown-step]: there is no step `frist`
          ┌─ area/name.yaml:19:21
          │
        19│     expect: { step: frist, outcome: error }
          │                     ^^^^^ did you mean `first`?
        ");
    insta::assert_snapshot!(said(&[(EXPECT, "expect: { rule: hold }")]), @r"
        error[unknown-rule]: no rule has the label `hold`
          ┌─ area/name.yaml:19:21
          │
        19│     expect: { rule: hold }
          │                     ^^^^ did you mean `held`?
        ");
    insta::assert_snapshot!(said(&[(EXPECT, "expect: { request: ping, server: left }")]), @r"
        error[unknown-server]: there is no server `left`
          ┌─ area/name.yaml:19:38
          │
        19│     expect: { request: ping, server: left }
          │                                      ^^^^ known are server
        ");
    insta::assert_snapshot!(said(&[("await: { step: first }", "await: { step: second }")]), @r"
        error[unknown-step]: there is no step `second`
          ┌─ area/name.yaml:13:22
          │
        13│   - { await: { step: second } }
          │                      ^^^^^^
        ");
    insta::assert_snapshot!(said(&[("as: first, background: true", "as: first")]), @r"
        error[unknown-step]: the step `first` is over by then: it does not run in the background
          ┌─ area/name.yaml:13:22
          │
        13│   - { await: { step: first } }
          │                      ^^^^^
        ");
    insta::assert_snapshot!(said(&[("tool: echo }", "tool: ecko }")]), @r"
        error[unknown-tool]: no server of this scenario has a tool `ecko`
          ┌─ area/name.yaml:12:21
          │
        12│   - { call: { tool: ecko }, as: first, background: true }
          │                     ^^^^ did you mean `echo`?
        ");
    assert_eq!(codes(&[("- close:", "- { close: , as: open }")]), "label");
    assert_eq!(codes(&[("tool: echo }", "tool: echo, server: left }")]), "unknown-server");
    assert_eq!(codes(&[("- close:", "- { call: { tool: gone }, expect: error }")]), "");
    assert_eq!(codes(&[("- close:", "- read: { uri: 'x://y' }")]), "unknown-resource");
    assert_eq!(codes(&[("- close:", "- prompt: { name: greet }")]), "unknown-prompt");
    assert_eq!(codes(&[("- close:", "- { close: , give_up_ms: 10000 }")]), "deadline");
    assert_eq!(codes(&[("- close:", "- { wait_for: { request: ping }, background: true }")]), "step");
    let twice = "    - { on: ping, label: held, do: [ drop ] }\n    - { on: tools/call, label: held,";
    assert_eq!(codes(&[("    - { on: tools/call, label: held,", twice)]), "label");
}

#[test]
fn what_fits_to_a_transport() {
    let rule = "{ on: tools/call, label: held, do: [ { hold_until: { on: tools/call } } ] }";
    let stdio = ("transports: [stdio, http]", "transports: [stdio]");
    let http = ("transports: [stdio, http]", "transports: [http]");
    insta::assert_snapshot!(said(&[stdio, (rule, "{ on: http-get, do: [ { status: 405 } ] }")]), @r"
    error[transport-fits]: `http-get` happens only on HTTP, where this scenario does not apply
     ┌─ area/name.yaml:9:13
     │
    9│     - { on: http-get, do: [ { status: 405 } ] }
     │             ^^^^^^^^
    ");
    insta::assert_snapshot!(said(&[(rule, "{ on: tools/call, do: [ { exit: 1 } ] }")]), @r"
    error[transport-fits]: this action is only for stdio, and the scenario also applies elsewhere
     ┌─ area/name.yaml:9:31
     │
    9│     - { on: tools/call, do: [ { exit: 1 } ] }
     │                               ^^^^^^^^^^^
    ");
    insta::assert_snapshot!(said(&[http, ("  tools: [echo]", "  tools: [echo]\n  process: { ignore_eof: true }")]), @r"
        error[transport-fits]: `process` is only for stdio, where this scenario does not apply
         ┌─ area/name.yaml:8:3
         │
        8│   process: { ignore_eof: true }
         │   ^^^^^^^
        ");
    assert_eq!(codes(&[http, (rule, "{ on: eof, do: [ drop ] }")]), "transport-fits");
    assert_eq!(codes(&[http, (rule, "{ on: ping, incarnation: 2, do: [ drop ] }")]), "transport-fits");
    assert_eq!(
        codes(&[stdio, ("  tools: [echo]", "  tools: [echo]\n  http: { sessions: true }")]),
        "transport-fits"
    );
    for action in [
        "expire_session",
        "{ reply: { code: 206 } }",
        "{ cut: { after: 9 } }",
        "{ pieces: { every: 9 } }",
        "{ raw_response: [ close ] }",
        "{ sse_event: { data: x } }",
        "{ sse_style: { line_end: cr } }",
        "keep_open",
        "{ answer_on: get-stream }",
        "{ change_session: { id: x } }",
    ] {
        let act = format!("{{ on: tools/call, do: [ {action} ] }}");
        assert_eq!(codes(&[(rule, &act)]), "transport-fits", "{action}");
    }
    assert_eq!(codes(&[(rule, "{ on: eof, do: [ { exit: 1 } ] }")]), "");
    assert_eq!(codes(&[(rule, "{ on: ping, nth: 0, do: [ drop ] }")]), "counts");
    assert_eq!(codes(&[(rule, "{ on: ping, do: [] }")]), "no-actions");
}

#[test]
fn what_never_happens() {
    let rule = "{ on: tools/call, label: held, do: [ { hold_until: { on: tools/call } } ] }";
    let two = |second: &str| format!("{rule}\n    - {second}");
    insta::assert_snapshot!(said(&[(rule, &two("{ on: tools/call, params: { name: echo }, nth: 2, do: [ drop ] }"))]), @r"
    warning[shadowed-rule]: this rule never fires: rule `held` takes every such event before it
      ┌─ area/name.yaml:10:13
      │
    10│     - { on: tools/call, params: { name: echo }, nth: 2, do: [ drop ] }
      │             ^^^^^^^^^^
    ");
    insta::assert_snapshot!(said(&[("transports: [stdio, http]", "transports: [stdio]"), (rule, "{ on: start, nth: 2, do: [ { exit: 1 }, { stdout: x } ] }")]), @r"
    warning[unreachable-nth]: `start` happens once in each process
     ┌─ area/name.yaml:9:25
     │
    9│     - { on: start, nth: 2, do: [ { exit: 1 }, { stdout: x } ] }
     │                         ^
    warning[dead-action]: this is never done: the action before it ends the server
     ┌─ area/name.yaml:9:47
     │
    9│     - { on: start, nth: 2, do: [ { exit: 1 }, { stdout: x } ] }
     │                                               ^^^^^^^^^^^^^
    ");
    insta::assert_snapshot!(said(&[(rule, "{ on: tools/call, params: '{\"name\": \"ecko\"}', do: [ drop ] }")]), @r#"
    warning[unmatched-params]: this server has no tool `ecko`
     ┌─ area/name.yaml:9:43
     │
    9│     - { on: tools/call, params: '{"name": "ecko"}', do: [ drop ] }
     │                                           ^^^^^^ did you mean `echo`?
    "#);
    let third = "{ on: tools/call, params: { name: echo }, do: [ drop ] }\n    - { on: tools/call, nth: 2, do: [ drop ] }\n    - { on: tools/call, nth: 2, do: [ default ] }";
    assert_eq!(codes(&[(rule, third)]), "shadowed-rule");
    let fine =
        "{ on: tools/call, params: { name: echo }, do: [ drop ] }\n    - { on: tools/call, do: [ drop ] }";
    assert_eq!(codes(&[(rule, fine)]), "");
    let other = "{ on: tools/call, incarnation: 1, do: [ drop ] }\n    - { on: tools/call, do: [ default ] }";
    assert_eq!(codes(&[("transports: [stdio, http]", "transports: [stdio]"), (rule, other)]), "");
}

#[test]
fn scripts_by_themselves() {
    let said = |text: &str| -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script.yaml");
        std::fs::write(&file, text).unwrap();
        let inputs = load::inputs(&file);
        assert!(inputs.wrong.is_empty(), "{:?}", inputs.wrong);
        let shown = lint_scripts(&inputs.scripts).iter().map(|d| d.render(false)).collect::<String>();
        shown.replace(&file.display().to_string(), "script.yaml")
    };
    assert_eq!(said("process: { ignore_eof: true }\nhttp: { sessions: true }\n"), "");
    insta::assert_snapshot!(said("rules:\n  - on: http-get\n    do: [ { exit: 1 } ]\n"), @r"
    error[transport-fits]: this action is only for stdio, where this never happens
     ┌─ script.yaml:3:11
     │
    3│     do: [ { exit: 1 } ]
     │           ^^^^^^^^^^^
    ");
    insta::assert_snapshot!(said("rules:\n  - { on: ping, state: opne, do: [ drop ] }\n  - { on: tools/list, counts: { cals: 2 }, do: [ { count: calls } ] }\n  - { on: tools/call, do: [ { set_state: open } ] }\n"), @r"
    warning[unreachable-state]: nothing sets the state `opne`
     ┌─ script.yaml:2:24
     │
    2│   - { on: ping, state: opne, do: [ drop ] }
     │                        ^^^^ did you mean `open`?
    warning[unreachable-state]: nothing counts `cals`
     ┌─ script.yaml:3:33
     │
    3│   - { on: tools/list, counts: { cals: 2 }, do: [ { count: calls } ] }
     │                                 ^^^^ did you mean `calls`?
    ");
}

#[test]
fn the_embedded_scenarios_are_clean() {
    let shown = |wrong: Vec<Diagnostic>| wrong.iter().map(|d| d.render(false)).collect::<String>();
    let set = load::embedded().map_err(shown).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(set.len() >= 28);
    let wrong = shown(lint(&set));
    assert!(wrong.is_empty(), "{wrong}");
}
