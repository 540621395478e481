//! Set of concurrent one-time jobs, each with a label that is returned with its result.

use std::collections::HashMap;
use std::future::Future;

use tokio::task::{Id, JoinSet};

/// Jobs in flight; a drop aborts them all.
#[derive(Debug)]
pub struct TaskSet<L, T> {
    jobs: JoinSet<T>,
    labels: HashMap<Id, L>,
}

/// Reason why a job ended without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskFailure {
    /// Message of a panic.
    Panicked(String),
    /// The job was aborted.
    Aborted,
}

impl<L, T: Send + 'static> Default for TaskSet<L, T> {
    fn default() -> Self {
        Self {
            jobs: JoinSet::new(),
            labels: HashMap::new(),
        }
    }
}

impl<L, T: Send + 'static> TaskSet<L, T> {
    /// Starts a job.
    pub fn start(&mut self, label: L, job: impl Future<Output = T> + Send + 'static) {
        let handle = self.jobs.spawn(job);
        self.labels.insert(handle.id(), label);
    }

    /// Returns the next result; waits forever while there are no jobs. The future is cancel-safe.
    pub async fn next_ended(&mut self) -> (L, Result<T, TaskFailure>) {
        loop {
            let (id, result) = match self.jobs.join_next_with_id().await {
                None => std::future::pending().await,
                Some(Ok((id, value))) => (id, Ok(value)),
                Some(Err(error)) => (error.id(), Err(error)),
            };
            let Some(label) = self.labels.remove(&id) else {
                continue;
            };
            return (label, result.map_err(failure_of));
        }
    }

    /// Labels of the jobs whose end was not returned yet.
    pub fn labels(&self) -> impl Iterator<Item = &L> {
        self.labels.values()
    }

    /// Number of jobs whose end was not returned yet.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Reports whether no job is in flight.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}

fn failure_of(error: tokio::task::JoinError) -> TaskFailure {
    match error.try_into_panic() {
        Ok(payload) => TaskFailure::Panicked(super::panic_message(payload.as_ref())),
        Err(_) => TaskFailure::Aborted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_end_is_returned_with_its_label() {
        let mut tasks: TaskSet<&str, u32> = TaskSet::default();
        tasks.start("good", async { 7 });
        assert_eq!(tasks.next_ended().await, ("good", Ok(7)));
        tasks.start("bad", async { panic!("no way") });
        assert_eq!(
            tasks.next_ended().await,
            ("bad", Err(TaskFailure::Panicked("no way".to_owned())))
        );
        tasks.start("long", std::future::pending());
        assert_eq!(tasks.labels().collect::<Vec<_>>(), [&"long"]);
        tasks.jobs.abort_all();
        assert_eq!(tasks.next_ended().await, ("long", Err(TaskFailure::Aborted)));
        assert!(tasks.is_empty());
    }
}
