//! Sequences of probe replies and the resulting health statuses.

use argus_core::desired::ProbeHandler;

use super::*;

fn probe() -> Probe {
    Probe {
        kind: ProbeHandler::Tcp { port: 80 },
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(1),
        retries: 3,
        success_threshold: 1,
        start_period: Duration::from_secs(5),
    }
}

/// Replays replies such as `second:+` or `second:-`, and returns the changes of the status. `!` marks a container that is not unhealthy
/// although its last probe failed.
fn replay(probe: &Probe, replies: &str) -> String {
    let mut history = ProbeHistory::new(probe, Some(Timestamp(0)), Timestamp(0));
    let mut flips = Vec::new();
    for reply in replies.split_whitespace() {
        let (at, sign) = reply.split_once(':').unwrap();
        let at: i64 = at.parse().unwrap();
        if history.add(
            probe,
            if sign == "+" {
                ProbeResult::success("")
            } else {
                ProbeResult::failure("")
            },
            Timestamp(at * 1_000),
        ) {
            let health = history.health().unwrap();
            let failing = if health.failing { "!" } else { "" };
            flips.push(format!("{at}:{:?}{failing}", health.status));
        }
    }
    flips.join(" ")
}

#[test]
fn replies_result_in_a_status() {
    let one = probe();
    let two = Probe {
        success_threshold: 2,
        ..probe()
    };
    for (probe, replies, flips) in [
        (&one, "0:+", "0:Healthy"),
        (&one, "0:- 1:- 2:- 3:- 4:+", "0:Starting 4:Healthy"),
        // During the start a failure counts once per interval, and none counts within the start period.
        (
            &one,
            "0:- 5:- 6:- 14:- 15:- 16:- 25:- 34:- 35:-",
            "0:Starting 5:Starting! 35:Unhealthy",
        ),
        (
            &one,
            "1:+ 11:- 21:- 31:+ 41:- 51:- 61:-",
            "1:Healthy 11:Healthy! 31:Healthy 41:Healthy! 61:Unhealthy",
        ),
        (
            &one,
            "1:+ 11:- 21:- 31:- 41:- 51:+",
            "1:Healthy 11:Healthy! 31:Unhealthy 51:Healthy",
        ),
        (&two, "0:+ 1:- 2:+ 3:+", "0:Starting 3:Healthy"),
    ] {
        assert_eq!(replay(probe, replies), flips, "{replies}");
    }
}

#[test]
fn long_start_has_the_last_result_of_its_probe() {
    let slow = Probe {
        start_period: Duration::from_secs(60),
        ..probe()
    };
    let mut history = ProbeHistory::new(&slow, Some(Timestamp(0)), Timestamp(0));
    let mut output_at = |seconds: i64, output: &str| {
        let is_changed = history.add(&slow, ProbeResult::failure(output), Timestamp(seconds * 1_000));
        is_changed.then(|| history.health().unwrap().output.clone())
    };
    let results = [(0, "refused"), (1, "500"), (6, "500"), (7, "500"), (8, "404")]
        .map(|(seconds, output)| output_at(seconds, output));
    let reported = |output: &str| Some(output.to_owned());
    assert_eq!(
        results,
        [reported("refused"), None, reported("500"), None, reported("404")]
    );
}

#[test]
fn status_has_the_time_of_the_first_counted_failure() {
    let probe = probe();
    let since = |replies: &[(i64, ProbeResult)]| {
        let mut history = ProbeHistory::new(&probe, Some(Timestamp(0)), Timestamp(0));
        for (at, reply) in replies {
            history.add(&probe, reply.clone(), Timestamp(*at * 1_000));
        }
        let health = history.health().unwrap();
        (health.status, health.failing_since.map(|at| at.0 / 1_000))
    };
    let (success, failure) = (
        |at| (at, ProbeResult::success("")),
        |at| (at, ProbeResult::failure("")),
    );
    let fails = [
        success(1),
        failure(11),
        success(21),
        failure(31),
        failure(41),
        failure(51),
        failure(61),
    ];
    assert_eq!(since(&fails), (ProbeStatus::Unhealthy, Some(31)));
    assert_eq!(since(&fails[..5]), (ProbeStatus::Healthy, None));
    let back: Vec<_> = fails.into_iter().chain([success(71)]).collect();
    assert_eq!(since(&back), (ProbeStatus::Healthy, None));
    // Failures that do not count during the start do not set the time.
    let slow = [failure(1), failure(6), failure(15), failure(25), failure(35)];
    assert_eq!(since(&slow), (ProbeStatus::Unhealthy, Some(15)));
}

#[test]
fn status_has_the_host_pressure_of_the_failing_window() {
    let probe = probe();
    let at = |seconds: i64, waited: u64| Pressure::of(Timestamp(seconds * 1_000), waited * 1_000_000);
    let mut history = ProbeHistory::new(&probe, Some(Timestamp(0)), Timestamp(0));
    let mut add = |seconds: i64, success: bool, waited: u64| {
        let reply = if success {
            ProbeResult::success("")
        } else {
            ProbeResult {
                pressure: Some((at(seconds - 1, waited - 1), at(seconds, waited))),
                ..ProbeResult::failure("")
            }
        };
        history.add(&probe, reply, Timestamp(seconds * 1_000));
        history.health().and_then(|health| health.host_pressure)
    };
    assert_eq!(add(1, true, 0), None);
    assert_eq!(add(11, false, 5), None, "still healthy");
    assert_eq!(add(21, true, 0), None);
    // From the start of the first failed probe, at 30 s, to the end of the last one.
    let seen = [(31, 10), (41, 12), (51, 15), (61, 20)].map(|(seconds, waited)| add(seconds, false, waited));
    assert_eq!(seen, [None, None, Some(28), Some(28)]);
    assert_eq!(add(71, true, 0), None);
}

#[test]
fn starved_host_needs_two_more_failures() {
    let probe = probe();
    // Percent of the time in which tasks waited since the first failure, and the statuses after the failures 1 to 6.
    for (percent, expected) in [
        (60, "Healthy Healthy Unhealthy Unhealthy Unhealthy Unhealthy"),
        (61, "Healthy Healthy Healthy:61 Healthy:61 Unhealthy Unhealthy"),
    ] {
        let at = |seconds: i64| {
            let waited = u64::try_from(seconds).unwrap() * 10_000 * percent;
            Pressure::of(Timestamp(seconds * 1_000), waited)
        };
        let mut history = ProbeHistory::new(&probe, Some(Timestamp(0)), Timestamp(0));
        history.add(&probe, ProbeResult::success(""), Timestamp(0));
        let mut statuses = Vec::new();
        for seconds in [10, 20, 30, 40, 50, 60] {
            let reply = ProbeResult {
                pressure: Some((at(seconds - 1), at(seconds))),
                ..ProbeResult::failure("")
            };
            history.add(&probe, reply, Timestamp(seconds * 1_000));
            let health = history.health().unwrap();
            let shown = health
                .host_pressure
                .filter(|_| health.status == ProbeStatus::Healthy);
            let shown = shown.map_or_else(String::new, |percent| format!(":{percent}"));
            statuses.push(format!("{:?}{shown}", health.status));
        }
        assert_eq!(statuses.join(" "), expected);
        // A success ends the delay.
        assert!(history.add(&probe, ProbeResult::success(""), Timestamp(70_000)));
        assert_eq!(history.health().unwrap().host_pressure, None);
    }
}

#[test]
fn silent_service_is_dead_and_replying_one_is_not() {
    let probe = probe();
    for (replies, unresponsive) in [
        (
            [
                ProbeResult::no_reply("refused"),
                ProbeResult::no_reply("refused"),
                ProbeResult::no_reply("refused"),
            ],
            true,
        ),
        (
            [
                ProbeResult::failure("500"),
                ProbeResult::failure("500"),
                ProbeResult::failure("500"),
            ],
            false,
        ),
        (
            [
                ProbeResult::no_reply("refused"),
                ProbeResult::failure("500"),
                ProbeResult::no_reply("refused"),
            ],
            false,
        ),
    ] {
        let mut history = ProbeHistory::new(&probe, Some(Timestamp(0)), Timestamp(0));
        history.add(&probe, ProbeResult::success(""), Timestamp(1_000));
        for (index, reply) in (2..).zip(replies) {
            history.add(&probe, reply, Timestamp(index * 10_000));
        }
        let health = history.health().unwrap();
        assert_eq!(
            (health.status, health.unresponsive),
            (ProbeStatus::Unhealthy, unresponsive)
        );
        assert_eq!(health.recent.len(), 4);
    }
}

#[test]
fn three_unsent_probes_in_a_row_are_a_failure() {
    let probe = probe();
    let mut history = ProbeHistory::new(&probe, Some(Timestamp(0)), Timestamp(0));
    history.add(&probe, ProbeResult::success(""), Timestamp(1_000));
    let mut status_after = |reply: ProbeResult, second: i64| {
        history.add(&probe, reply, Timestamp(second * 1_000));
        history.health().unwrap().status
    };
    for (reply, at, status) in [
        (ProbeResult::unsent("no exec"), 10, ProbeStatus::Healthy),
        (ProbeResult::unsent("no exec"), 20, ProbeStatus::Healthy),
        (ProbeResult::success(""), 30, ProbeStatus::Healthy),
        (ProbeResult::unsent("no exec"), 40, ProbeStatus::Healthy),
        (ProbeResult::unsent("no exec"), 50, ProbeStatus::Healthy),
        (ProbeResult::unsent("no exec"), 60, ProbeStatus::Unhealthy),
    ] {
        assert_eq!(status_after(reply, at), status, "at {at}");
    }
}

#[test]
fn unsent_probes_need_the_retries_and_at_least_three() {
    let quick = Probe {
        retries: 1,
        ..probe()
    };
    let tolerant = Probe {
        retries: 5,
        ..probe()
    };
    for (probe, unhealthy_at) in [(&quick, 35), (&tolerant, 55)] {
        let mut history = ProbeHistory::new(probe, Some(Timestamp(0)), Timestamp(0));
        let mut at = 0;
        // Four probes per second, as during the start.
        while history
            .health()
            .is_none_or(|health| health.status != ProbeStatus::Unhealthy)
        {
            at += 250;
            assert!(at <= 100_000, "it is detected eventually");
            history.add(probe, ProbeResult::unsent("no exec"), Timestamp(at));
        }
        // The start period, and one interval for each failure.
        assert_eq!(at / 1_000, unhealthy_at);
    }
}

#[test]
fn engine_clock_ahead_hides_no_failures() {
    let probe = probe();
    let mut history = ProbeHistory::new(&probe, Some(Timestamp(3_600_000)), Timestamp(0));
    let replies =
        [15_000, 25_000, 35_000].map(|at| history.add(&probe, ProbeResult::failure(""), Timestamp(at)));
    assert_eq!(replies, [true, false, true]);
    assert_eq!(history.health().unwrap().status, ProbeStatus::Unhealthy);
}

#[test]
fn alternating_failures_are_unsteady_and_one_outage_is_not() {
    let probe = Probe {
        retries: 100,
        ..probe()
    };
    let flapping = |pattern: &str| {
        let mut history = ProbeHistory::new(&probe, Some(Timestamp(0)), Timestamp(0));
        for (index, sign) in (1..).zip(pattern.chars()) {
            let reply = if sign == '+' {
                ProbeResult::success("")
            } else {
                ProbeResult::failure("")
            };
            history.add(&probe, reply, Timestamp(index * 10_000));
        }
        history.health().unwrap().flapping
    };
    assert!(flapping("+--+--+--+--+--+--+--"));
    assert!(!flapping("+++++++++------------"));
    assert!(!flapping("+-+++-+++-+++-+++-+++"));
    assert!(!flapping("+--+--"));
    let half = "+-".repeat(10);
    assert!(!flapping(&half), "exactly half of the probes fail");
    assert!(flapping(&("+-".repeat(9) + "--")));
}

#[test]
fn probes_are_frequent_until_the_first_status() {
    let probe = probe();
    let mut history = ProbeHistory::new(&probe, None, Timestamp(0));
    let pauses: Vec<_> = (0..9).map(|_| history.pause(&probe).as_millis()).collect();
    assert_eq!(pauses, [50, 75, 112, 168, 253, 379, 569, 854, 1_000]);
    history.add(&probe, ProbeResult::success(""), Timestamp(1));
    assert_eq!(history.pause(&probe), probe.interval);
}

#[test]
fn late_answer_belongs_to_one_streak_of_failures() {
    let probe = Probe {
        retries: 1,
        start_period: Duration::ZERO,
        ..probe()
    };
    let late = |history: &ProbeHistory| history.health().and_then(|health| health.late_answer);
    let at = |second: i64| Timestamp(second * 1_000);
    let took = Duration::from_secs(3);
    let mut history = ProbeHistory::new(&probe, Some(at(0)), at(0));
    assert!(history.awaits_late() && !history.awaits_late());
    assert!(!history.add_late_answer(&probe, Duration::from_millis(900)));
    assert!(!history.add_late_answer(&probe, took), "no status yet");
    history.add(&probe, ProbeResult::no_reply("silent"), at(10));
    assert_eq!(late(&history), Some(took), "known before the failure");

    history.add(&probe, ProbeResult::success("200"), at(20));
    assert_eq!(late(&history), None);
    assert!(
        !history.add_late_answer(&probe, took),
        "the timeout is long enough"
    );
    assert!(history.awaits_late(), "a new streak");
    history.add(&probe, ProbeResult::no_reply("silent"), at(30));
    assert_eq!(late(&history), None);
    assert!(history.add_late_answer(&probe, Duration::from_secs(60)));
    assert_eq!(
        late(&history),
        Some(Duration::from_secs(5)),
        "five times the timeout at most"
    );
    assert!(
        !history.add_late_answer(&probe, Duration::from_secs(60)),
        "known already"
    );
}
