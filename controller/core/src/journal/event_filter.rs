//! Filter of journal records by environment and name.

use std::collections::BTreeSet;

use super::Record;

/// Filter of records; an empty set matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Matching environments.
    pub environments: BTreeSet<String>,
    /// Matching names, as in [`Record::NAMES`].
    pub names: BTreeSet<String>,
}

impl EventFilter {
    /// True if the record matches both sets.
    pub fn matches(&self, record: &Record) -> bool {
        let of = record.environment().map(crate::ident::EnvName::as_str);
        self.matches_name(record.name()) && self.matches_environment(of)
    }

    /// True if a record of this name may match.
    pub fn matches_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(name)
    }

    /// True if a record of this environment may match; `None` for a record of the controller.
    pub fn matches_environment(&self, env: Option<&str>) -> bool {
        self.environments.is_empty() || env.is_some_and(|env| self.environments.contains(env))
    }
}

impl Record {
    /// Parses the name of a record.
    ///
    /// # Errors
    /// The text is not a name in [`Record::NAMES`]; the message lists all names.
    pub fn known_name(text: &str) -> Result<&'static str, String> {
        let found = Self::NAMES.iter().find(|name| **name == text);
        found.copied().ok_or_else(|| {
            format!(
                "unknown event `{text}`; expected one of: {}",
                Self::NAMES.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Entry, Event, JOURNAL_VERSION};
    use super::*;
    use crate::ident::EnvName;

    #[test]
    fn empty_filter_matches_everything() {
        let record = |entry| Record {
            v: JOURNAL_VERSION,
            seq: 1,
            at: String::new(),
            run: String::new(),
            entry: Entry::Event(entry),
        };
        let stop = record(Event::Stop);
        let recovered = record(Event::Recovered {
            environment: EnvName::new("shop").unwrap(),
            service: "api".to_owned(),
        });
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        for (environments, names, expected) in [
            (&[][..], &[][..], [true, true]),
            (&["shop"], &[], [false, true]),
            (&["other"], &[], [false, false]),
            (&[], &["stop"], [true, false]),
            (&["shop"], &["restart_success", "stop"], [false, true]),
        ] {
            let wanted = EventFilter {
                environments: set(environments),
                names: set(names),
            };
            assert_eq!(
                [wanted.matches(&stop), wanted.matches(&recovered)],
                expected,
                "{wanted:?}"
            );
        }
        assert_eq!(Record::known_name("stop"), Ok("stop"));
        assert!(
            Record::known_name("gaveUp")
                .unwrap_err()
                .contains("restart_exhausted")
        );
    }
}
