//! Status documents of the controller, of environments and of services, from the last written statuses.

use std::sync::Arc;

use argus_crds::status::{ControllerStatus, EnvironmentStatus, ServiceStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Context, Effect, Operation, Route};
use crate::api::evidence_store;
use crate::process::exit::Failure;
use crate::render::status_text::is_good;

/// Status of the controller.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetController {}

impl Operation for GetController {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[Route::get("/api/v1/controller", "status of the controller")];
    type Output = ControllerStatus;

    async fn run(&self, context: &Context) -> Result<ControllerStatus, Failure> {
        Ok(context.client.statuses().await?.controller.clone())
    }
}

/// Level of detail of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Detail {
    #[default]
    Summary,
    Full,
}

/// All environments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Environments {
    /// `full` for the status documents
    #[serde(default)]
    pub(crate) detail: Detail,
    /// Filter by phase
    pub(crate) phase: Option<String>,
}

/// A list of environments.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct EnvironmentList {
    /// Summaries or status documents, by name.
    #[schemars(with = "Vec<Map<String, Value>>")]
    items: Vec<EnvironmentItem>,
}

/// A status document or its summary.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum EnvironmentItem {
    Full(Box<EnvironmentStatus>),
    Summary(Value),
}

impl EnvironmentList {
    /// Returns the status documents for changes.
    pub(crate) fn statuses_mut(&mut self) -> impl Iterator<Item = &mut EnvironmentStatus> {
        self.items.iter_mut().filter_map(|item| match item {
            EnvironmentItem::Full(status) => Some(&mut **status),
            EnvironmentItem::Summary(_) => None,
        })
    }

    /// Keeps the status documents for which the function returns true.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&mut EnvironmentStatus) -> bool) {
        self.items.retain_mut(|item| match item {
            EnvironmentItem::Full(status) => keeps(status),
            EnvironmentItem::Summary(_) => true,
        });
    }

    /// Returns the status documents.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = &EnvironmentStatus> {
        self.items.iter().filter_map(|item| match item {
            EnvironmentItem::Full(status) => Some(&**status),
            EnvironmentItem::Summary(_) => None,
        })
    }
}

impl Operation for Environments {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[Route::get(
        "/api/v1/environments",
        "all environments, as summaries or status documents",
    )];
    type Output = EnvironmentList;

    async fn run(&self, context: &Context) -> Result<EnvironmentList, Failure> {
        let statuses = context.client.statuses().await?;
        let is_requested = |status: &&Arc<EnvironmentStatus>| {
            let phase = format!("{:?}", status.phase);
            let requested = self.phase.as_ref();
            requested.is_none_or(|requested| requested.eq_ignore_ascii_case(&phase))
        };
        let requested = statuses.environments.values().filter(is_requested);
        let create_item = |status: &Arc<EnvironmentStatus>| match self.detail {
            Detail::Full => EnvironmentItem::Full(Box::new(EnvironmentStatus::clone(status))),
            Detail::Summary => EnvironmentItem::Summary(summarize(status)),
        };
        Ok(EnvironmentList {
            items: requested.map(create_item).collect(),
        })
    }
}

/// Summarizes the status of an environment in one row.
pub(crate) fn summarize(status: &EnvironmentStatus) -> Value {
    let ready = status.services.iter().filter(|row| is_good(row)).count();
    let mut value = json!({
        "environment": status.environment,
        "project": status.project,
        "phase": status.phase,
        "revision": status.revision,
        "ready": ready,
        "services": status.services.len(),
        "restarts": status.services.iter().map(|row| row.restarts).sum::<u32>(),
        "mode": status.mode,
        "asOf": status.as_of,
    });
    if status.stale {
        value["stale"] = json!(true);
    }
    if !status.tests.is_empty() {
        value["tests"] = json!(status.tests);
    }
    if !status.holds.is_empty() {
        value["holds"] = json!(status.holds);
    }
    if let Some(error) = status.errors.first() {
        value["error"] = json!({
            "code": error.code, "errorId": error.error_id, "service": error.service, "message": error.message,
        });
        if !error.debug.is_empty() {
            value["error"]["debug"] = json!(error.debug);
        }
    }
    value
}

/// Status of an environment.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetEnvironment {
    /// Environment name
    pub(crate) environment: String,
}

impl Operation for GetEnvironment {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[Route::get(
        "/api/v1/environments/{environment}",
        "status of an environment",
    )];
    type Output = EnvironmentStatus;

    async fn run(&self, context: &Context) -> Result<EnvironmentStatus, Failure> {
        context.client.find_environment(&self.environment).await
    }
}

/// Status of a service.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetService {
    /// Environment name
    pub(crate) environment: String,
    /// Service name
    pub(crate) service: String,
}

impl Operation for GetService {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[Route::get(
        "/api/v1/environments/{environment}/services/{service}",
        "status of a service",
    )];
    type Output = ServiceStatus;

    async fn run(&self, context: &Context) -> Result<ServiceStatus, Failure> {
        let status = context.client.find_environment(&self.environment).await?;
        let found = status.services.iter().find(|row| row.name == self.service);
        found
            .cloned()
            .ok_or_else(|| evidence_store::no_service_failure(&status, &self.service))
    }
}
