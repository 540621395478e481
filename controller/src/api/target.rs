//! Target of an operation: an environment, or one of its services.

use std::fmt;

use argus_core::ident::{EnvName, ServiceName};

use argus_crds::status::{EnvironmentStatus, ServiceStatus};
use argus_reconciler::state_dir::StateDir;

use crate::api::evidence_store;
use crate::local_state::status;
use crate::process::exit::Failure;

/// An environment, or one of its services. The names are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) environment: String,
    pub(crate) service: Option<String>,
}

impl Target {
    /// Creates the target of a whole environment.
    pub(crate) fn environment(environment: impl Into<String>) -> Self {
        Self {
            environment: environment.into(),
            service: None,
        }
    }

    /// Parses `ENVIRONMENT` or `ENVIRONMENT/SERVICE`, with the service as an optional second word.
    pub(crate) fn parse(target: &str, service: Option<&str>) -> Result<Self, Failure> {
        let (environment, service) = parse_target(target, service)?;
        Ok(Self { environment, service })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.service {
            Some(service) => write!(f, "{}/{service}", self.environment),
            None => f.write_str(&self.environment),
        }
    }
}

/// Parses the target of an operation that is only possible on whole environments. For a service, the error says why, and
/// names the command to use instead.
pub(crate) fn parse_whole_environment(
    target: &str,
    why: &str,
    remedy: impl FnOnce(&str) -> String,
) -> Result<EnvName, Failure> {
    if let Ok((env, Some(_))) = parse_target(target, None) {
        let message = format!("`{target}` is a service, but {why}");
        return Err(Failure::usage(message).with_hint(remedy(&env)));
    }
    status::parse_environment(target)
}

/// Splits and validates the two words of a target.
pub(crate) fn parse_target(target: &str, service: Option<&str>) -> Result<(String, Option<String>), Failure> {
    let (env, service) = match (target.split_once('/'), service) {
        (Some((env, first)), Some(second)) => {
            let message = format!("expected one service, but two are given: `{first}` and `{second}`");
            return Err(Failure::usage(message).with_hint(format!("pass only `{env}/{first}`")));
        }
        (Some((env, service)), None) => (env, Some(service)),
        (None, service) => (target, service),
    };
    status::parse_environment(env)?;
    if let Some(service) = service {
        let hint = format!("list its services with `argus get {env}`");
        ServiceName::new(service).map_err(|error| Failure::usage(error.to_string()).with_hint(hint))?;
    }
    Ok((env.to_owned(), service.map(str::to_owned)))
}

/// Returns the only environment of the state directory, the default of commands.
pub(crate) fn find_only_environment(state: &StateDir) -> Result<String, Failure> {
    let mut known = status::list_names(state)?;
    match known.pop() {
        Some(only) if known.is_empty() => Ok(only),
        Some(last) => {
            known.push(last);
            let message = format!(
                "no environment is given, and several exist; {}",
                status::format_known(&known)
            );
            Err(Failure::usage(message).with_hint("pass the name of one environment"))
        }
        None => {
            let message = "no environment is given, and none exists";
            Err(Failure::usage(message).with_hint("start one with `argus up` or `argus run`"))
        }
    }
}

/// Returns the only environment if it has this service.
fn find_only_owner(state: &StateDir, service: &str) -> Option<String> {
    let only = find_only_environment(state).ok()?;
    let status = status::read_environment(state, &only).ok()??;
    let has_service = status.services.iter().any(|row| row.name == service);
    has_service.then_some(only)
}

/// Splits and validates a target. Without one, it is the only environment. A word that names no environment can be a
/// service of the only one.
pub(crate) fn resolve_target(
    state: &StateDir,
    target: Option<&str>,
    service: Option<&str>,
) -> Result<(String, Option<String>), Failure> {
    let Some(target) = target else {
        return Ok((find_only_environment(state)?, None));
    };
    let (env, service) = parse_target(target, service)?;
    if status::read_environment(state, &env)?.is_none()
        && let Some(only) = find_only_owner(state, &env)
    {
        let Some(second) = service else {
            return Ok((only, Some(env)));
        };
        let message = format!("expected one service, but two are given: `{env}` and `{second}`");
        let hint = format!("pass `{env}`, or `{only}` for all services");
        return Err(Failure::usage(message).with_hint(hint));
    }
    Ok((env, service))
}

/// Splits and validates a target that must name a service. The only environment is the default.
pub(crate) fn parse_service_target(state: &StateDir, target: &str) -> Result<(String, String), Failure> {
    if let Some(only) = find_only_owner(state, target) {
        return Ok((only, target.to_owned()));
    }
    match parse_target(target, None)? {
        (env, Some(service)) => Ok((env, service)),
        (env, None) => {
            let failure = Failure::usage(format!("expected ENVIRONMENT/SERVICE, but got `{env}`"));
            let hint = match status::read_environment(state, &env)? {
                Some(_) => format!("list its services with `argus get {env}`"),
                None => status::hint_for_unknown(state, &env),
            };
            Err(failure.with_hint(hint))
        }
    }
}

/// Fails for the name of a service that the environment does not have.
pub(crate) fn check_service(status: &EnvironmentStatus, service: &str) -> Result<(), Failure> {
    if status.services.iter().all(|row| row.name != service) {
        return Err(evidence_store::no_service_failure(status, service));
    }
    Ok(())
}

/// Restricts the status of an environment to one of its services.
pub(crate) fn select_service(
    mut status: EnvironmentStatus,
    service: Option<&str>,
) -> Result<EnvironmentStatus, Failure> {
    let Some(service) = service else {
        return Ok(status);
    };
    check_service(&status, service)?;
    retain_services(&mut status, |row| row.name == service);
    Ok(status)
}

/// Restricts the status of an environment to some of its services.
pub(crate) fn retain_services(status: &mut EnvironmentStatus, is_selected: impl Fn(&ServiceStatus) -> bool) {
    let EnvironmentStatus {
        services,
        port_mappings,
        errors,
        ..
    } = status;
    services.retain(is_selected);
    let is_left = |name: &String| services.iter().any(|row| row.name == *name);
    port_mappings.retain(|mapping| is_left(&mapping.service));
    errors.retain(|error| error.service.as_ref().is_none_or(is_left));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_one_word_or_two() {
        let of = |target, service| parse_target(target, service).ok();
        let shop = |service: Option<&str>| Some(("shop".to_owned(), service.map(str::to_owned)));
        assert_eq!(of("shop", None), shop(None));
        assert_eq!(of("shop", Some("web")), shop(Some("web")));
        assert_eq!(of("shop/web", None), shop(Some("web")));
        for (target, service) in [
            ("shop/web", Some("db")),
            ("../shop", None),
            ("shop", Some("../web")),
            ("shop/", None),
        ] {
            assert_eq!(of(target, service), None, "{target}");
        }
    }
    fn state_with(names: &[&str]) -> (tempfile::TempDir, StateDir) {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path().join("state"));
        std::fs::create_dir_all(state.environments()).unwrap();
        for name in names {
            let status = EnvironmentStatus {
                environment: (*name).to_owned(),
                services: ["web", "shop"]
                    .map(|name| ServiceStatus {
                        name: name.to_owned(),
                        ..ServiceStatus::default()
                    })
                    .into(),
                ..EnvironmentStatus::default()
            };
            let path = state.environments().join(format!("{name}.json"));
            std::fs::write(path, serde_json::to_vec(&status).unwrap()).unwrap();
        }
        (dir, state)
    }

    #[test]
    fn only_environment_is_the_default() {
        let owned = |env: &str, service: Option<&str>| Some((env.to_owned(), service.map(str::to_owned)));
        let (_dir, state) = state_with(&["shop"]);
        let resolve = |target, service| resolve_target(&state, target, service).ok();
        assert_eq!(resolve(None, None), owned("shop", None));
        assert_eq!(resolve(Some("web"), None), owned("shop", Some("web")));
        assert_eq!(
            resolve(Some("shop"), None),
            owned("shop", None),
            "environments come first"
        );
        assert_eq!(resolve(Some("shop"), Some("web")), owned("shop", Some("web")));
        assert_eq!(
            resolve(Some("other"), None),
            owned("other", None),
            "the command reports it"
        );
        let two = resolve_target(&state, Some("web"), Some("db")).unwrap_err();
        let two = format!("{two:?}");
        assert!(two.contains("pass `web`, or `shop` for all services"), "{two}");
        let service = |target| parse_service_target(&state, target).ok();
        assert_eq!(service("web"), Some(("shop".to_owned(), "web".to_owned())));
        assert_eq!(service("shop"), Some(("shop".to_owned(), "shop".to_owned())));
        assert_eq!(service("other"), None);
    }

    #[test]
    fn several_environments_have_no_default() {
        let (_dir, state) = state_with(&["shop", "blog"]);
        assert_eq!(
            resolve_target(&state, Some("web"), None).ok(),
            Some(("web".to_owned(), None))
        );
        assert!(parse_service_target(&state, "web").is_err());
        let failure = format!("{:?}", find_only_environment(&state).unwrap_err());
        assert!(failure.contains("environments: blog, shop"), "{failure}");
        let (_dir, state) = state_with(&[]);
        let failure = format!("{:?}", find_only_environment(&state).unwrap_err());
        assert!(failure.contains("none exists"), "{failure}");
    }
}
