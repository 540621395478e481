//! Record of all injected faults and of their recoveries.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::now;
use crate::world::ENVIRONMENTS;

/// One fault in one environment.
pub(crate) struct Sample {
    /// Number of the fault; a fault that affects all environments has ten samples.
    pub(crate) fault: usize,
    pub(crate) environment: usize,
    pub(crate) from: Instant,
    /// A container whose run must differ from this one.
    pub(crate) change: Option<(String, String)>,
    pub(crate) took: Option<Duration>,
    pub(crate) reported: bool,
}

/// One injected fault.
pub(crate) struct Injected {
    pub(crate) kind: &'static str,
    pub(crate) at: String,
    pub(crate) text: String,
    /// No other fault affected its environments before they recovered.
    pub(crate) single: bool,
}

/// Effect of an injection.
pub(crate) struct Hit {
    /// Recovery times start here: at the injection, or at the end of a fault that lasts.
    pub(crate) from: Instant,
    pub(crate) environments: Vec<usize>,
    /// Containers with the runs that must end, by environment.
    pub(crate) changes: Vec<(usize, String, String)>,
}

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) faults: Vec<Injected>,
    pub(crate) samples: Vec<Sample>,
    /// Resident memory of the controller in KiB, with the time and the process.
    pub(crate) memory: Vec<(Instant, u64, u64)>,
    /// Violations that no fault excuses.
    pub(crate) violations: Vec<String>,
}

#[derive(Default)]
pub(crate) struct Board(Mutex<Record>);

impl Board {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, kind: &'static str, at: String, text: String, hit: &Hit) {
        let mut record = self.lock();
        let fault = record.faults.len();
        let mut single = true;
        let open: Vec<usize> = record
            .samples
            .iter()
            .filter(|sample| sample.took.is_none() && hit.environments.contains(&sample.environment))
            .map(|sample| sample.fault)
            .collect();
        for other in open {
            single = false;
            record.faults[other].single = false;
        }
        record.faults.push(Injected {
            kind,
            at,
            text,
            single,
        });
        for environment in hit.environments.iter().copied() {
            let change = hit.changes.iter().find(|(of, _, _)| *of == environment);
            record.samples.push(Sample {
                fault,
                environment,
                from: hit.from,
                change: change.map(|(_, name, run)| (name.clone(), run.clone())),
                took: None,
                reported: false,
            });
        }
    }

    pub(crate) fn violate(&self, text: String) {
        let mut record = self.lock();
        if !record.violations.contains(&text) {
            eprintln!("VIOLATION {text}");
            record.violations.push(text);
        }
    }

    /// True if no environment waits for its recovery.
    pub(crate) fn is_calm(&self) -> bool {
        self.lock().samples.iter().all(|sample| sample.took.is_some())
    }
}

impl Hit {
    pub(crate) fn one(environment: usize) -> Self {
        Self {
            from: now(),
            environments: vec![environment],
            changes: Vec::new(),
        }
    }

    pub(crate) fn all() -> Self {
        Self {
            from: now(),
            environments: (0..ENVIRONMENTS).collect(),
            changes: Vec::new(),
        }
    }

    pub(crate) fn changing(mut self, environment: usize, container: String, run: String) -> Self {
        self.changes.push((environment, container, run));
        self
    }
}
