//! The watch of the simulated engine: it delays, drops, repeats and reorders events. Full lists correct it.

use argus_core::observed::{Object, WatchEvent};
use argus_core::time::Timestamp;

use super::faults::FaultProfile;
use super::rng::Rng;

/// Delivery times of watch events: in the order of the events, unless a fault changes it.
#[derive(Debug, Clone, Default)]
pub(super) struct SimWatch {
    /// Delivery time of the latest event in order; the next one is not delivered before it.
    last: Timestamp,
}

impl SimWatch {
    /// The deliveries of one event, and true when a fault changed them.
    pub(super) fn deliveries(
        &mut self,
        event: WatchEvent,
        now: Timestamp,
        faults: &FaultProfile,
        rng: &mut Rng,
    ) -> (bool, Vec<(Timestamp, WatchEvent)>) {
        if rng.percent(faults.lost) {
            return (true, Vec::new());
        }
        let mut all = Vec::new();
        let mut is_faulty = false;
        if rng.percent(faults.repeated) {
            is_faulty = true;
            let again = now + rng.millis((0, 3 * faults.lag.1 + 100));
            all.push((again, event.clone()));
        }
        if rng.percent(faults.reordered) {
            is_faulty = true;
            all.push((now + rng.millis((0, 5 * faults.lag.1 + 100)), event));
        } else {
            all.push((self.in_order(now, faults, rng), event));
        }
        (is_faulty, all)
    }

    /// Delivery time of an event that keeps its order: after all earlier events.
    pub(super) fn in_order(&mut self, now: Timestamp, faults: &FaultProfile, rng: &mut Rng) -> Timestamp {
        self.last = self.last.max(now + rng.millis(faults.lag));
        self.last
    }

    /// Resets the order: the next event may be delivered from `now` on.
    pub(super) fn close(&mut self, now: Timestamp) {
        self.last = now;
    }
}

/// An object as a list shows it: without the details of an inspect.
pub(super) fn without_inspect(event: &WatchEvent) -> WatchEvent {
    match event {
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
