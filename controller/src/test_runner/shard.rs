//! Part of the suites, for parallel jobs of a CI system.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::selection::{Entry, name};
use crate::process::exit::Failure;
use crate::render::output;

/// Part of the suites, for several runs that share the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    /// Number of the part, from 1.
    index: usize,
    /// Number of parts.
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let number = |part: &str| part.parse::<usize>().ok();
        match parts.and_then(|(index, of)| Some((number(index)?, number(of)?))) {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self { index, of }),
            _ => Err(format!(
                "`{text}` is not a valid part; write one from `1/N` to `N/N`, such as `1/4`"
            )),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl Shard {
    /// Keeps the suites of this part. The names of the suites determine the parts.
    pub(super) fn apply(self, env: &str, chosen: &mut Vec<Entry>) -> Result<(), Failure> {
        let mut names: Vec<String> = chosen.iter().map(|entry| name(entry).to_owned()).collect();
        names.sort_unstable();
        let own: BTreeSet<_> = names.iter().skip(self.index - 1).step_by(self.of).collect();
        chosen.retain(|entry| own.contains(&name(entry).to_owned()));
        if chosen.is_empty() {
            let message = format!(
                "part {} of {} of the suites of `{env}` is empty: only {} selected",
                self.index,
                self.of,
                output::format_count(names.len(), "suite")
            );
            return Err(Failure::usage(message).with_hint(format!("use at most {} parts", names.len())));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_outside_its_number_of_parts_is_invalid() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, of: 3 }));
        for bad in ["0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
