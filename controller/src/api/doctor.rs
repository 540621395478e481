//! Diagnosis of controller, specs and environments.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Context, Effect, Operation, Route};
use crate::cli::doctor::{self, DoctorReport};
use crate::exit::Failure;

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
        Box::pin(doctor::create_report(settings)).await
    }
}
