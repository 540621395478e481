//! Parser of `--waits`: the delays that tests shorten.

use std::time::Duration;

use argus_core::delays::Delays;

use super::parse_duration;

/// Maximum of each wait.
const MAX_WAIT: Duration = Duration::from_secs(3600);
/// Minimum of the list interval: a shorter one lists almost without a pause.
const MIN_LIST_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum of the scan interval.
const MIN_SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// Parses `KEY=TIME,KEY=TIME`. A wait without a key keeps its default.
pub(super) fn parse_delays(text: &str) -> Result<Delays, String> {
    let mut delays = Delays::default();
    for pair in text.split(',') {
        let (key, time) = pair.split_once('=').unwrap_or((pair, ""));
        let (wait, min) = match key {
            "externalStop" => (&mut delays.external_stop, Duration::ZERO),
            "orphanAge" => (&mut delays.orphan_age, Duration::ZERO),
            "outageMargin" => (&mut delays.outage_margin, Duration::ZERO),
            "listInterval" => (&mut delays.list_interval, MIN_LIST_INTERVAL),
            "scanInterval" => (&mut delays.scan_interval, MIN_SCAN_INTERVAL),
            _ => {
                let keys = "`externalStop`, `orphanAge`, `outageMargin`, `listInterval` and `scanInterval`";
                return Err(format!("unknown wait `{key}`; the waits are {keys}"));
            }
        };
        let span = parse_duration(time).map_err(|cause| format!("`{key}`: {cause}"))?;
        if !(min..=MAX_WAIT).contains(&span) {
            let min = humantime::format_duration(min);
            return Err(format!("`{key}` must be between {min} and 1h"));
        }
        *wait = span;
    }
    Ok(delays)
}

#[cfg(test)]
mod tests {
    use super::super::times::{TimeOptions, Times};
    use super::*;

    #[test]
    fn waits_without_a_key_keep_their_defaults() {
        let delays = parse_delays("externalStop=1s,listInterval=100ms").unwrap();
        let expected = Delays {
            external_stop: Duration::from_secs(1),
            list_interval: Duration::from_millis(100),
            ..Delays::default()
        };
        assert_eq!(delays, expected);
        let delays = parse_delays("orphanAge=1h,outageMargin=0s,scanInterval=1h").unwrap();
        let expected = Delays {
            orphan_age: Duration::from_secs(3600),
            scan_interval: Duration::from_secs(3600),
            outage_margin: Duration::ZERO,
            ..Delays::default()
        };
        assert_eq!(delays, expected);
    }

    #[test]
    fn flag_sets_the_waits_and_refuses_a_bad_one() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            times: TimeOptions,
        }
        let parse = |value| <Line as clap::Parser>::try_parse_from(["argus", "--waits", value]);
        let line = parse("outageMargin=0s").unwrap();
        let times = Times::default().under(&line.times);
        assert_eq!(times.delays, parse_delays("outageMargin=0s").unwrap());
        let error = parse("x=1s").err().unwrap();
        assert_eq!(error.kind(), clap::error::ErrorKind::ValueValidation);
        assert!(error.to_string().contains("unknown wait `x`"), "{error}");
    }

    #[test]
    fn bad_waits_are_refused_with_their_keys() {
        let keys =
            "the waits are `externalStop`, `orphanAge`, `outageMargin`, `listInterval` and `scanInterval`";
        let duration = "write `500ms`, `30s`, `10m` or `1h30m`";
        for (text, cause) in [
            ("", format!("unknown wait ``; {keys}")),
            ("x=1s", format!("unknown wait `x`; {keys}")),
            ("orphanAge=1s,", format!("unknown wait ``; {keys}")),
            ("orphanAge", format!("`orphanAge`: {duration}")),
            ("outageMargin=-1s", format!("`outageMargin`: {duration}")),
            (
                "externalStop=61m",
                "`externalStop` must be between 0s and 1h".to_owned(),
            ),
            (
                "listInterval=99ms",
                "`listInterval` must be between 100ms and 1h".to_owned(),
            ),
        ] {
            assert_eq!(parse_delays(text), Err(cause), "{text}");
        }
    }
}
