//! Delay of builds whose only cause is a changed build context. A service that writes into its own context would otherwise
//! be replaced without end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::quoting::PathText as _;
use argus_core::time::Timestamp;
use argus_crds::Diagnostic;

use super::digest::ContextDigest;
use super::registry::FileEntry;

/// Changes this soon after the last one belong to it: an editor or a checkout is still writing.
const SAME_CHANGE: Duration = Duration::from_secs(5);
/// Changes this soon after the last one are consecutive. Later changes start a new sequence.
const CONSECUTIVE: Duration = Duration::from_secs(120);
/// Number of consecutive changes from which builds are delayed.
const DELAYED_FROM: u32 = 3;
/// First delay. Each further delay is twice as long.
const FIRST_DELAY: Duration = Duration::from_secs(60);
/// Maximum delay.
const MAX_DELAY: Duration = Duration::from_secs(3_600);
/// Maximum number of changed files in a warning.
const NAMED_FILES: usize = 5;

/// Build contexts in effect, by spec file and service.
#[derive(Debug, Default)]
pub(super) struct BuildDelays {
    contexts: BTreeMap<(PathBuf, String), ContextInEffect>,
    /// Warnings in the registry.
    shown: BTreeMap<PathBuf, Vec<Diagnostic>>,
}

/// The context from which the current image of a service is built.
#[derive(Debug)]
struct ContextInEffect {
    /// Hash of the other inputs of the spec. Their change takes effect immediately.
    inputs: [u8; 32],
    context: ContextDigest,
    since: Timestamp,
    /// Number of consecutive changes of the context alone.
    changes: u32,
    /// Change that waits.
    delayed: Option<Delayed>,
}

#[derive(Debug)]
struct Delayed {
    until: Timestamp,
    files: Vec<String>,
}

impl BuildDelays {
    /// Returns the digest to use for a service: the one of the current context, or the one in effect during a delay.
    pub(super) fn delay(
        &mut self,
        path: &Path,
        service: &str,
        inputs: [u8; 32],
        current: ContextDigest,
        now: Timestamp,
    ) -> String {
        let key = (path.to_path_buf(), service.to_owned());
        let Some(in_effect) = self.contexts.get_mut(&key).filter(|known| known.inputs == inputs) else {
            let digest = current.digest.clone();
            let changes = 0;
            self.contexts.insert(
                key,
                ContextInEffect {
                    inputs,
                    context: current,
                    since: now,
                    changes,
                    delayed: None,
                },
            );
            return digest;
        };
        in_effect.update(current, now);
        in_effect.context.digest.clone()
    }

    /// Ends all delays and starts new sequences: a person who sends a command waits for the edits before it.
    pub(super) fn end(&mut self) {
        for in_effect in self.contexts.values_mut() {
            (in_effect.changes, in_effect.delayed) = (0, None);
        }
    }

    /// Forgets removed files.
    pub(super) fn retain_files(&mut self, exists: impl Fn(&PathBuf) -> bool) {
        self.contexts.retain(|(path, _), _| exists(path));
    }

    /// End of the next delay.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        let delayed = self.contexts.values().filter_map(|known| known.delayed.as_ref());
        delayed.map(|delayed| delayed.until).min()
    }

    /// Replaces the warnings about delayed builds in the registry.
    pub(super) fn show(&mut self, files: &mut BTreeMap<PathBuf, FileEntry>) {
        let current = self.warnings();
        for (path, entry) in files {
            let shown = self.shown.get(path);
            let is_shown = |diagnostic: &Diagnostic| shown.is_some_and(|shown| shown.contains(diagnostic));
            entry.diagnostics.retain(|diagnostic| !is_shown(diagnostic));
            let warnings = current.get(path).into_iter().flatten();
            entry.diagnostics.extend(warnings.cloned());
        }
        self.shown = current;
    }

    /// Warnings about delayed builds, by spec file.
    fn warnings(&self) -> BTreeMap<PathBuf, Vec<Diagnostic>> {
        let mut warnings: BTreeMap<PathBuf, Vec<Diagnostic>> = BTreeMap::new();
        for ((path, service), known) in &self.contexts {
            let Some(delayed) = &known.delayed else { continue };
            let message = format!(
                "the build context of `{service}` changed {} times in a row, last in {}; Argus builds it at {}",
                known.changes + 1,
                delayed.files.join(", "),
                delayed.until
            );
            let warning = Diagnostic::warning(format!("services.{service}.build"), message)
                .hint("exclude the files that the service writes with a `.dockerignore`");
            warnings.entry(path.clone()).or_default().push(warning);
        }
        warnings
    }
}

impl ContextInEffect {
    /// Takes over the current context, unless its build is delayed.
    fn update(&mut self, current: ContextDigest, now: Timestamp) {
        if current.digest == self.context.digest {
            self.delayed = None;
            return;
        }
        let since_last = now.since(self.since);
        if self.delayed.is_none() && since_last < SAME_CHANGE {
            self.context = current;
            return;
        }
        if let Some(delayed) = &self.delayed {
            if now < delayed.until {
                return;
            }
        } else {
            if since_last > CONSECUTIVE {
                self.changes = 0;
            }
            if self.changes + 1 >= DELAYED_FROM {
                self.delayed = Some(Delayed {
                    until: now + self.next_delay(),
                    files: changed_files(&self.context, &current),
                });
                return;
            }
        }
        self.changes += 1;
        (self.context, self.since, self.delayed) = (current, now, None);
    }

    fn next_delay(&self) -> Duration {
        let doublings = (self.changes + 1).saturating_sub(DELAYED_FROM).min(16);
        (FIRST_DELAY * 2_u32.saturating_pow(doublings)).min(MAX_DELAY)
    }
}

/// Names of the entries that differ, shortened to a few.
fn changed_files(before: &ContextDigest, after: &ContextDigest) -> Vec<String> {
    let all = before.entries.keys().chain(after.entries.keys());
    let mut changed: Vec<&PathBuf> = all
        .filter(|path| before.entries.get(*path) != after.entries.get(*path))
        .collect();
    changed.sort();
    changed.dedup();
    let more = changed.len().saturating_sub(NAMED_FILES);
    let named = changed.iter().take(NAMED_FILES);
    let mut files: Vec<String> = named.map(|path| format!("`{}`", path.shown())).collect();
    if files.is_empty() {
        files.push("the Dockerfile".to_owned());
    }
    if more > 0 {
        files.push(format!("{more} more"));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(files: &[(&str, u8)]) -> ContextDigest {
        let entries = files
            .iter()
            .map(|(path, hash)| (PathBuf::from(path), vec![*hash]));
        ContextDigest {
            digest: format!("{files:?}"),
            entries: entries.collect(),
            ..ContextDigest::default()
        }
    }

    /// A service that writes `log` 30 s after each of its replacements. Returns the seconds of the replacements.
    fn replaced_at(delays: &mut BuildDelays, seconds: i64) -> Vec<i64> {
        let (mut log, mut replaced, mut in_effect, mut last) = (0_u8, Vec::new(), String::new(), 0);
        for second in 0..seconds {
            let now = Timestamp(second * 1_000);
            if second == last + 30 {
                log += 1;
            }
            let current = context(&[("app", 1), ("log", log)]);
            let digest = delays.delay(Path::new("e2e.yaml"), "web", [0; 32], current, now);
            if digest != in_effect {
                (in_effect, last) = (digest, second);
                replaced.push(second);
            }
        }
        replaced
    }

    #[test]
    fn third_change_in_a_row_waits_longer_each_time() {
        let mut delays = BuildDelays::default();
        assert_eq!(replaced_at(&mut delays, 1_000), [0, 30, 60, 150, 300, 570]);
        let warnings = delays.warnings();
        let warning = &warnings[Path::new("e2e.yaml")][0];
        assert_eq!(warning.path, "services.web.build");
        assert!(
            warning.message.contains("6 times in a row, last in `log`;"),
            "{warning:?}"
        );
        assert_eq!(delays.next_at(), Some(Timestamp(1_080_000)));
    }

    #[test]
    fn other_edits_and_quiet_times_start_again() {
        let mut delays = BuildDelays::default();
        let mut used = |inputs, log, second: i64| {
            let now = Timestamp(second * 1_000);
            let current = context(&[("log", log)]);
            let expected = current.digest.clone();
            delays.delay(Path::new("e2e.yaml"), "web", [inputs; 32], current, now) == expected
        };
        assert!(used(0, 0, 0) && used(0, 1, 30) && used(0, 2, 60));
        assert!(!used(0, 3, 90), "the third change in a row waits");
        assert!(used(0, 2, 95), "the context in effect is back");
        assert!(!used(0, 4, 100));
        assert!(used(1, 4, 101), "an edit of the file takes effect immediately");
        assert!(
            used(1, 5, 300) && used(1, 6, 500) && used(1, 7, 700),
            "rare changes"
        );
        assert!(used(1, 8, 702) && used(1, 9, 704), "one change in three parts");
    }

    #[test]
    fn command_ends_the_delay() {
        let mut delays = BuildDelays::default();
        let used = |delays: &mut BuildDelays, log, second: i64| {
            let current = context(&[("log", log)]);
            let expected = current.digest.clone();
            let now = Timestamp(second * 1_000);
            delays.delay(Path::new("e2e.yaml"), "web", [0; 32], current, now) == expected
        };
        assert!(used(&mut delays, 0, 0) && used(&mut delays, 1, 10) && used(&mut delays, 2, 20));
        assert!(!used(&mut delays, 3, 30));
        delays.end();
        assert_eq!(delays.next_at(), None);
        assert!(used(&mut delays, 3, 31), "the change takes effect");
        assert!(
            used(&mut delays, 4, 41),
            "the next changes are the first ones of a sequence"
        );
    }
}
