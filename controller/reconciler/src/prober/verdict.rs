//! What a row of answers means: a pure fold into a verdict.

use std::collections::VecDeque;
use std::time::Duration;

use argus_core::desired::Probe;
use argus_core::probe::{Health, Verdict};
use argus_core::time::Timestamp;

/// The first pause between two probes of a container that was not healthy yet.
const FIRST: Duration = Duration::from_millis(50);
/// Such pauses grow up to this.
const LONGEST: Duration = Duration::from_secs(1);
/// Longest output that is kept.
const OUTPUT: usize = 4 * 1024;

/// One question that cannot be put is an accident; so many in a row, and no fewer than its retries, are a failure.
const MISSES: u32 = 3;
/// Outputs that are kept for the evidence.
const RECENT: usize = 5;
/// Answers that are looked at to find out whether it is steady.
const WINDOW: usize = 20;
/// So many turns among them are not one outage.
const TURNS: usize = 4;

/// What one probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// It was good.
    pub good: bool,
    /// Somebody answered, well or not.
    pub answered: bool,
    /// It was asked at all; a question that cannot be put says nothing of the service.
    pub asked: bool,
    /// What it said.
    pub output: String,
}

impl Answer {
    /// A good answer.
    pub fn good(output: impl Into<String>) -> Self {
        Self {
            good: true,
            answered: true,
            asked: true,
            output: output.into(),
        }
    }

    /// A bad one.
    pub fn bad(output: impl Into<String>) -> Self {
        Self {
            good: false,
            answered: true,
            asked: true,
            output: output.into(),
        }
    }

    /// None at all.
    pub fn none(output: impl Into<String>) -> Self {
        Self {
            good: false,
            answered: false,
            asked: true,
            output: output.into(),
        }
    }

    /// The question could not be put.
    pub fn missed(output: impl Into<String>) -> Self {
        Self {
            good: false,
            answered: false,
            asked: false,
            output: output.into(),
        }
    }
}

/// The answers of one run of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    health: Option<Health>,
    started_at: Option<Timestamp>,
    goods: u32,
    bads: u32,
    /// Questions in a row that could not be put.
    misses: u32,
    /// The next bad answer counts not before one interval after this.
    counted_at: Timestamp,
    pause: Duration,
    /// What the last probes said, oldest first.
    outputs: VecDeque<String>,
    /// Which of the last probes were good, since it was healthy first.
    results: VecDeque<bool>,
    /// Since the last good answer nobody answered at all.
    silent: bool,
}

impl Row {
    /// No answers yet.
    pub fn new(probe: &Probe, started_at: Option<Timestamp>, now: Timestamp) -> Self {
        // The engine's clock may be ahead of ours.
        let counted_at = started_at.unwrap_or(now).min(now) + probe.start_period;
        Self {
            health: None,
            started_at,
            goods: 0,
            bads: 0,
            misses: 0,
            counted_at,
            pause: FIRST,
            outputs: VecDeque::new(),
            results: VecDeque::new(),
            silent: true,
        }
    }

    /// The verdict, once there was an answer.
    pub fn health(&self) -> Option<&Health> {
        self.health.as_ref()
    }

    /// Takes an answer in; tells whether the verdict is another one now.
    pub fn take(&mut self, probe: &Probe, answer: Answer, now: Timestamp) -> bool {
        self.remember(&answer);
        let before = self.health.as_ref().map(|health| health.verdict);
        let current = before.unwrap_or(Verdict::Starting);
        // Probes are quick while it starts: a bad answer counts once an interval, as with the engine's own checks.
        let counts = current != Verdict::Starting || now >= self.counted_at + probe.interval;
        if answer.asked {
            self.misses = 0;
        }
        if answer.good {
            self.goods = self.goods.saturating_add(1);
            self.bads = 0;
        } else if answer.asked {
            self.goods = 0;
            self.bads = self.bads.saturating_add(u32::from(counts));
        } else {
            self.misses = self.misses.saturating_add(u32::from(counts));
        }
        if counts && !answer.good {
            self.counted_at = now;
        }
        let verdict = if answer.good && self.goods >= probe.success_threshold.max(1) {
            Verdict::Healthy
        } else if self.bads >= probe.retries.max(1) || self.misses >= probe.retries.max(MISSES) {
            Verdict::Unhealthy
        } else {
            current
        };
        let unsteady = self.is_unsteady();
        let was = self.health.as_ref().map(|health| health.unsteady);
        if before == Some(verdict) && was == Some(unsteady) {
            return false;
        }
        let since = match &self.health {
            Some(health) if before == Some(verdict) => health.since,
            Some(_) | None => now,
        };
        self.health = Some(Health {
            verdict,
            since,
            started_at: self.started_at,
            output: cut(answer.output),
            recent: self.outputs.iter().cloned().collect(),
            dead: verdict == Verdict::Unhealthy && self.silent,
            unsteady,
        });
        true
    }

    /// The engine was away: what failed on the way into that says nothing, and is to be found anew.
    pub fn begin_anew(&mut self) {
        (self.bads, self.misses, self.pause) = (0, 0, FIRST);
        self.health = self
            .health
            .take()
            .filter(|health| health.verdict != Verdict::Unhealthy);
    }

    fn remember(&mut self, answer: &Answer) {
        self.outputs.push_back(cut(answer.output.clone()));
        if self.outputs.len() > RECENT {
            self.outputs.pop_front();
        }
        self.silent = answer.good || (self.silent && !answer.answered);
        if answer.good || !self.results.is_empty() {
            self.results.push_back(answer.good);
        }
        if self.results.len() > WINDOW {
            self.results.pop_front();
        }
    }

    /// It is neither up nor down: good answers come in between, and more than half are bad.
    fn is_unsteady(&self) -> bool {
        let bads = self.results.iter().filter(|good| !**good).count();
        let turns = self
            .results
            .iter()
            .zip(self.results.iter().skip(1))
            .filter(|(one, next)| one != next)
            .count();
        self.results.len() == WINDOW && bads * 2 > WINDOW && turns >= TURNS
    }

    /// The pause before the next probe.
    pub fn pause(&mut self, probe: &Probe) -> Duration {
        match self.health.as_ref().map(|health| health.verdict) {
            Some(Verdict::Healthy | Verdict::Unhealthy) => probe.interval.max(FIRST),
            Some(Verdict::Starting) | None => {
                let pause = self.pause.min(probe.interval.max(FIRST));
                self.pause = (self.pause * 3 / 2).min(LONGEST);
                pause
            }
        }
    }
}

fn cut(mut output: String) -> String {
    let end = (0..=OUTPUT.min(output.len()))
        .rev()
        .find(|at| output.is_char_boundary(*at));
    output.truncate(end.unwrap_or(0));
    output
}

#[cfg(test)]
mod tests {
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
        let mut row = Row::new(probe, Some(Timestamp(0)), Timestamp(0));
        let mut flips = Vec::new();
        for answer in answers.split_whitespace() {
            let (at, sign) = answer.split_once(':').unwrap();
            let at: i64 = at.parse().unwrap();
            if row.take(
                probe,
                if sign == "+" {
                    Answer::good("")
                } else {
                    Answer::bad("")
                },
                Timestamp(at * 1_000),
            ) {
                flips.push(format!("{at}:{:?}", row.health().unwrap().verdict));
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
    fn a_probe_that_nobody_answers_is_dead_and_one_with_a_bad_answer_is_not() {
        let probe = probe();
        for (answers, dead) in [
            (
                [
                    Answer::none("refused"),
                    Answer::none("refused"),
                    Answer::none("refused"),
                ],
                true,
            ),
            (
                [Answer::bad("500"), Answer::bad("500"), Answer::bad("500")],
                false,
            ),
            (
                [
                    Answer::none("refused"),
                    Answer::bad("500"),
                    Answer::none("refused"),
                ],
                false,
            ),
        ] {
            let mut row = Row::new(&probe, Some(Timestamp(0)), Timestamp(0));
            row.take(&probe, Answer::good(""), Timestamp(1_000));
            for (index, answer) in (2..).zip(answers) {
                row.take(&probe, answer, Timestamp(index * 10_000));
            }
            let health = row.health().unwrap();
            assert_eq!((health.verdict, health.dead), (Verdict::Unhealthy, dead));
            assert_eq!(health.recent.len(), 4);
        }
    }

    #[test]
    fn a_question_that_cannot_be_put_says_nothing_and_three_in_a_row_do() {
        let probe = probe();
        let mut row = Row::new(&probe, Some(Timestamp(0)), Timestamp(0));
        row.take(&probe, Answer::good(""), Timestamp(1_000));
        let mut told = |answer: Answer, second: i64| {
            row.take(&probe, answer, Timestamp(second * 1_000));
            row.health().unwrap().verdict
        };
        for (answer, at, verdict) in [
            (Answer::missed("no exec"), 10, Verdict::Healthy),
            (Answer::missed("no exec"), 20, Verdict::Healthy),
            (Answer::good(""), 30, Verdict::Healthy),
            (Answer::missed("no exec"), 40, Verdict::Healthy),
            (Answer::missed("no exec"), 50, Verdict::Healthy),
            (Answer::missed("no exec"), 60, Verdict::Unhealthy),
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
            let mut row = Row::new(probe, Some(Timestamp(0)), Timestamp(0));
            let mut at = 0;
            // Four a second, as they are asked while it starts.
            while row
                .health()
                .is_none_or(|health| health.verdict != Verdict::Unhealthy)
            {
                at += 250;
                assert!(at <= 100_000, "it is noticed in the end");
                row.take(probe, Answer::missed("no exec"), Timestamp(at));
            }
            // The start period, and an interval for each.
            assert_eq!(at / 1_000, unhealthy_at);
        }
    }

    #[test]
    fn an_engine_whose_clock_is_ahead_hides_no_bad_answers() {
        let probe = probe();
        let mut row = Row::new(&probe, Some(Timestamp(3_600_000)), Timestamp(0));
        let answers = [15_000, 25_000, 35_000].map(|at| row.take(&probe, Answer::bad(""), Timestamp(at)));
        assert_eq!(answers, [true, false, true]);
        assert_eq!(row.health().unwrap().verdict, Verdict::Unhealthy);
    }

    #[test]
    fn more_bad_than_good_in_turns_is_unsteady_and_one_outage_is_not() {
        let probe = Probe {
            retries: 100,
            ..probe()
        };
        let unsteady = |pattern: &str| {
            let mut row = Row::new(&probe, Some(Timestamp(0)), Timestamp(0));
            for (index, sign) in (1..).zip(pattern.chars()) {
                let answer = if sign == '+' {
                    Answer::good("")
                } else {
                    Answer::bad("")
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
        let mut row = Row::new(&probe, None, Timestamp(0));
        let pauses: Vec<_> = (0..9).map(|_| row.pause(&probe).as_millis()).collect();
        assert_eq!(pauses, [50, 75, 112, 168, 253, 379, 569, 854, 1_000]);
        row.take(&probe, Answer::good(""), Timestamp(1));
        assert_eq!(row.pause(&probe), probe.interval);
    }
}
