//! Last results of the test suites of an environment.

use argus_crds::status::SuiteStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::local_state::status;
use crate::process::exit::Failure;
use crate::render::output;
use crate::render::status_text::format_suite;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TestResults {
    /// Environment name
    pub(crate) environment: String,
}

/// Results of the suites.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SuiteResults {
    /// Environment name.
    pub(crate) environment: String,
    /// Last result of each suite with its earlier results, as in the status document.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub(crate) suites: Vec<SuiteStatus>,
}

impl Operation for TestResults {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[Route::get(
        "/api/v1/environments/{environment}/tests",
        "last results of the test suites of an environment",
    )];
    type Output = SuiteResults;

    async fn run(&self, context: &Context) -> Result<SuiteResults, Failure> {
        let env = status::parse_environment(&self.environment)?;
        let status = context.client.find_environment(env.as_str()).await?;
        Ok(SuiteResults {
            environment: status.environment,
            suites: status.test_results,
        })
    }
}

impl Tool for TestResults {
    const NAME: &'static str = "argus_test_results";
    const TITLE: &'static str = "Results of test suites";
    const ABOUT: &'static str = "Returns the last result of each suite of `argus test run`, with the failed cases, the tested revision and the \
results of earlier runs. Call it to find out if tests pass, before you run them again.";
    type Data = SuiteResults;

    async fn summarize(&self, results: SuiteResults, _context: &Context) -> Summary<SuiteResults> {
        let text = if results.suites.is_empty() {
            format!("no suite of {} has run", results.environment)
        } else {
            output::join_lines(results.suites.iter().map(format_suite))
        };
        let status = json!({ "environment": self.environment });
        Summary::new(results, text).with_next(NextStep::new("current status", "argus_status", status))
    }
}
