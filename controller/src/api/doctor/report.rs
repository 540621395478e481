//! Diagnosis from settings, status files, specs and the preflight report.

use argus_backend::{Backend as _, EngineInfo};
use argus_core::secrets::Secrets;
use argus_crds::error::Code;
use argus_crds::status::{ControllerStatus, EnvironmentStatus, PreflightReport};
use argus_reconciler::identity;
use argus_reconciler::specs::SpecRegistry;
use argus_reconciler::state_dir::StateDir;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api::incidents::reports as incidents;
use crate::api::plan::report as plan;
use crate::api::preflight::checks as preflight;
use crate::client::http;
use crate::engine;
use crate::local_state::status;
use crate::metrics::{self, REFUSALS};
use crate::process::blocking_io;
use crate::process::exit::Failure;
use crate::settings::Settings;
use crate::settings::abandoned::{self, Abandoned};
use crate::spec_files;

use super::findings::Finding;
use super::notifications;

/// Inputs of the findings: settings, status files, specs and the preflight report.
pub(crate) struct DoctorInputs {
    pub(crate) settings: Settings,
    pub(crate) state: StateDir,
    pub(crate) alive: bool,
    pub(crate) controller: Option<ControllerStatus>,
    pub(crate) environments: Vec<EnvironmentStatus>,
    pub(crate) incidents: Vec<argus_crds::incident::Incident>,
    pub(crate) registry: SpecRegistry,
    pub(crate) abandoned: Vec<Abandoned>,
    pub(crate) preflight: PreflightReport,
    /// Requests that the controller refused because of a limit, since its start.
    pub(crate) refused_requests: u64,
    /// Limit of the system that file notifications of this user have reached.
    pub(crate) reached_limit: Option<notifications::ReachedLimit>,
    /// Secrets of all spec files. Redacted in the report and in the bundle.
    pub(crate) secrets: Secrets,
}

/// Further contents of a bundle. They are not evaluated.
pub(crate) struct OtherInputs {
    pub(crate) engine: Result<Value, String>,
    pub(crate) plan: Result<String, String>,
}

/// Report for `-o json`, `-o yaml` and HTTP.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoctorReport {
    pub(crate) healthy: bool,
    pub(crate) findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bundle: Option<String>,
    /// Size of the engine's unused build cache in bytes. Absent if the engine did not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) build_cache_bytes: Option<u64>,
}

/// Size of the engine's unused build cache in bytes.
pub(crate) async fn measure_build_cache(settings: &Settings) -> Option<u64> {
    let docker = engine::connect_docker(settings).await.ok()?;
    docker.build_cache().await.ok()
}

pub(crate) async fn gather_inputs(settings: Settings) -> Result<DoctorInputs, Failure> {
    let preflight = match Box::pin(preflight::run_checks(&settings, &[], false, false, &mut |_| {})).await {
        // The status of the controller contains the open breaker, which is a finding.
        Err(failure) if failure.code() == Some(Code::CircuitOpen) => PreflightReport::default(),
        result => result?,
    };
    let refused_requests = count_refused_requests(&settings.state).await;
    let inputs = blocking_io::read_until(move |stop| read_inputs(settings, preflight, stop)).await?;
    Ok(DoctorInputs {
        refused_requests,
        ..inputs
    })
}

/// Requests that the running controller refused because of a limit, from its metrics; zero without a controller.
async fn count_refused_requests(state: &StateDir) -> u64 {
    let Ok(metrics) = http::get(&state.socket(), metrics::PATH).await else {
        return 0;
    };
    sum_counter(&String::from_utf8_lossy(&metrics), REFUSALS)
}

/// Sum of a counter over all its labels.
fn sum_counter(metrics: &str, name: &str) -> u64 {
    let lines = metrics.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
    });
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

/// Reads the inputs that are files.
pub(crate) fn read_inputs(
    settings: Settings,
    preflight: PreflightReport,
    stop: &CancellationToken,
) -> Result<DoctorInputs, Failure> {
    let state = settings.state.clone();
    let identity = identity::peek(&state.identity()).unwrap_or_default();
    let registry = spec_files::read_own_folder(&settings, &identity, stop);
    let mut secrets = Secrets::default();
    let accepted = registry
        .files
        .values()
        .filter_map(|entry| entry.accepted.as_ref());
    for accepted in accepted.chain(registry.environments.values()) {
        secrets.join(&accepted.desired.secret_values());
    }
    Ok(DoctorInputs {
        alive: status::is_alive(&state),
        controller: status::read_controller(&state)?,
        environments: status::read_environments(&state)?,
        incidents: incidents::read_incidents(&state)?,
        abandoned: if state.has_outer_private() {
            abandoned::list()
        } else {
            Vec::new()
        },
        settings,
        state,
        registry,
        preflight,
        refused_requests: 0,
        reached_limit: notifications::find_reached_limit(),
        secrets,
    })
}

pub(crate) async fn gather_other_inputs(inputs: &DoctorInputs) -> OtherInputs {
    let (engine, plan) = tokio::join!(
        read_engine(&inputs.settings),
        plan::create_report(&inputs.settings, &inputs.registry, None, false)
    );
    let engine = engine.map(|about| {
        serde_json::json!({
            "version": about.version,
            "apiVersion": about.api_version,
            "dataRoot": about.data_root,
            "endpoint": about.endpoint,
            "facts": about.facts,
        })
    });
    OtherInputs {
        engine,
        plan: plan
            .map(|plan| plan.format_text())
            .map_err(|failure| failure.message().to_owned()),
    }
}

async fn read_engine(settings: &Settings) -> Result<EngineInfo, String> {
    let docker = engine::connect_docker(settings).await;
    let docker = docker.map_err(|failure| failure.message().to_owned())?;
    docker.info().await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_requests_are_summed_over_all_limits() {
        let metrics = "# HELP x_total all\nx_total{limit=\"a\"} 3\nx_total{limit=\"b\"} 4\nx_total_other 9\n";
        assert_eq!(sum_counter(metrics, "x_total"), 7);
    }
}
