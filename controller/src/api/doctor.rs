//! Diagnosis of controller, specs and environments.

pub(crate) mod bundle;
pub(crate) mod findings;
mod machine;
pub(crate) mod report;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Context, Effect, Operation, Route};
use crate::exit::Failure;
use report::DoctorReport;

/// All problems, most severe first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Doctor {}

impl Operation for Doctor {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] =
        &[Route::get("/api/v1/doctor", "all problems, most severe first").serial()];
    type Output = DoctorReport;

    async fn run(&self, context: &Context) -> Result<DoctorReport, Failure> {
        let settings = context
            .client
            .run_blocking(|client| Ok(client.query_settings()))
            .await?;
        Box::pin(report::create_report(settings)).await
    }
}
