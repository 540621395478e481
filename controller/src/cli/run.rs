//! `argus run`: the controller, until it is stopped.

use std::time::Duration;

use clap::Args;

use crate::exit::{Exit, Failure};
use crate::live::screen::Screen;
use crate::settings::{Listen, Options, Settings, SpecOptions};
use crate::{telemetry, wire};

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    specs: SpecOptions,
    #[command(flatten)]
    times: Times,
    /// Where to listen for HTTP: an address, a port of loopback, or `off` [default: 127.0.0.1:9470]
    #[arg(long, env = "ARGUS_LISTEN", value_name = "ADDRESS")]
    listen: Option<Listen>,
}

/// How long things may take.
#[derive(Debug, Clone, Args)]
pub(crate) struct Times {
    /// Deadline of calls that an engine answers at once
    #[arg(long, env = "ARGUS_TIMEOUT_QUICK", default_value = "10s", value_parser = quick)]
    pub(crate) timeout_quick: Duration,
    /// Deadline of calls that take their time
    #[arg(long, env = "ARGUS_TIMEOUT_HEAVY", default_value = "120s", value_parser = bounded)]
    pub(crate) timeout_heavy: Duration,
    /// How long a stop waits for the calls in flight
    #[arg(long, env = "ARGUS_STOP_GRACE", default_value = "30s", value_parser = bounded)]
    pub(crate) stop_grace: Duration,
    /// After how long without a renewal other controllers call this one dead
    #[arg(long, env = "ARGUS_LEASE_TTL", default_value = "90s", value_parser = lease, hide = true)]
    pub(crate) lease_ttl: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let deadlines = argus_reconciler::Deadlines::default();
        Self {
            timeout_quick: deadlines.quick,
            timeout_heavy: deadlines.heavy,
            stop_grace: Duration::from_secs(30),
            lease_ttl: Duration::from_secs(90),
        }
    }
}

fn bounded(text: &str) -> Result<Duration, String> {
    // A bare number is taken for seconds: in variables people leave the unit out.
    let seconds = text.parse().map(Duration::from_secs).ok();
    let span = seconds.map_or_else(|| crate::settings::span(text), Ok)?;
    let good = span > Duration::ZERO && span <= Duration::from_secs(24 * 3600);
    if good {
        Ok(span)
    } else {
        Err("must be more than 0 and at most 24h".to_owned())
    }
}

fn lease(text: &str) -> Result<Duration, String> {
    let span = bounded(text)?;
    if span >= Duration::from_secs(5) {
        Ok(span)
    } else {
        Err("must be at least 5s: engines date leases to the second".to_owned())
    }
}

fn quick(text: &str) -> Result<Duration, String> {
    let span = bounded(text)?;
    if span <= Duration::from_secs(60) {
        Ok(span)
    } else {
        Err("must be at most 60s".to_owned())
    }
}

impl Run {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let mut settings = Settings::resolve(options, &self.specs)?;
        if let Some(listen) = self.listen {
            settings.listen = listen.address();
        }
        let screen = Screen::of_terminal();
        // Where the table tells the story, the log only tells what is wrong.
        let usual = if screen.is_some() { "warn" } else { "info" };
        telemetry::start(settings.log_format, usual, screen.as_ref());
        super::block_on(wire::run(settings, self.times, screen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_flags_times_are_as_they_are_by_default() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            times: Times,
        }
        let told = <Line as clap::Parser>::parse_from(["argus"]).times;
        assert_eq!(format!("{told:?}"), format!("{:?}", Times::default()));
    }

    #[test]
    fn times_have_units_and_bounds() {
        assert_eq!(bounded("90"), Ok(Duration::from_secs(90)));
        assert_eq!(bounded("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(quick("60s"), Ok(Duration::from_secs(60)));
        for bad in ["0", "25h", "x", "-1s"] {
            assert!(bounded(bad).is_err(), "{bad}");
        }
        assert!(quick("61s").is_err());
    }
}
