//! Course of a suite: verdicts, retries, pauses and fail-fast.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::time::Timestamp;

use crate::{Action, Connect, Growth, Moment, Reply, Response, Retry, Run, Scope, Verdict, Work, parse};

/// Course of a suite: the work in order, and the verdicts.
struct Course {
    work: Vec<String>,
    verdicts: Vec<String>,
    notes: Vec<String>,
}

/// Runs a suite against a service that answers `/STATUS` with this status and `{"id": NUMBER}`, where the number counts the
/// requests.
fn run_with(text: &str, retry: Retry) -> Course {
    let parsed = parse("suite.yaml", text.as_bytes());
    let suite = parsed
        .suite
        .unwrap_or_else(|| panic!("{:#?}", parsed.diagnostics));
    let config = BTreeMap::from([("base_url".to_owned(), "http://c".to_owned())]);
    let env = BTreeMap::from([("A.B".to_owned(), "env".to_owned())]);
    let mut run = Run::new(suite, Scope::new(env, config), "http://b".to_owned(), retry);
    let (mut work, mut count, mut random) = (Vec::new(), 0_u32, 0_u128);
    loop {
        let now = Timestamp(i64::from(count) * 1000);
        let mut source = || {
            random += 1;
            random
        };
        let next = run.next(&mut Moment {
            now,
            random: &mut source,
        });
        match next {
            Work::End => break,
            Work::Pause(pause) => work.push(format!("pause {}", pause.as_millis())),
            Work::WaitHealthy(limit) => {
                work.push(format!("healthy {}", limit.as_secs()));
                run.reply(Reply::Done, now);
            }
            Work::WaitForPort(Connect { host, port, limit }) => {
                work.push(format!("{host}:{port} {}", limit.as_secs()));
                run.reply(Reply::Failed(crate::Failure::new("", "closed")), now);
            }
            Work::Act(Action::Request(request)) => {
                count += 1;
                let body = request
                    .body
                    .as_deref()
                    .map(String::from_utf8_lossy)
                    .unwrap_or_default();
                work.push(format!("{}{body}", request.url));
                let response = Response {
                    status: request.url.path()[1..].parse().unwrap_or(200),
                    headers: vec![("content-type".to_owned(), "application/json".to_owned())],
                    body: format!("{{\"id\": {count}, \"list\": [{{\"n\": null}}]}}").into_bytes(),
                    elapsed: Duration::ZERO,
                };
                let reply = match request.address() {
                    Ok(_) => Reply::Response(response),
                    Err(reply) => reply,
                };
                run.reply(reply, now + Duration::from_millis(7));
            }
            Work::Act(Action::Container(check)) => panic!("{check:?}"),
        }
        assert!(work.len() < 100, "{work:?}");
    }
    let verdict = |case: &crate::CaseResult| {
        let result = match case.result {
            Verdict::Passed => "P",
            Verdict::Failed => "F",
            Verdict::Skipped => "skipped",
            Verdict::Unsupported => "unsupported",
        };
        format!("{} {result} {}", case.name, case.attempts)
    };
    Course {
        work,
        verdicts: run.report().cases.iter().map(verdict).collect(),
        notes: run.report().notes.iter().map(|note| note.step.clone()).collect(),
    }
}

fn run(text: &str) -> Course {
    run_with(text, Retry::default())
}

fn three_cases(head: &str, of_second: &str) -> Vec<String> {
    run(&format!(
        "name: s
{head}
cases:
  - {{ name: a, request: {{ path: /200 }}, expect: {{ status: 200 }} }}
  - {{ name: b, request: {{ path: /500 }}, expect: {{ status: 200 }}{of_second} }}
  - {{ name: c, request: {{ path: /200 }}, expect: {{ status: 200 }} }}
"
    ))
    .verdicts
}

#[test]
fn address_with_https_is_unsupported_and_stops_nothing() {
    let course = run("name: s
sequential: true
setup:
  - { name: login, request: { url: 'https://a/' } }
cases:
  - { name: a, request: { url: 'https://a/' }, retry: { maxAttempts: 3, delay: 1s }, ignoreError: true }
  - { name: b, request: { path: /200 }, expect: { status: 200 } }
");
    assert_eq!(course.verdicts, ["a unsupported 1", "b P 1"]);
    assert_eq!(course.notes, ["login"]);
}

/// A suite of a few lines must not take the memory of the controller.
#[test]
fn variables_and_texts_above_their_limit_fail_the_case() {
    let ten = |name: &str| format!("{{{{{name}}}}}").repeat(10);
    let mut variables = format!("a0: '{}'", "x".repeat(100));
    for index in 1..60 {
        let earlier = ten(&format!("a{}", index - 1));
        variables.extend([", a", &index.to_string(), ": '", &earlier, "'"]);
    }
    let case = "request: { path: /200, method: POST, body: '{{a59}}' }";
    let course = run(&format!(
        "name: s\nvariables: {{ {variables} }}\ncases:\n  - {{ name: a, {case} }}\n"
    ));
    assert_eq!(
        (course.verdicts, course.work),
        (vec!["a F 1".to_owned()], Vec::new())
    );

    let body = ten("a2").repeat(100);
    let course = run(&format!(
        "name: s\nvariables: {{ a0: '{}', a1: '{}', a2: '{}' }}\ncases:\n  - {{ name: a, request: {{ path: /200, body: '{body}' }} }}\n  \
         - {{ name: b, request: {{ path: /200 }} }}\n",
        "x".repeat(100),
        ten("a0"),
        ten("a1"),
    ));
    assert_eq!(course.verdicts, ["a F 1", "b P 1"]);
    assert_eq!(course.work, ["http://b/200"]);
}

#[test]
fn failed_case_skips_the_rest_of_a_sequential_suite() {
    assert_eq!(
        three_cases("sequential: true", ""),
        ["a P 1", "b F 1", "c skipped 0"]
    );
    assert_eq!(three_cases("sequential: false", ""), ["a P 1", "b F 1", "c P 1"]);
    assert_eq!(three_cases("sequential: 'true'", ""), ["a P 1", "b F 1", "c P 1"]);
    assert_eq!(
        three_cases("sequential: true", ", ignoreError: true"),
        ["a P 1", "b (error ignored) P 1", "c P 1"]
    );
}

#[test]
fn unsupported_case_is_counted_and_stops_nothing() {
    let course = run("name: s
sequential: true
cases:
  - { name: page, browser: { action: goto } }
  - { name: judge, llm-judge: { goal: x } }
  - { name: stream, sse: { url: 'http://h/' } }
  - { name: nothing }
  - { name: after, request: { path: /200 } }
");
    assert_eq!(
        course.verdicts,
        [
            "page unsupported 0",
            "judge unsupported 0",
            "stream unsupported 0",
            "nothing F 1",
            "after skipped 0"
        ]
    );
}

#[test]
fn setup_and_teardown_never_fail_a_suite() {
    let course = run("name: s
teardown:
  - { name: t1, request: { path: /500 }, expect: { status: 200 } }
  - { name: t2, request: { path: /500 }, expect: { status: 200 }, ignoreError: true }
setup:
  - waitHealthy: { timeout: 5s }
  - waitForPort: { port: 8080 }
  - delay: 50ms
  - { name: s1, request: { path: /500 }, expect: { status: 200 }, retry: { maxAttempts: 3, delay: 1s } }
  - { name: s2, request: { url: 'not a url' } }
cases:
  - { name: a, request: { path: /200 } }
");
    assert_eq!(course.verdicts, ["a P 1"]);
    assert_eq!(
        course.work,
        [
            "healthy 5",
            "localhost:8080 60",
            "pause 50",
            "http://b/500",
            "http://b/200",
            "http://b/500",
            "http://b/500"
        ]
    );
    assert_eq!(course.notes, ["setup step 2", "s1", "s2", "t1"]);
}

#[test]
fn each_attempt_pauses_resolves_and_saves_again() {
    let course = run("name: s
variables: { first: '{{uuid}}', second: '{{first}}-{{ env.A.B }}', port: 8080 }
cases:
  - name: a
    delay: 5ms
    retry: { maxAttempts: 3, delay: 10ms, backoff: linear }
    request: { method: POST, path: '/500', body: '{{last}} {{uuid}} {{timestamp}} {{date}}' }
    save: { last: id, none: list.0.n, missing: list.1 }
    expect: { status: 200 }
  - name: b
    request: { url: '{{config.base_url}}/{{last}}/{{none}}/{{missing}}/{{runtime.port}}/{{second}}' }
");
    assert_eq!(course.verdicts, ["a F 3", "b P 1"]);
    let uuid = |number: u8| format!("00000000-0000-4000-8000-0000000000{number:02x}");
    let sent =
        |last: &str, number, time| format!("http://b/500\"{last} {} {time} 1970-01-01\"", uuid(number));
    assert_eq!(
        course.work,
        [
            "pause 5".to_owned(),
            sent("{{last}}", 2, 0),
            "pause 10".to_owned(),
            "pause 5".to_owned(),
            sent("1", 3, 1000),
            "pause 20".to_owned(),
            "pause 5".to_owned(),
            sent("2", 4, 2000),
            format!("http://c/3/null/%7B%7Bmissing%7D%7D/8080/{}-env", uuid(1)),
        ]
    );
}

#[test]
fn retries_of_the_suite_apply_without_own_ones() {
    let retry = Retry {
        max_attempts: 2,
        delay: Duration::from_millis(3),
        growth: Growth::Constant,
        multiplier: 2.0,
    };
    let course = run_with(
        "name: s
cases:
  - { name: a, request: { path: /500 }, expect: { status: 200 } }
  - { name: b, request: { path: /500 }, expect: { status: 200 }, retry: { maxAttempts: 1 } }
  - { name: c, delay: soon, request: { path: /200 } }
",
        retry,
    );
    assert_eq!(course.verdicts, ["a F 2", "b F 1", "c F 2"]);
}

#[test]
fn interruption_fails_the_case_and_runs_the_teardown() {
    let text = "name: s
cases:
  - { name: a, request: { path: /200 } }
  - { name: b, request: { path: /200 } }
teardown:
  - { request: { path: /t } }
";
    let suite = parse("s.yaml", text.as_bytes()).suite.unwrap();
    let mut run = Run::new(suite, Scope::default(), "http://b".to_owned(), Retry::default());
    let mut moment = Moment {
        now: Timestamp(0),
        random: &mut || 0,
    };
    assert!(matches!(run.next(&mut moment), Work::Act(_)));
    run.interrupt("the time limit of the suite ended", Timestamp(5));
    let Work::Act(Action::Request(request)) = run.next(&mut moment) else {
        panic!("the teardown follows");
    };
    assert_eq!(request.url.path(), "/t");
    run.reply(Reply::Failed(crate::Failure::new("", "gone")), Timestamp(6));
    assert_eq!(run.next(&mut moment), Work::End);
    let report = run.report();
    assert_eq!(
        (report.count(Verdict::Failed), report.count(Verdict::Skipped)),
        (1, 1)
    );
    assert_eq!(report.cases[0].duration, Duration::from_millis(5));
    assert!(report.cases[0].exchange.is_some());
}
