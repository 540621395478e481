//! Queue of due probes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use argus_core::ident::ContainerId;
use argus_core::time::Timestamp;

/// Future probes, earliest first. An entry with an outdated generation is ignored.
#[derive(Debug, Default)]
pub(super) struct DueProbes {
    due: BinaryHeap<Reverse<(Timestamp, ContainerId, u64)>>,
}

impl DueProbes {
    pub(super) fn push(&mut self, at: Timestamp, id: ContainerId, generation: u64) {
        self.due.push(Reverse((at, id, generation)));
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<(ContainerId, u64)> {
        if self.next_at()? > now {
            return None;
        }
        self.due
            .pop()
            .map(|Reverse((_, id, generation))| (id, generation))
    }
}
