//! Eyes on the model: late, forgetful, repeating themselves, and put right by full lists.

use argus_core::observed::{Object, WatchEvent};
use argus_core::time::Timestamp;

use super::faults::FaultProfile;
use super::rng::Rng;

/// When which sight of an event arrives: in the order of the events, unless the weather says otherwise.
#[derive(Debug, Clone, Default)]
pub(super) struct SimWatch {
    /// Nothing that keeps its order arrives before this.
    last: Timestamp,
}

impl SimWatch {
    /// The arrivals of one sight of an event, and whether they are not as they should be.
    pub(super) fn arrivals(
        &mut self,
        seen: WatchEvent,
        now: Timestamp,
        faults: &FaultProfile,
        chance: &mut Rng,
    ) -> (bool, Vec<(Timestamp, WatchEvent)>) {
        if chance.percent(faults.lost) {
            return (true, Vec::new());
        }
        let mut all = Vec::new();
        let mut in_trouble = false;
        if chance.percent(faults.repeated) {
            in_trouble = true;
            let again = now + chance.millis((0, 3 * faults.lag.1 + 100));
            all.push((again, seen.clone()));
        }
        if chance.percent(faults.reordered) {
            in_trouble = true;
            all.push((now + chance.millis((0, 5 * faults.lag.1 + 100)), seen));
        } else {
            all.push((self.in_order(now, faults, chance), seen));
        }
        (in_trouble, all)
    }

    /// When something that is seen now arrives behind everything that was seen before.
    pub(super) fn in_order(&mut self, now: Timestamp, faults: &FaultProfile, chance: &mut Rng) -> Timestamp {
        self.last = self.last.max(now + chance.millis(faults.lag));
        self.last
    }

    /// Whatever was still to come in order is forgotten.
    pub(super) fn close(&mut self, now: Timestamp) {
        self.last = now;
    }
}

/// What a list shows of an object: less than an inspect.
pub(super) fn thin(seen: &WatchEvent) -> WatchEvent {
    match seen {
        WatchEvent::Apply(Object::Container(container)) => {
            let mut container = container.clone();
            let shown = std::sync::Arc::make_mut(&mut container);
            shown.inspect = None;
            shown.networks.values_mut().for_each(|at| at.aliases.clear());
            WatchEvent::Apply(Object::Container(container))
        }
        other => other.clone(),
    }
}
