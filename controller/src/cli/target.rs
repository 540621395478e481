//! An environment or a service of one, as a command line names it.

use argus_core::ident::ServiceName;
use clap::Args;

use super::status;
use crate::exit::Failure;

/// `ENV`, `ENV SERVICE` or `ENV/SERVICE`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Environment, or ENVIRONMENT/SERVICE
    target: String,
    /// Service
    service: Option<String>,
}

impl Target {
    /// The environment and the service; both are names, so that they may become a path.
    pub(crate) fn parts(&self) -> Result<(String, Option<String>), Failure> {
        parts(&self.target, self.service.as_deref())
    }
}

/// The same from two words.
pub(crate) fn parts(target: &str, service: Option<&str>) -> Result<(String, Option<String>), Failure> {
    let (env, service) = match (target.split_once('/'), service) {
        (Some((env, first)), Some(second)) => {
            let message = format!("one service is asked for, and two are named: `{first}` and `{second}`");
            return Err(Failure::usage(message).hint(format!("name one: `{env}/{first}`")));
        }
        (Some((env, service)), None) => (env, Some(service)),
        (None, service) => (target, service),
    };
    status::named(env)?;
    if let Some(service) = service {
        let hint = format!("`argus get {env}` shows its services");
        ServiceName::new(service).map_err(|error| Failure::usage(error.to_string()).hint(hint))?;
    }
    Ok((env.to_owned(), service.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_in_one_word_or_in_two() {
        let of = |target, service| parts(target, service).ok();
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
