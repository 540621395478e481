//! Diagnosis of controller, specs and environments.

pub(crate) mod bundle;
pub(crate) mod findings;
mod machine;
mod notifications;
pub(crate) mod report;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Context, Effect, Operation, Route};
use crate::process::exit::Failure;
use report::DoctorReport;

/// All problems, most severe first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Doctor {
    /// File of a support bundle. Only commands write files.
    #[serde(skip)]
    pub(crate) bundle: Option<PathBuf>,
}

impl Operation for Doctor {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] =
        &[Route::get("/api/v1/doctor", "all problems, most severe first").serial()];
    const IS_PRIVATE: bool = true;
    type Output = DoctorReport;

    async fn run(&self, context: &Context) -> Result<DoctorReport, Failure> {
        let settings = context
            .client
            .run_blocking(|client| Ok(client.query_settings()))
            .await?;
        let build_cache_bytes = report::measure_build_cache(&settings).await;
        let inputs = Box::pin(report::gather_inputs(settings)).await?;
        let findings = findings::collect_findings(&inputs);
        if let Some(out) = &self.bundle {
            let other = Box::pin(report::gather_other_inputs(&inputs)).await;
            bundle::write_bundle(out, &inputs, &other, &findings)?;
        }
        Ok(DoctorReport {
            healthy: findings.is_empty(),
            findings,
            bundle: self.bundle.as_ref().map(|out| out.display().to_string()),
            build_cache_bytes,
        })
    }
}
