//! What a row of answers means: a pure fold into a verdict.

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

/// What one probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// It was good.
    pub good: bool,
    /// What it said.
    pub output: String,
}

impl Answer {
    /// A good answer.
    pub fn good(output: impl Into<String>) -> Self {
        Self {
            good: true,
            output: output.into(),
        }
    }

    /// A bad one.
    pub fn bad(output: impl Into<String>) -> Self {
        Self {
            good: false,
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
    /// The next bad answer counts not before one interval after this.
    counted_at: Timestamp,
    pause: Duration,
}

impl Row {
    /// No answers yet.
    pub fn new(probe: &Probe, started_at: Option<Timestamp>, now: Timestamp) -> Self {
        let counted_at = started_at.unwrap_or(now) + probe.start_period;
        Self {
            health: None,
            started_at,
            goods: 0,
            bads: 0,
            counted_at,
            pause: FIRST,
        }
    }

    /// The verdict, once there was an answer.
    pub fn health(&self) -> Option<&Health> {
        self.health.as_ref()
    }

    /// Takes an answer in; tells whether the verdict is another one now.
    pub fn take(&mut self, probe: &Probe, answer: Answer, now: Timestamp) -> bool {
        let before = self.health.as_ref().map(|health| health.verdict);
        let current = before.unwrap_or(Verdict::Starting);
        if answer.good {
            self.goods = self.goods.saturating_add(1);
            self.bads = 0;
        } else {
            self.goods = 0;
            // Probes are quick while it starts: a bad answer counts once an interval, as with the engine's own checks.
            if current != Verdict::Starting || now >= self.counted_at + probe.interval {
                self.bads = self.bads.saturating_add(1);
                self.counted_at = now;
            }
        }
        let verdict = if answer.good && self.goods >= probe.success_threshold.max(1) {
            Verdict::Healthy
        } else if self.bads >= probe.retries.max(1) {
            Verdict::Unhealthy
        } else {
            current
        };
        if before == Some(verdict) {
            return false;
        }
        let output = cut(answer.output);
        self.health = Some(Health {
            verdict,
            since: now,
            started_at: self.started_at,
            output,
        });
        true
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
                Answer {
                    good: sign == "+",
                    output: String::new(),
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
    fn probes_are_quick_until_the_first_verdict() {
        let probe = probe();
        let mut row = Row::new(&probe, None, Timestamp(0));
        let pauses: Vec<_> = (0..9).map(|_| row.pause(&probe).as_millis()).collect();
        assert_eq!(pauses, [50, 75, 112, 168, 253, 379, 569, 854, 1_000]);
        row.take(&probe, Answer::good(""), Timestamp(1));
        assert_eq!(row.pause(&probe), probe.interval);
    }
}
