//! How ports move and how failures are met, with every default settled.

use std::time::Duration;

use argus_crds::{Diagnostic, E2eSpec, HumanDuration, PortConflictStrategy, RestartBackoff, RestartMode};

use crate::backoff::Growth;
use crate::desired::{PortPolicy, PortStrategy, RestartPolicy, SpentMode};
use crate::preflight::Policy;
use crate::state::breaker::{BreakerSettings, LONGEST as LONGEST_COOLDOWN};

/// A breaker that never rests is none.
const SHORTEST_COOLDOWN: Duration = Duration::from_millis(100);
/// The lowest port of a range: those below belong to the system.
const LOWEST_PORT: u16 = 1024;
/// The most restarts that a budget holds.
const MOST_RESTARTS: u32 = 10;
/// No delay and no window is longer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Where ports come from.
pub(super) fn ports(written: &E2eSpec, to: &mut Vec<Diagnostic>) -> PortPolicy {
    let range = written.isolation.port_range;
    let path = "isolation.portRange";
    if range.low > range.high {
        let message = format!(
            "`portRange` ends at {} before it begins at {}",
            range.high, range.low
        );
        to.push(Diagnostic::error(path, message).hint(format!("write `[{}, {}]`", range.high, range.low)));
    }
    if range.low < LOWEST_PORT || range.high < LOWEST_PORT {
        let message = format!(
            "`portRange` `[{}, {}]` holds ports below {LOWEST_PORT}",
            range.low, range.high
        );
        to.push(
            Diagnostic::error(path, message)
                .hint("write `[low, high]` between 1024 and 65535, as in `[9000, 9999]`"),
        );
    }
    let strategy = match written.resilience.network.port_conflict_strategy {
        PortConflictStrategy::Auto => PortStrategy::Auto,
        PortConflictStrategy::Fail => PortStrategy::Fail,
    };
    PortPolicy {
        low: range.low,
        high: range.high,
        strategy,
    }
}

/// How failed containers are started again: `resilience.container` with what `argus.restart` adds.
pub(super) fn restart(written: &E2eSpec, to: &mut Vec<Diagnostic>) -> RestartPolicy {
    let base = &written.resilience.container;
    let more = &written.argus.restart;
    if base.max_restarts > MOST_RESTARTS {
        let message = format!("`maxRestarts` is {}", base.max_restarts);
        let hint = format!("write a number from 0 to {MOST_RESTARTS}");
        to.push(Diagnostic::error("resilience.container.maxRestarts", message).hint(hint));
    }
    let times = [
        ("resilience.container.restartDelay", base.restart_delay),
        ("argus.restart.window", more.window),
        ("argus.restart.resetAfter", more.reset_after),
        ("argus.restart.maxDelay", more.max_delay),
    ];
    for (path, time) in times {
        let name = path.rsplit('.').next().unwrap_or(path);
        if time.get() > LONGEST {
            let message = format!("`{name}` is {time}");
            to.push(Diagnostic::error(path, message).hint("write a time of at most `24h`"));
        }
    }
    if more.window.get().is_zero() {
        let message = "`window` is zero, so that no restart would ever count";
        to.push(Diagnostic::error("argus.restart.window", message).hint("write a time as in `5m`"));
    }
    RestartPolicy {
        enabled: base.restart_on_failure,
        max_restarts: base.max_restarts,
        delay: base.restart_delay.get(),
        growth: match base.restart_backoff {
            RestartBackoff::Exponential => Growth::Exponential,
            RestartBackoff::Linear => Growth::Linear,
        },
        max_delay: more.max_delay.get(),
        window: more.window.get(),
        reset_after: more.reset_after.get(),
        mode: match more.mode {
            RestartMode::GiveUp => SpentMode::GiveUp,
            RestartMode::SlowRetry => SpentMode::SlowRetry,
            RestartMode::Never => SpentMode::Never,
        },
    }
}

/// What must be so before anything is made.
pub(super) fn preflight(written: &E2eSpec) -> Policy {
    let preflight = &written.resilience.preflight;
    Policy {
        enabled: preflight.enabled,
        disk_space_threshold: preflight.disk_space_threshold.bytes(),
    }
}

/// When the engine is left alone: `resilience.circuitBreaker`.
pub(super) fn breaker(written: &E2eSpec, to: &mut Vec<Diagnostic>) -> Option<BreakerSettings> {
    let asked = &written.resilience.circuit_breaker;
    let threshold = asked.failure_threshold;
    if !(1..=20).contains(&threshold) {
        let message = format!("`failureThreshold` is {threshold}");
        let path = "resilience.circuitBreaker.failureThreshold";
        to.push(Diagnostic::error(path, message).hint("write a number from 1 to 20"));
    }
    let cooldown = asked
        .reset_timeout_ms
        .get()
        .clamp(SHORTEST_COOLDOWN, LONGEST_COOLDOWN);
    if cooldown != asked.reset_timeout_ms.get() {
        let message = format!(
            "`resetTimeoutMs` is {}, {} is taken",
            asked.reset_timeout_ms,
            HumanDuration::from_millis(u64::try_from(cooldown.as_millis()).unwrap_or(u64::MAX))
        );
        let path = "resilience.circuitBreaker.resetTimeoutMs";
        to.push(Diagnostic::warning(path, message).hint("write a time from `100ms` to `5m`"));
    }
    asked.enabled.then_some(BreakerSettings { threshold, cooldown })
}
