//! Target of a command: an environment, or one of its services.

use argus_core::ident::ServiceName;
use clap::Args;

use crate::exit::Failure;
use crate::status;

/// Arguments `ENV`, `ENV SERVICE` or `ENV/SERVICE`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Environment, or ENVIRONMENT/SERVICE
    target: String,
    /// Service name [default: all services]
    service: Option<String>,
}

impl Target {
    /// Returns validated names of the environment and the service. They are safe as parts of a path.
    pub(crate) fn parse(&self) -> Result<(String, Option<String>), Failure> {
        parse_target(&self.target, self.service.as_deref())
    }
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
