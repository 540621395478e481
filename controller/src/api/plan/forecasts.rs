//! Forecasts: the steps until each environment is settled, from the specs folder and the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_backend::Backend as _;
use argus_core::action::{Step, Subject};
use argus_core::desired::Accepted;
use argus_core::ident::{ContainerId, EnvName, ServiceName};
use argus_core::plan::{self, ControllerIdentity};
use argus_core::preflight::PreflightSnapshot;
use argus_core::reconcile::{Inputs, Planner, forecast};
use argus_core::secrets::Secrets;
use argus_core::state::PlannerState;
use argus_crds::error::{Code, Reason};
use argus_reconciler::clock;
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::specs::{FileEntry, SpecRegistry};
use argus_reconciler::state_dir::StateDir;
use tokio_util::sync::CancellationToken;

use crate::api::target::Target;
use crate::engine;
use crate::engine::observer;
use crate::engine::observer::EngineObserver;
use crate::local_state::status;
use crate::process::blocking_io;
use crate::process::exit::{Exit, Failure};
use crate::settings::Settings;
use crate::spec_files;

/// Forecast of one environment.
#[derive(Debug, Default)]
pub(crate) struct Forecast {
    /// Plan of the current state. Empty if nothing is desired or observed.
    pub(crate) plan: Arc<plan::Plan>,
    /// All steps until the environment is settled. The steps of the current plan come first.
    pub(crate) steps: Vec<Step>,
    /// True if the environment was removed by a user, or expired, and not started again.
    pub(crate) down: bool,
    /// True if the environment expired after its `argus.ttl`.
    pub(crate) expired: bool,
    /// Secrets that are redacted in the output.
    pub(crate) secrets: Secrets,
    /// Services of the observed containers.
    pub(crate) container_services: BTreeMap<ContainerId, ServiceName>,
}

impl Forecast {
    /// Restricts the forecast to a service and its image. Returns false if neither the file nor a container has the service.
    fn select_service(&mut self, service: &str, accepted: Option<&Arc<Accepted>>) -> bool {
        let mut declared = accepted.iter().flat_map(|accepted| &accepted.desired.services);
        let declared = declared.find(|(name, _)| name.as_str() == service);
        let image = declared.map(|(_, service)| service.image.key());
        let containers = &self.container_services;
        let is_of_service = |subject: &Subject| match subject {
            Subject::Service { service: of, .. } => of.as_str() == service,
            Subject::Image { key } => image.as_ref() == Some(key),
            Subject::ExtraContainer { id } => containers.get(id).is_some_and(|of| of.as_str() == service),
            Subject::Network { .. } | Subject::Volume { .. } | Subject::ExtraNetwork { .. } => false,
        };
        let plan = Arc::make_mut(&mut self.plan);
        plan.steps.retain(|step| is_of_service(&step.subject));
        plan.waits.retain(|wait| is_of_service(&wait.subject));
        self.steps.retain(|step| is_of_service(&step.subject));
        declared.is_some() || containers.values().any(|of| of.as_str() == service)
    }
}

pub(crate) type Forecasts = BTreeMap<EnvName, Forecast>;

/// Reads the specs folder as a controller would, until `stop`. The flag is true if a file is rejected.
pub(crate) fn read_folder(
    settings: &Settings,
    stop: &CancellationToken,
) -> Result<(SpecRegistry, bool), Failure> {
    let identity = read_identity(settings, &settings.state);
    let registry = spec_files::read_own_folder(settings, &identity.controller, stop);
    if let Some(cause) = &registry.unavailable {
        let details = serde_json::json!({ "path": settings.specs, "reason": cause });
        return Err(Failure::with_code(Code::SpecInvalid, cause.clone()).with_details(details));
    }
    let is_rejected = |entry: &FileEntry| entry.diagnostics.iter().any(argus_crds::Diagnostic::is_error);
    let rejected = registry.files.values().any(is_rejected);
    Ok((registry, rejected))
}

/// Forecasts of the given environment or service, which must exist, or of all environments.
pub(crate) async fn create_forecasts_for(
    settings: &Settings,
    registry: &SpecRegistry,
    wanted: Option<&Target>,
    rejected: bool,
) -> Result<Forecasts, Failure> {
    let (own, named) = (settings.clone(), wanted.map(|target| target.environment.clone()));
    let (identity, persisted, (known, suggestion)) = blocking_io::read(move || {
        let state = own.state.clone();
        let known = named
            .map(|env| {
                Ok((
                    status::read_environment(&state, &env)?,
                    status::suggest_service(&state, &env),
                ))
            })
            .transpose()?;
        Ok((
            read_identity(&own, &state),
            read_persisted(&state),
            known.unwrap_or_default(),
        ))
    })
    .await?;
    let unknown = |env: &str, names: Vec<&EnvName>| {
        let failure = unknown_environment(env, &names, rejected);
        match suggestion {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    };
    // A path of a file has the form of a service.
    if let Some(Target {
        environment,
        service: Some(_),
    }) = wanted
        && known.is_none()
        && registry
            .environments
            .keys()
            .all(|env| env.as_str() != environment)
    {
        return Err(unknown(environment, registry.environments.keys().collect()));
    }
    let mut forecasts = create_forecasts(settings, registry, identity, persisted).await?;
    let Some(wanted) = wanted else {
        return Ok(forecasts);
    };
    let env = &wanted.environment;
    if known.is_none() && !forecasts.keys().any(|known| known.as_str() == env) {
        return Err(unknown(env, forecasts.keys().collect()));
    }
    forecasts.retain(|known, _| known.as_str() == env);
    if let Some(service) = &wanted.service {
        let mut selected = forecasts.iter_mut();
        if !selected.any(|(env, forecast)| forecast.select_service(service, registry.environments.get(env))) {
            let message = format!("environment `{env}` has no service `{service}`");
            return Err(Failure::with_reason(Reason::NotFound, message)
                .with_exit(Exit::Usage)
                .with_hint(format!("plan all of its services with `argus plan {env}`")));
        }
    }
    Ok(forecasts)
}

pub(crate) fn read_identity(settings: &Settings, state: &StateDir) -> ControllerIdentity {
    ControllerIdentity {
        controller: argus_reconciler::identity::peek(&state.identity()).unwrap_or_default(),
        run: String::new(),
        publish_address: settings.publish_address,
    }
}

/// Saved state of the controller. It is empty for other users, because the file is private.
pub(crate) fn read_persisted(state: &StateDir) -> PersistedState {
    PersistedState::peek(state)
}

fn unknown_environment(wanted: &str, known: &[&EnvName], rejected: bool) -> Failure {
    let suffix = if rejected { "; some files are rejected" } else { "" };
    let message = format!(
        "no environment `{wanted}`; {}{suffix}",
        status::format_known(known)
    );
    Failure::with_reason(Reason::NotFound, message)
        .with_exit(Exit::Usage)
        .with_hint("pass the name of an environment instead of a file, or plan all with `argus plan`")
}

pub(crate) async fn create_forecasts(
    settings: &Settings,
    registry: &SpecRegistry,
    identity: ControllerIdentity,
    persisted: PersistedState,
) -> Result<Forecasts, Failure> {
    let docker = engine::connect_docker(settings).await?;
    let mut observer = EngineObserver::open(&docker, None).await?;
    // A list does not contain exit codes, but plans depend on them.
    observer.inspect().await?;
    let store = observer.store;
    let leases = observer::read_leases(&docker, &identity, &settings.state).await?;
    let preflight = PreflightSnapshot {
        host: docker.host_facts().await,
        at: Some(clock::now()),
        ..PreflightSnapshot::default()
    };
    let planner_state = create_planner_state(settings, &persisted);
    let mut specs = registry.environments.clone();
    specs.retain(|_, accepted| !persisted.overrides.is_down(accepted));
    let (planner, now) = (Planner::new(identity, planner_state), clock::now());
    let health = super::health::read_probe_states(settings, &store, now).await?;
    let inputs = Inputs {
        requests: &persisted.overrides.requests,
        leases: &leases,
        specs: &specs,
        preflight: Some(&preflight),
        scanned: true,
        store: &store,
        health: &health,
        now,
    };
    let plans = planner.clone().reconcile(&inputs).plans;
    let mut forecasts: Forecasts = plans
        .iter()
        .map(|(env, plan)| {
            (
                env.clone(),
                Forecast {
                    plan: plan.clone(),
                    ..Forecast::default()
                },
            )
        })
        .collect();
    // Environments of other controllers are not planned.
    forecasts.retain(|env, forecast| specs.contains_key(env) || !forecast.plan.is_settled());
    for (env, step) in forecast::forecast(planner, &specs, &store, &health, &leases, now) {
        forecasts.entry(env).or_default().steps.push(step);
    }
    for (env, accepted) in &registry.environments {
        let forecast = forecasts.entry(env.clone()).or_default();
        forecast.down = persisted.overrides.is_down(accepted);
        forecast.expired = forecast.down && persisted.overrides.ttl_expired.contains(env);
        forecast.secrets = accepted.desired.secret_values();
    }
    for (env, forecast) in &mut forecasts {
        let containers = store
            .of(env)
            .into_iter()
            .flat_map(|observed| observed.containers.values());
        let with_service = containers.filter_map(|it| Some((it.id.clone(), it.owner()?.service?)));
        forecast.container_services = with_service.collect();
    }
    Ok(forecasts)
}

/// State of the planner of a controller with these settings.
fn create_planner_state(settings: &Settings, persisted: &PersistedState) -> PlannerState {
    PlannerState {
        environments: persisted.environments.clone(),
        retries: settings.times.retries,
        delays: settings.times.delays,
        ..PlannerState::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::api::apply::SMALL;
    use crate::settings::{Options, SpecOptions};

    #[test]
    fn unknown_environment_is_usage() {
        let shop = EnvName::new("shop").unwrap();
        let Failure::Error { error, exit, hint } = unknown_environment("shpo", &[&shop], false) else {
            panic!("no error")
        };
        assert_eq!(
            (exit, error.message.as_str()),
            (Exit::Usage, "no environment `shpo`; environments: shop")
        );
        assert!(hint.is_some() && error.remedies.is_empty());
    }

    fn settings_in(dir: &Path) -> Settings {
        let options = Options {
            state: Some(dir.join("state")),
            ..Options::default()
        };
        let specs = SpecOptions {
            specs: Some(dir.join("specs")),
            ..SpecOptions::default()
        };
        Settings::resolve(&options, &specs).unwrap()
    }

    #[test]
    fn folder_is_read_only_until_the_caller_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings_in(dir.path());
        std::fs::create_dir(&settings.specs).unwrap();
        std::fs::write(settings.specs.join("shop.e2e.yaml"), SMALL).unwrap();
        let stop = CancellationToken::new();
        let (registry, rejected) = read_folder(&settings, &stop).unwrap();
        assert_eq!((registry.environments.len(), rejected), (1, false));
        stop.cancel();
        let (registry, _) = read_folder(&settings, &stop).unwrap();
        assert!(registry.files.is_empty());
    }

    #[test]
    fn forecast_has_the_retry_settings_of_the_controller() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings_in(dir.path());
        settings.times.retries.slow_restart = std::time::Duration::from_secs(300);
        let state = create_planner_state(&settings, &PersistedState::default());
        assert_eq!(state.retries, settings.times.retries);
        assert_ne!(state.retries, PlannerState::default().retries);
    }

    #[test]
    fn forecast_of_a_service_has_its_own_steps() {
        use argus_core::action::{Action, Step};
        use argus_core::ident::NetworkId;

        let (env, name) = (EnvName::new("shop").unwrap(), |name| {
            ServiceName::new(name).unwrap()
        });
        let container = |id: &str| ContainerId::new(id).unwrap();
        let step = |subject| Step {
            subject,
            action: Action::RemoveNetwork {
                id: NetworkId::new("n").unwrap(),
                name: "n".to_owned(),
            },
            cause: argus_core::action::Cause::Missing,
        };
        let service = |of| Subject::Service {
            environment: env.clone(),
            service: name(of),
        };
        let subjects = [
            Subject::Network {
                environment: env.clone(),
                name: None,
            },
            service("web"),
            service("db"),
            Subject::ExtraContainer { id: container("a") },
            Subject::ExtraContainer { id: container("b") },
        ];
        let forecast = || Forecast {
            steps: subjects.iter().cloned().map(step).collect(),
            container_services: [(container("a"), name("web")), (container("b"), name("old"))].into(),
            ..Forecast::default()
        };
        let select = |service: &str| {
            let mut forecast = forecast();
            let is_known = forecast.select_service(service, None);
            (is_known, forecast.steps.len())
        };
        assert_eq!(select("web"), (true, 2));
        assert_eq!(select("old"), (true, 1));
        assert_eq!(select("wbe"), (false, 0));
    }
}
