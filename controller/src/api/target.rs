//! Target of an operation: an environment, or one of its services.

use argus_core::ident::ServiceName;

use argus_crds::error::StructuredError;
use argus_crds::status::EnvironmentStatus;

use crate::evidence_store;
use crate::exit::Failure;
use crate::status;

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

/// Splits and validates a target that must name a service.
pub(crate) fn parse_service_target(target: &str) -> Result<(String, String), Failure> {
    match parse_target(target, None)? {
        (env, Some(service)) => Ok((env, service)),
        (env, None) => {
            let failure = Failure::usage(format!("expected ENVIRONMENT/SERVICE, but got `{env}`"));
            Err(failure.with_hint(format!("list its services with `argus get {env}`")))
        }
    }
}

/// Restricts the status of an environment to one of its services.
pub(crate) fn select_service(
    mut status: EnvironmentStatus,
    service: Option<&str>,
) -> Result<EnvironmentStatus, Failure> {
    let Some(service) = service else {
        return Ok(status);
    };
    if status.services.iter().all(|row| row.name != service) {
        return Err(evidence_store::no_service_failure(&status, service));
    }
    status.services.retain(|row| row.name == service);
    status.port_mappings.retain(|mapping| mapping.service == service);
    let is_of_service = |error: &StructuredError| error.service.as_deref().is_none_or(|of| of == service);
    status.errors.retain(is_of_service);
    Ok(status)
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
}
