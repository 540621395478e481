//! One error that Argus must report, and its expected content.

use argus_core::time::Timestamp;
use argus_crds::StructuredError;
use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, wait};
use serde_json::Value;

use super::queries;

/// One error of an environment.
pub(crate) struct Case {
    pub(crate) env: &'static str,
    pub(crate) code: &'static str,
    /// The service that it is about.
    pub(crate) service: Option<&'static str>,
    /// Names of its details; each has a value.
    pub(crate) details: &'static [&'static str],
    /// A part of its message.
    pub(crate) text: &'static str,
}

impl Case {
    /// Waits until the status file reports the error, then queries every surface.
    pub(crate) fn is_reported_everywhere(&self, argus: &Controller<'_>) {
        argus.wait_status(self.env, LIMIT, &format!("reports {}", self.code), |now| {
            self.of(now).is_some()
        });
        let mut last = Vec::new();
        let alike = wait::poll(LIMIT, || {
            // The state may have changed between two responses.
            last = queries::status(argus, self.env)
                .map(|(name, output)| (name, self.of(&output).cloned()))
                .to_vec();
            let first = last[0].1.clone()?;
            last.iter()
                .all(|(_, error)| error.as_ref() == Some(&first))
                .then_some(first)
        });
        let error =
            alike.unwrap_or_else(|| panic!("the surfaces report {} differently: {last:#?}", self.code));
        self.is_whole(&error);
    }

    fn of<'v>(&self, status: &'v Value) -> Option<&'v Value> {
        let errors = status["errors"].as_array()?.iter();
        errors.filter(|error| error["code"] == self.code).find(|error| {
            error["message"]
                .as_str()
                .is_some_and(|text| text.contains(self.text))
        })
    }

    /// Asserts that the error has every required part.
    pub(crate) fn is_whole(&self, error: &Value) {
        let read: Result<StructuredError, _> = serde_json::from_value(error.clone());
        let read = read.unwrap_or_else(|why| panic!("{}: {why}: {error:#}", self.code));
        let about = read.code.explanation();
        let shown = format!("{}: {error:#}", self.code);
        assert_eq!(read.code.as_str(), self.code, "{shown}");
        assert!(read.message.contains(self.text), "{shown}");
        assert_eq!(
            (read.category, read.severity),
            (about.category, about.severity),
            "{shown}"
        );
        assert_eq!(read.retryable, read.class.is_retried(), "{shown}");
        assert!(read.retryable || read.retry_after.is_none(), "{shown}");
        let details = error["details"].as_object().filter(|details| !details.is_empty());
        let details = details.unwrap_or_else(|| panic!("no details: {shown}"));
        for name in self.details {
            let output = details.get(*name).filter(|output| !output.is_null());
            assert!(output.is_some(), "no `{name}` in the details: {shown}");
        }
        assert!(
            !read.suggested_actions.is_empty() || read.details.contains_key("hint"),
            "no suggested actions: {shown}"
        );
        let remedied: Vec<_> = read.remedies.iter().map(|remedy| remedy.action).collect();
        assert_eq!(remedied, read.suggested_actions, "{shown}");
        assert!(
            read.remedies.iter().all(|remedy| !remedy.summary.is_empty()),
            "{shown}"
        );
        assert!(read.error_id.is_some_and(|id| id.len() == 26), "{shown}");
        assert!(
            read.timestamp.is_some_and(|at| Timestamp::parse(&at).is_some()),
            "{shown}"
        );
        assert_eq!(error["environment"], self.env, "{shown}");
        assert_eq!(read.service.as_deref(), self.service, "{shown}");
    }
}
