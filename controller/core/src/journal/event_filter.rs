//! Which records somebody wants to hear of.

use std::collections::BTreeSet;

use super::Record;

/// Environments and names; all of them where none is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Of these environments.
    pub environments: BTreeSet<String>,
    /// Of these names, as in [`Record::NAMES`].
    pub names: BTreeSet<String>,
}

impl EventFilter {
    /// It is wanted.
    pub fn matches(&self, record: &Record) -> bool {
        let of = record.environment().map(crate::ident::EnvName::as_str);
        self.matches_name(record.name()) && self.matches_environment(of)
    }

    /// What has this name may be wanted.
    pub fn matches_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(name)
    }

    /// What is about this environment, or about none, may be wanted.
    pub fn matches_environment(&self, env: Option<&str>) -> bool {
        self.environments.is_empty() || env.is_some_and(|env| self.environments.contains(env))
    }
}

impl Record {
    /// A name that records have; else what there are.
    ///
    /// # Errors
    /// No record has it: in words, with the names that there are.
    pub fn known_name(text: &str) -> Result<&'static str, String> {
        let found = Self::NAMES.iter().find(|name| **name == text);
        found.copied().ok_or_else(|| {
            format!(
                "there is no event `{text}`; there are: {}",
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
    fn all_are_wanted_where_none_is_named_and_the_controllers_own_where_no_environment_is() {
        let record = |entry| Record {
            v: JOURNAL_VERSION,
            seq: 1,
            at: String::new(),
            run: String::new(),
            entry: Entry::Event(entry),
        };
        let stop = record(Event::Stop);
        let well = record(Event::Recovered {
            environment: EnvName::new("shop").unwrap(),
            service: "api".to_owned(),
        });
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        for (environments, names, takes) in [
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
                [wanted.matches(&stop), wanted.matches(&well)],
                takes,
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
