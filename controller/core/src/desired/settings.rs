//! Settings of ports, restarts, preflight checks and circuit breakers, with all defaults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use argus_crds::{Diagnostic, E2eSpec, HumanDuration, PortConflictStrategy, RestartBackoff};

use crate::backoff::Growth;
use crate::desired::{PortPolicy, PortStrategy, RestartPolicy};

/// Maximum cooldown, regardless of the number of openings in a row.
pub const MAX_COOLDOWN: Duration = Duration::from_secs(300);
/// Settings of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakerSettings {
    /// Number of failures in a row that open it.
    pub threshold: u32,
    /// Cooldown of the first opening; doubles with every further opening until the breaker closes.
    pub cooldown: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            threshold: 5,
            cooldown: Duration::from_secs(30),
        }
    }
}

/// Preflight settings of a spec file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightSettings {
    /// True if the checks run and can block the creation of objects.
    pub enabled: bool,
    /// Bytes that must be free on the data root of the engine; less than twice as many is a warning.
    pub disk_space_threshold: u64,
}

impl Default for PreflightSettings {
    fn default() -> Self {
        let written = argus_crds::Preflight::default();
        Self {
            enabled: written.enabled,
            disk_space_threshold: written.disk_space_threshold.bytes(),
        }
    }
}

/// Minimum cooldown of a breaker; a shorter one would not protect the engine.
const MIN_COOLDOWN: Duration = Duration::from_millis(100);
/// Lowest port of a range; lower ones are system ports.
const MIN_PORT: u16 = 1024;
/// Maximum restart budget.
const MAX_RESTART_BUDGET: u32 = 10;
/// Maximum length of delays and windows.
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);

/// Reads the port range and the strategy for taken ports.
pub(super) fn ports(spec: &E2eSpec, diagnostics: &mut Vec<Diagnostic>) -> PortPolicy {
    let range = spec.isolation.port_range;
    let path = "isolation.portRange";
    if range.low > range.high {
        let message = format!(
            "`portRange` ends at {} before it begins at {}",
            range.high, range.low
        );
        diagnostics
            .push(Diagnostic::error(path, message).hint(format!("write `[{}, {}]`", range.high, range.low)));
    }
    if range.low < MIN_PORT || range.high < MIN_PORT {
        let message = format!(
            "`portRange` `[{}, {}]` contains ports below {MIN_PORT}",
            range.low, range.high
        );
        let hint = "write `[low, high]` between 1024 and 65535, such as `[9000, 9999]`";
        diagnostics.push(Diagnostic::error(path, message).hint(hint));
    }
    let strategy = match spec.resilience.network.port_conflict_strategy {
        PortConflictStrategy::Auto => PortStrategy::Auto,
        PortConflictStrategy::Fail => PortStrategy::Fail,
    };
    PortPolicy {
        low: range.low,
        high: range.high,
        strategy,
    }
}

/// Reads the restart policy from `resilience.container` and `argus.restart`.
pub(super) fn restart(spec: &E2eSpec, diagnostics: &mut Vec<Diagnostic>) -> RestartPolicy {
    let base = &spec.resilience.container;
    let more = &spec.argus.restart;
    if base.max_restarts > MAX_RESTART_BUDGET {
        let message = format!(
            "`maxRestarts` is {}, more than the maximum of {MAX_RESTART_BUDGET}",
            base.max_restarts
        );
        let hint = format!("write a number from 0 to {MAX_RESTART_BUDGET}");
        diagnostics.push(Diagnostic::error("resilience.container.maxRestarts", message).hint(hint));
    }
    let times = [
        ("resilience.container.restartDelay", base.restart_delay),
        ("argus.restart.window", more.window),
        ("argus.restart.resetAfter", more.reset_after),
        ("argus.restart.maxDelay", more.max_delay),
    ];
    for (path, time) in times {
        let name = path.rsplit('.').next().unwrap_or(path);
        if time.get() > MAX_TIME {
            let message = format!("`{name}` is {time}, more than the maximum of 24h");
            diagnostics.push(Diagnostic::error(path, message).hint("write a time of at most `24h`"));
        }
    }
    if more.window.get().is_zero() {
        let message = "`window` is zero, so no restart would count";
        diagnostics
            .push(Diagnostic::error("argus.restart.window", message).hint("write a time such as `5m`"));
    }
    if more.never.contains(&0) {
        let message = "`never` contains 0, the exit code of a success";
        diagnostics.push(Diagnostic::error("argus.restart.never", message).hint("remove it"));
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
        halt_after_same: more.halt_after_same.0,
        mode: more.mode,
        never: more.never.iter().copied().collect(),
        memory_above: more.memory_above,
    }
}

/// Reads the preflight settings.
pub(super) fn preflight(spec: &E2eSpec) -> PreflightSettings {
    let preflight = &spec.resilience.preflight;
    PreflightSettings {
        enabled: preflight.enabled,
        disk_space_threshold: preflight.disk_space_threshold.bytes(),
    }
}

/// Reads `resilience.circuitBreaker`; returns `None` if it is disabled.
pub(super) fn breaker(spec: &E2eSpec, diagnostics: &mut Vec<Diagnostic>) -> Option<BreakerSettings> {
    let breaker = &spec.resilience.circuit_breaker;
    let threshold = breaker.failure_threshold;
    if !(1..=20).contains(&threshold) {
        let message = format!("`failureThreshold` is {threshold}, outside of 1 to 20");
        let path = "resilience.circuitBreaker.failureThreshold";
        diagnostics.push(Diagnostic::error(path, message).hint("write a number from 1 to 20"));
    }
    let cooldown = breaker.reset_timeout_ms.get().clamp(MIN_COOLDOWN, MAX_COOLDOWN);
    if cooldown != breaker.reset_timeout_ms.get() {
        let message = format!(
            "`resetTimeoutMs` is {}, so Argus uses {}",
            breaker.reset_timeout_ms,
            HumanDuration::from_millis(u64::try_from(cooldown.as_millis()).unwrap_or(u64::MAX))
        );
        let path = "resilience.circuitBreaker.resetTimeoutMs";
        diagnostics.push(Diagnostic::warning(path, message).hint("write a time from `100ms` to `5m`"));
    }
    breaker.enabled.then_some(BreakerSettings { threshold, cooldown })
}
