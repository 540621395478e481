//! Rows of answers and the verdicts that they make.

use argus_core::desired::ProbeKind;

use super::*;

fn probe() -> Probe {
    Probe {
        kind: ProbeKind::Tcp { port: 80 },
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(1),
        retries: 3,
        success_threshold: 1,
        start_period: Duration::from_secs(5),
    }
}

/// Answers as `second:+` or `second:-`; the flips that they make.
fn check(probe: &Probe, answers: &str) -> String {
    let mut row = ProbeHistory::new(probe, Some(Timestamp(0)), Timestamp(0));
    let mut flips = Vec::new();
    for answer in answers.split_whitespace() {
        let (at, sign) = answer.split_once(':').unwrap();
        let at: i64 = at.parse().unwrap();
        if row.take(
            probe,
            if sign == "+" {
                ProbeReply::good("")
            } else {
                ProbeReply::bad("")
            },
            Timestamp(at * 1_000),
        ) {
            flips.push(format!("{at}:{:?}", row.health().unwrap().status));
        }
    }
    flips.join(" ")
}

#[test]
fn a_row_of_answers_makes_a_verdict() {
    let one = probe();
    let two = Probe {
        success_threshold: 2,
        ..probe()
    };
    for (probe, answers, flips) in [
        (&one, "0:+", "0:Healthy"),
        (&one, "0:- 1:- 2:- 3:- 4:+", "0:Starting 4:Healthy"),
        // Quick failures count once an interval, and none within the start period.
        (
            &one,
            "0:- 5:- 6:- 14:- 15:- 16:- 25:- 34:- 35:-",
            "0:Starting 35:Unhealthy",
        ),
        (
            &one,
            "1:+ 11:- 21:- 31:+ 41:- 51:- 61:-",
            "1:Healthy 61:Unhealthy",
        ),
        (
            &one,
            "1:+ 11:- 21:- 31:- 41:- 51:+",
            "1:Healthy 31:Unhealthy 51:Healthy",
        ),
        (&two, "0:+ 1:- 2:+ 3:+", "0:Starting 3:Healthy"),
    ] {
        assert_eq!(check(probe, answers), flips, "{answers}");
    }
}

#[test]
fn a_verdict_says_since_when_the_probe_fails() {
    let probe = probe();
    let since = |answers: &[(i64, ProbeReply)]| {
        let mut row = ProbeHistory::new(&probe, Some(Timestamp(0)), Timestamp(0));
        for (at, answer) in answers {
            row.take(&probe, answer.clone(), Timestamp(*at * 1_000));
        }
        let health = row.health().unwrap();
        (health.status, health.failing_since.map(|at| at.0 / 1_000))
    };
    let (good, bad) = (|at| (at, ProbeReply::good("")), |at| (at, ProbeReply::bad("")));
    let fails = [good(1), bad(11), good(21), bad(31), bad(41), bad(51), bad(61)];
    assert_eq!(since(&fails), (ProbeStatus::Unhealthy, Some(31)));
    assert_eq!(since(&fails[..5]), (ProbeStatus::Healthy, None));
    let back: Vec<_> = fails.into_iter().chain([good(71)]).collect();
    assert_eq!(since(&back), (ProbeStatus::Healthy, None));
    // What counts for nothing while it starts is no failure.
    let slow = [bad(1), bad(6), bad(15), bad(25), bad(35)];
    assert_eq!(since(&slow), (ProbeStatus::Unhealthy, Some(15)));
}

#[test]
fn a_probe_that_nobody_answers_is_dead_and_one_with_a_bad_answer_is_not() {
    let probe = probe();
    for (answers, dead) in [
        (
            [
                ProbeReply::none("refused"),
                ProbeReply::none("refused"),
                ProbeReply::none("refused"),
            ],
            true,
        ),
        (
            [
                ProbeReply::bad("500"),
                ProbeReply::bad("500"),
                ProbeReply::bad("500"),
            ],
            false,
        ),
        (
            [
                ProbeReply::none("refused"),
                ProbeReply::bad("500"),
                ProbeReply::none("refused"),
            ],
            false,
        ),
    ] {
        let mut row = ProbeHistory::new(&probe, Some(Timestamp(0)), Timestamp(0));
        row.take(&probe, ProbeReply::good(""), Timestamp(1_000));
        for (index, answer) in (2..).zip(answers) {
            row.take(&probe, answer, Timestamp(index * 10_000));
        }
        let health = row.health().unwrap();
        assert_eq!((health.status, health.dead), (ProbeStatus::Unhealthy, dead));
        assert_eq!(health.recent.len(), 4);
    }
}

#[test]
fn a_question_that_cannot_be_put_says_nothing_and_three_in_a_row_do() {
    let probe = probe();
    let mut row = ProbeHistory::new(&probe, Some(Timestamp(0)), Timestamp(0));
    row.take(&probe, ProbeReply::good(""), Timestamp(1_000));
    let mut told = |answer: ProbeReply, second: i64| {
        row.take(&probe, answer, Timestamp(second * 1_000));
        row.health().unwrap().status
    };
    for (answer, at, verdict) in [
        (ProbeReply::missed("no exec"), 10, ProbeStatus::Healthy),
        (ProbeReply::missed("no exec"), 20, ProbeStatus::Healthy),
        (ProbeReply::good(""), 30, ProbeStatus::Healthy),
        (ProbeReply::missed("no exec"), 40, ProbeStatus::Healthy),
        (ProbeReply::missed("no exec"), 50, ProbeStatus::Healthy),
        (ProbeReply::missed("no exec"), 60, ProbeStatus::Unhealthy),
    ] {
        assert_eq!(told(answer, at), verdict, "at {at}");
    }
}

#[test]
fn questions_that_cannot_be_put_count_as_bad_answers_do_but_three_at_least() {
    let quick = Probe {
        retries: 1,
        ..probe()
    };
    let patient = Probe {
        retries: 5,
        ..probe()
    };
    for (probe, unhealthy_at) in [(&quick, 35), (&patient, 55)] {
        let mut row = ProbeHistory::new(probe, Some(Timestamp(0)), Timestamp(0));
        let mut at = 0;
        // Four a second, as they are asked while it starts.
        while row
            .health()
            .is_none_or(|health| health.status != ProbeStatus::Unhealthy)
        {
            at += 250;
            assert!(at <= 100_000, "it is noticed in the end");
            row.take(probe, ProbeReply::missed("no exec"), Timestamp(at));
        }
        // The start period, and an interval for each.
        assert_eq!(at / 1_000, unhealthy_at);
    }
}

#[test]
fn an_engine_whose_clock_is_ahead_hides_no_bad_answers() {
    let probe = probe();
    let mut row = ProbeHistory::new(&probe, Some(Timestamp(3_600_000)), Timestamp(0));
    let answers = [15_000, 25_000, 35_000].map(|at| row.take(&probe, ProbeReply::bad(""), Timestamp(at)));
    assert_eq!(answers, [true, false, true]);
    assert_eq!(row.health().unwrap().status, ProbeStatus::Unhealthy);
}

#[test]
fn more_bad_than_good_in_turns_is_unsteady_and_one_outage_is_not() {
    let probe = Probe {
        retries: 100,
        ..probe()
    };
    let unsteady = |pattern: &str| {
        let mut row = ProbeHistory::new(&probe, Some(Timestamp(0)), Timestamp(0));
        for (index, sign) in (1..).zip(pattern.chars()) {
            let answer = if sign == '+' {
                ProbeReply::good("")
            } else {
                ProbeReply::bad("")
            };
            row.take(&probe, answer, Timestamp(index * 10_000));
        }
        row.health().unwrap().unsteady
    };
    assert!(unsteady("+--+--+--+--+--+--+--"));
    assert!(!unsteady("+++++++++------------"));
    assert!(!unsteady("+-+++-+++-+++-+++-+++"));
    assert!(!unsteady("+--+--"));
}

#[test]
fn probes_are_quick_until_the_first_verdict() {
    let probe = probe();
    let mut row = ProbeHistory::new(&probe, None, Timestamp(0));
    let pauses: Vec<_> = (0..9).map(|_| row.pause(&probe).as_millis()).collect();
    assert_eq!(pauses, [50, 75, 112, 168, 253, 379, 569, 854, 1_000]);
    row.take(&probe, ProbeReply::good(""), Timestamp(1));
    assert_eq!(row.pause(&probe), probe.interval);
}
