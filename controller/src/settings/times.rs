//! Deadlines, breaker settings, retry settings and shedding: from flags, variables or the settings file, within bounds.

use std::time::Duration;

use argus_core::delays::Delays;
use argus_core::desired::BreakerSettings;
use argus_core::retry::RetrySettings;
use argus_reconciler::Deadlines;
use clap::Args;
use clap::builder::FalseyValueParser;

use super::delays::parse_delays;
use super::{File, parse_duration};

/// Initial cooldown of the breaker of an engine on a local socket.
const LOCAL_COOLDOWN: Duration = Duration::from_secs(2);

/// Time options of commands that run a controller.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TimeOptions {
    /// Deadline of short engine calls, at most 60s [default: 10s]
    #[arg(long, env = "ARGUS_TIMEOUT_SHORT", value_name = "TIME", value_parser = parse_short)]
    timeout_short: Option<Duration>,
    /// Deadline of long calls; for pulls and builds, maximum time without progress [default: 120s]
    #[arg(long, env = "ARGUS_TIMEOUT_LONG", value_name = "TIME", value_parser = parse_interval)]
    timeout_long: Option<Duration>,
    /// Maximum time to wait for running engine calls when the controller stops [default: 30s]
    #[arg(long, env = "ARGUS_STOP_GRACE", value_name = "TIME", value_parser = parse_interval)]
    stop_grace: Option<Duration>,
    /// Failed calls in a row that open the engine's breaker [default: 5]
    #[arg(long, env = "ARGUS_BREAKER_THRESHOLD", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    breaker_threshold: Option<u32>,
    /// Initial cooldown of the engine's breaker [default: 2s on a local socket, else 30s]
    #[arg(long, env = "ARGUS_BREAKER_COOLDOWN", value_name = "TIME", value_parser = parse_cooldown)]
    breaker_cooldown: Option<Duration>,
    /// Repeated restarts per minute, over all environments [default: 10]
    #[arg(long, env = "ARGUS_RESTART_RATE_LIMIT", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    restart_rate_limit: Option<u32>,
    /// With `argus.restart.mode: slowRetry`, interval of the restarts after the budget [default: 60s]
    #[arg(long, env = "ARGUS_SLOW_RETRY_INTERVAL", value_name = "TIME", value_parser = parse_retry)]
    slow_retry_interval: Option<Duration>,
    /// Failures of an action in a row after which Argus retries it slowly [default: 5]
    #[arg(long, env = "ARGUS_ACTION_ATTEMPTS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    action_attempts: Option<u32>,
    /// Interval of the slow retries of an action [default: 60s]
    #[arg(long, env = "ARGUS_ACTION_RETRY_INTERVAL", value_name = "TIME", value_parser = parse_retry)]
    action_retry_interval: Option<Duration>,
    /// Stop optional services while the host is short of memory or disk space [default: off]
    #[arg(long, env = "ARGUS_SHED_OPTIONAL", value_parser = FalseyValueParser::new())]
    shed_optional: bool,
    /// Time without a renewal until the lease expires [default: 90s]
    #[arg(long, env = "ARGUS_LEASE_TTL", value_parser = parse_lease, hide = true)]
    lease_ttl: Option<Duration>,
    /// Waits that tests shorten, as `externalStop=1s,orphanAge=2s`
    #[arg(long, env = "ARGUS_WAITS", value_parser = parse_delays, hide = true)]
    waits: Option<Delays>,
}

/// Resolved times of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) deadlines: Deadlines,
    pub(crate) stop_grace: Duration,
    pub(crate) breaker_threshold: u32,
    /// Initial cooldown of the engine's breaker; `None` depends on the endpoint.
    pub(crate) breaker_cooldown: Option<Duration>,
    pub(crate) retries: RetrySettings,
    pub(crate) lease_ttl: Duration,
    pub(crate) delays: Delays,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            deadlines: Deadlines::default(),
            stop_grace: Duration::from_secs(30),
            breaker_threshold: BreakerSettings::default().threshold,
            breaker_cooldown: None,
            retries: RetrySettings::default(),
            lease_ttl: Duration::from_secs(90),
            delays: Delays::default(),
        }
    }
}

impl File {
    /// Merges the times of the file with the defaults. The error names the setting that is out of bounds.
    pub(super) fn times(&self) -> Result<Times, String> {
        let number = |name: &str, number: Option<u32>, most: u32| match number {
            Some(number) if !(1..=most).contains(&number) => {
                Err(format!("`{name}` must be between 1 and {most}"))
            }
            number => Ok(number),
        };
        let span = |name: &str, text: &Option<String>, parse: DurationParser| {
            let span = text.as_ref().map(|text| parse(text)).transpose();
            span.map_err(|cause| format!("`{name}`: {cause}"))
        };
        let options = TimeOptions {
            timeout_short: span("timeout-short", &self.timeout_short, parse_short)?,
            timeout_long: span("timeout-long", &self.timeout_long, parse_interval)?,
            stop_grace: span("stop-grace", &self.stop_grace, parse_interval)?,
            breaker_threshold: number("breaker-threshold", self.breaker_threshold, 1000)?,
            breaker_cooldown: span("breaker-cooldown", &self.breaker_cooldown, parse_cooldown)?,
            restart_rate_limit: number("restart-rate-limit", self.restart_rate_limit, 1000)?,
            slow_retry_interval: span("slow-retry-interval", &self.slow_retry_interval, parse_retry)?,
            action_attempts: number("action-attempts", self.action_attempts, 100)?,
            action_retry_interval: span("action-retry-interval", &self.action_retry_interval, parse_retry)?,
            shed_optional: self.shed_optional.unwrap_or_default(),
            lease_ttl: None,
            waits: None,
        };
        Ok(Times::default().under(&options))
    }
}

/// Parses a duration and checks its bounds.
type DurationParser = fn(&str) -> Result<Duration, String>;

impl Times {
    /// Settings of the engine's breaker. A test of an engine on this host costs next to nothing, so its cooldown begins short.
    pub(crate) fn engine_breaker(self, is_local: bool) -> BreakerSettings {
        let default = if is_local {
            LOCAL_COOLDOWN
        } else {
            BreakerSettings::default().cooldown
        };
        BreakerSettings {
            threshold: self.breaker_threshold,
            cooldown: self.breaker_cooldown.unwrap_or(default),
        }
    }

    /// Merges flags and variables, or a settings file, with these times. What they give wins.
    pub(crate) fn under(self, options: &TimeOptions) -> Self {
        Self {
            deadlines: Deadlines {
                short: options.timeout_short.unwrap_or(self.deadlines.short),
                long: options.timeout_long.unwrap_or(self.deadlines.long),
            },
            stop_grace: options.stop_grace.unwrap_or(self.stop_grace),
            breaker_threshold: options.breaker_threshold.unwrap_or(self.breaker_threshold),
            breaker_cooldown: options.breaker_cooldown.or(self.breaker_cooldown),
            retries: RetrySettings {
                restarts_per_minute: options
                    .restart_rate_limit
                    .unwrap_or(self.retries.restarts_per_minute),
                slow_restart: options.slow_retry_interval.unwrap_or(self.retries.slow_restart),
                action_attempts: options.action_attempts.unwrap_or(self.retries.action_attempts),
                slow_action: options.action_retry_interval.unwrap_or(self.retries.slow_action),
                shed_optional: options.shed_optional || self.retries.shed_optional,
            },
            lease_ttl: options.lease_ttl.unwrap_or(self.lease_ttl),
            delays: options.waits.unwrap_or(self.delays),
        }
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    // A bare number means seconds, because variables often omit the unit.
    let seconds = text.parse().map(Duration::from_secs).ok();
    let span = seconds.map_or_else(|| parse_duration(text), Ok)?;
    let good = span > Duration::ZERO && span <= Duration::from_secs(24 * 3600);
    if good {
        Ok(span)
    } else {
        Err("must be more than 0 and at most 24h".to_owned())
    }
}

/// Interval of slow retries. A shorter one would retry without a pause.
fn parse_retry(text: &str) -> Result<Duration, String> {
    let span = parse_interval(text)?;
    if span >= Duration::from_secs(1) {
        Ok(span)
    } else {
        Err("must be at least 1s".to_owned())
    }
}

fn parse_lease(text: &str) -> Result<Duration, String> {
    let span = parse_interval(text)?;
    if span >= Duration::from_secs(5) {
        Ok(span)
    } else {
        Err("must be at least 5s: engines date leases to the second".to_owned())
    }
}

fn parse_short(text: &str) -> Result<Duration, String> {
    parse_at_most(text, Duration::from_secs(60))
}

/// Initial cooldown. It doubles after each failed test call, up to five minutes.
fn parse_cooldown(text: &str) -> Result<Duration, String> {
    parse_at_most(text, Duration::from_secs(300))
}

fn parse_at_most(text: &str, most: Duration) -> Result<Duration, String> {
    let span = parse_interval(text)?;
    if span <= most {
        Ok(span)
    } else {
        Err(format!("must be at most {}s", most.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        assert_eq!(parse_interval("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_interval("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_retry("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(parse_short("60s"), Ok(Duration::from_secs(60)));
        for bad in ["0", "25h", "x", "-1s"] {
            assert!(parse_interval(bad).is_err(), "{bad}");
        }
        assert!(parse_short("61s").is_err() && parse_cooldown("6m").is_err() && parse_lease("4s").is_err());
    }

    #[test]
    fn flag_overrides_file_and_bounds_are_reported() {
        let file = File {
            timeout_long: Some("5m".to_owned()),
            breaker_threshold: Some(9),
            restart_rate_limit: Some(3),
            slow_retry_interval: Some("5m".to_owned()),
            action_attempts: Some(2),
            action_retry_interval: Some("10s".to_owned()),
            shed_optional: Some(true),
            ..File::default()
        };
        let read = file.times().unwrap();
        let retries = RetrySettings {
            restarts_per_minute: 3,
            slow_restart: Duration::from_secs(300),
            action_attempts: 2,
            slow_action: Duration::from_secs(10),
            shed_optional: true,
        };
        assert_eq!(read.retries, retries);
        let flags = TimeOptions {
            restart_rate_limit: Some(4),
            action_attempts: Some(7),
            ..TimeOptions::default()
        };
        let merged = RetrySettings {
            restarts_per_minute: 4,
            action_attempts: 7,
            ..retries
        };
        assert_eq!(read.under(&flags).retries, merged);
        assert_eq!(read.deadlines.long, Duration::from_secs(300));
        assert_eq!(
            (read.breaker_threshold, read.stop_grace),
            (9, Times::default().stop_grace)
        );
        let options = TimeOptions {
            timeout_short: Some(Duration::from_secs(20)),
            timeout_long: Some(Duration::from_secs(7)),
            ..TimeOptions::default()
        };
        // `ARGUS_TIMEOUT_SHORT` overrides the default.
        assert_eq!(read.deadlines.short, Duration::from_secs(10));
        assert_eq!(read.under(&options).deadlines.short, Duration::from_secs(20));
        assert_eq!(read.under(&options).deadlines.long, Duration::from_secs(7));
        assert_eq!(read.under(&options).breaker_threshold, 9);
        let bad = File {
            timeout_short: Some("2m".to_owned()),
            ..File::default()
        };
        assert_eq!(bad.times().unwrap_err(), "`timeout-short`: must be at most 60s");
        let short = || Some("999ms".to_owned());
        for (name, file) in [
            (
                "slow-retry-interval",
                File {
                    slow_retry_interval: short(),
                    ..File::default()
                },
            ),
            (
                "action-retry-interval",
                File {
                    action_retry_interval: short(),
                    ..File::default()
                },
            ),
        ] {
            assert_eq!(
                file.times().unwrap_err(),
                format!("`{name}`: must be at least 1s")
            );
        }
        let none = File {
            breaker_threshold: Some(0),
            ..File::default()
        };
        assert!(none.times().unwrap_err().contains("breaker-threshold"));
        let many = File {
            action_attempts: Some(101),
            ..File::default()
        };
        assert_eq!(
            many.times().unwrap_err(),
            "`action-attempts` must be between 1 and 100"
        );
    }
}
