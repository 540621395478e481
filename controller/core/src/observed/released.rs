//! Names that became free on the engine.

use std::collections::VecDeque;

/// Maximum number of stored names. A reader that missed older ones retries later.
const MAX_NAMES: usize = 64;

/// Former name of an object of any owner that was removed or renamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// Name of a container.
    Container(String),
    /// Name of a network, whose address range is free too.
    Network(String),
}

/// Last released names, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleasedNames {
    count: u64,
    last: VecDeque<Released>,
}

impl ReleasedNames {
    pub(super) fn push(&mut self, name: Released) {
        self.count += 1;
        self.last.push_back(name);
        if self.last.len() > MAX_NAMES {
            self.last.pop_front();
        }
    }

    /// Returns the number of names so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Iterates over the stored names after the first `seen`.
    pub fn since(&self, seen: u64) -> impl Iterator<Item = &Released> {
        let new = usize::try_from(self.count.saturating_sub(seen)).unwrap_or(usize::MAX);
        self.last.iter().skip(self.last.len().saturating_sub(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_gets_the_new_names_that_are_stored() {
        let mut names = ReleasedNames::default();
        let name = |number: u64| Released::Container(number.to_string());
        for number in 0..100 {
            names.push(name(number));
        }
        assert_eq!(names.count(), 100);
        assert!(names.since(98).eq([&name(98), &name(99)]));
        assert_eq!(names.since(100).count(), 0);
        assert_eq!(names.since(0).count(), MAX_NAMES);
    }
}
