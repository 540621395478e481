//! Removal of old images and of the build cache.

pub(crate) mod report;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Context, Effect, Operation, Route};
use crate::exit::Failure;
use report::PruneReport;

/// Images and build cache that can be removed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Prune {
    /// Keep the build cache, which all users of the engine share
    #[serde(default)]
    images_only: bool,
    /// Remove them
    #[serde(default)]
    remove: bool,
}

impl Operation for Prune {
    const EFFECT: Effect = Effect::Destructive;
    const ROUTES: &'static [Route] = &[
        Route::get("/api/v1/prune", "images and build cache that can be removed")
            .fixed(&[("remove", "false")])
            .serial(),
        Route::post(
            "/api/v1/prune",
            "removes them; `imagesOnly` keeps the build cache, which all users of the engine share",
        )
        .fixed(&[("remove", "true")])
        .serial(),
    ];
    type Output = PruneReport;

    async fn run(&self, context: &Context) -> Result<PruneReport, Failure> {
        let client = &context.client;
        let settings = client.run_blocking(|client| Ok(client.query_settings())).await?;
        let mut report = Box::pin(report::create_report(&settings, self.images_only)).await?;
        if self.remove {
            report::remove_images(&settings, self.images_only, &mut report).await?;
        }
        Ok(report)
    }
}
