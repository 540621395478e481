//! Registry credentials from Docker's configuration file and from the credential helpers that it names.
//!
//! As in Docker, the helper of a registry counts before the helper for all registries, and both before the file.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use argus_core::outcome::ActionError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bollard::auth::DockerCredentials;
use futures::future::join_all;
use serde_json::Value;

use crate::connect::config_folder;
use helper::Helper;

mod helper;

/// Key of Docker Hub in Docker's configuration file.
const HUB: &str = "https://index.docker.io/v1/";

/// Found credentials, and the reasons why some are missing.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Credentials by registry, in the format of the builder.
    pub(super) by_registry: HashMap<String, DockerCredentials>,
    /// Failures of credential helpers.
    failures: Vec<String>,
}

impl Found {
    /// Credentials by the host that `BuildKit` requests them for.
    pub(super) fn by_host(&self) -> HashMap<String, DockerCredentials> {
        let entries = self.by_registry.iter();
        entries
            .map(|(key, credentials)| {
                let host = match host(key) {
                    "index.docker.io" => "registry-1.docker.io",
                    other => other,
                };
                (host.to_owned(), credentials.clone())
            })
            .collect()
    }

    /// Adds the answer of a helper. It replaces an entry of the file.
    fn add(&mut self, server: &str, answer: Result<Option<DockerCredentials>, String>) {
        match answer {
            Ok(Some(credentials)) => {
                self.by_registry.retain(|key, _| host(key) != host(server));
                self.by_registry.insert(server.to_owned(), credentials);
            }
            Ok(None) => {}
            Err(failure) => self.failures.push(failure),
        }
    }

    /// Adds the sources of the credentials to the error of a missing login. Some registries report a missing login as a missing image.
    pub(super) fn explain(&self, error: ActionError) -> ActionError {
        let source = || file().map(|file| format!("Argus reads credentials from `{}`", file.display()));
        let add = |text: String, source: Option<String>| {
            let failures = self.failures.iter().cloned();
            let parts = std::iter::once(text).chain(source).chain(failures);
            parts.collect::<Vec<_>>().join("; ")
        };
        match error {
            ActionError::AuthRequired(text) => ActionError::AuthRequired(add(text, source())),
            ActionError::ImageNotFound(text) => ActionError::ImageNotFound(add(text, None)),
            ActionError::BuildFailed {
                message,
                log,
                instruction,
            } if message.contains("access denied") => ActionError::BuildFailed {
                message: add(message, None),
                log,
                instruction,
            },
            other => other,
        }
    }
}

/// Path of Docker's configuration file.
fn file() -> Option<PathBuf> {
    let env = |key: &str| std::env::var(key).ok().filter(|value| !value.is_empty());
    config_folder(&env).map(|folder| folder.join("config.json"))
}

/// Content of Docker's configuration file; `null` without a readable one.
pub(super) fn config() -> Value {
    let text = file().and_then(|path| std::fs::read(path).ok());
    text.and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

/// All credentials.
pub(super) async fn all() -> Found {
    let config = config();
    let helpers = Helpers::of(&config);
    let (listed, failure) = match &helpers.default {
        Some(helper) => match helper.list().await {
            Ok(listed) => (listed, None),
            Err(failure) => (Vec::new(), Some(failure)),
        },
        None => (Vec::new(), None),
    };
    let mut found = Found {
        by_registry: read(&config),
        failures: failure.into_iter().collect(),
    };
    let registries = helpers.registries(listed);
    let answers = registries.iter().filter_map(|registry| {
        let helper = helpers.for_registry(registry)?;
        Some(async move { (registry, helper.get(registry).await) })
    });
    for (registry, answer) in join_all(answers).await {
        found.add(registry, answer);
    }
    found
}

/// The credentials for an image's registry.
pub(super) async fn for_image(reference: &str) -> (Option<DockerCredentials>, Found) {
    let config = config();
    let registry = registry(reference);
    let mut found = Found {
        by_registry: read(&config),
        failures: Vec::new(),
    };
    if let Some(helper) = Helpers::of(&config).for_registry(registry) {
        found.add(registry, helper.get(registry).await);
    }
    let credentials = found
        .by_registry
        .iter()
        .find(|(key, _)| host(key) == host(registry))
        .map(|(_, credentials)| credentials.clone());
    (credentials, found)
}

/// Credential helpers of a configuration file.
struct Helpers {
    by_registry: BTreeMap<String, Helper>,
    /// Helper for all other registries.
    default: Option<Helper>,
}

impl Helpers {
    fn of(config: &Value) -> Self {
        let named = |value: &Value| value.as_str().filter(|name| !name.is_empty()).map(Helper::new);
        let of_registries = config.get("credHelpers").and_then(Value::as_object);
        Self {
            by_registry: of_registries
                .into_iter()
                .flatten()
                .filter_map(|(registry, name)| Some((registry.clone(), named(name)?)))
                .collect(),
            default: config.get("credsStore").and_then(named),
        }
    }

    /// Returns the registries to ask for: those with a helper of their own, and the others that the helper for all registries lists.
    fn registries(&self, listed: Vec<String>) -> Vec<String> {
        let has_own = |listed: &String| self.by_registry.keys().any(|own| host(own) == host(listed));
        let others = listed.into_iter().filter(|listed| !has_own(listed));
        self.by_registry.keys().cloned().chain(others).collect()
    }

    fn for_registry(&self, registry: &str) -> Option<&Helper> {
        let mut of_registries = self.by_registry.iter();
        let own = of_registries.find(|(key, _)| host(key) == host(registry));
        own.map(|(_, helper)| helper).or(self.default.as_ref())
    }
}

fn read(config: &Value) -> HashMap<String, DockerCredentials> {
    let auths = config.get("auths").and_then(Value::as_object);
    let entries = auths.into_iter().flatten();
    entries
        .filter_map(|(key, entry)| Some((key.clone(), credentials(key, entry)?)))
        .collect()
}

fn credentials(server: &str, entry: &Value) -> Option<DockerCredentials> {
    let text = |key: &str| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let (username, password) = match text("auth") {
        Some(auth) => {
            let plain = String::from_utf8(STANDARD.decode(auth).ok()?).ok()?;
            let (username, password) = plain.split_once(':')?;
            (
                Some(username.to_owned()),
                Some(password.trim_end_matches('\0').to_owned()),
            )
        }
        None => (
            text("username").map(str::to_owned),
            text("password").map(str::to_owned),
        ),
    };
    let identitytoken = text("identitytoken").map(str::to_owned);
    if username.is_none() && identitytoken.is_none() {
        return None;
    }
    Some(DockerCredentials {
        username,
        password,
        identitytoken,
        serveraddress: Some(server.to_owned()),
        ..Default::default()
    })
}

/// The registry of an image: the part before the first slash if it has the form of a host, else Docker Hub.
fn registry(reference: &str) -> &str {
    match reference.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => HUB,
    }
}

/// The host of a key, with the aliases of Docker Hub unified.
fn host(key: &str) -> &str {
    let rest = key.trim_start_matches("https://").trim_start_matches("http://");
    match rest.split('/').next().unwrap_or_default() {
        "docker.io" | "registry-1.docker.io" => "index.docker.io",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_the_hosts_in_requests_of_buildkit() {
        let config = json!({"auths": {
            HUB: {"auth": STANDARD.encode("a:b")},
            "https://r.example:5000/v1/": {"auth": STANDARD.encode("c:d")},
        }});
        let found = Found {
            by_registry: read(&config),
            failures: Vec::new(),
        };
        let by_host = found.by_host();
        let user = |host: &str| by_host[host].username.as_deref();
        assert_eq!(user("registry-1.docker.io"), Some("a"));
        assert_eq!(user("r.example:5000"), Some("c"));
    }

    #[test]
    fn helper_of_the_registry_precedes_the_one_for_all() {
        let helpers = Helpers::of(
            &json!({"credsStore": "desktop", "credHelpers": {"r.example:5000": "pass", "x.example": ""}}),
        );
        let name_for = |registry: &str| {
            helpers
                .for_registry(registry)
                .map(|helper| helper.program().to_owned())
        };
        assert_eq!(
            name_for("r.example:5000").as_deref(),
            Some("docker-credential-pass")
        );
        assert_eq!(
            name_for("x.example").as_deref(),
            Some("docker-credential-desktop")
        );
        assert_eq!(name_for(HUB).as_deref(), Some("docker-credential-desktop"));
        assert!(Helpers::of(&Value::Null).for_registry(HUB).is_none());
        let listed = vec!["https://r.example:5000".to_owned(), HUB.to_owned()];
        assert_eq!(helpers.registries(listed), ["r.example:5000", HUB]);
    }

    #[test]
    fn helper_replaces_the_file_and_its_failure_is_explained() {
        let mut found = Found {
            by_registry: read(&json!({"auths": {"https://r.example": {"username": "old", "password": "p"}}})),
            failures: Vec::new(),
        };
        let fresh = DockerCredentials {
            username: Some("new".to_owned()),
            ..DockerCredentials::default()
        };
        found.add("r.example", Ok(Some(fresh)));
        found.add("r.example", Ok(None));
        found.add("s.example", Err("`docker-credential-x` failed".to_owned()));
        assert_eq!(found.by_registry.len(), 1);
        assert_eq!(found.by_registry["r.example"].username.as_deref(), Some("new"));
        let explained = found.explain(ActionError::AuthRequired("denied".to_owned()));
        assert!(
            matches!(&explained, ActionError::AuthRequired(text) if text.ends_with("; `docker-credential-x` failed")),
            "{explained:?}"
        );
        let denied = |log: &str| ActionError::BuildFailed {
            message: "pull access denied".to_owned(),
            log: log.to_owned(),
            instruction: None,
        };
        for hidden in [denied("the log"), ActionError::ImageNotFound("x".to_owned())] {
            let explained = found.explain(hidden).to_string();
            assert!(explained.contains("`docker-credential-x` failed"), "{explained}");
        }
        let other = ActionError::Busy("busy".to_owned());
        assert_eq!(found.explain(other.clone()), other);
    }

    #[test]
    fn credentials_are_found_by_the_host_of_the_registry() {
        let all = read(&json!({"auths": {
            HUB: {"auth": "dXNlcjpwYTpzcw=="},
            "r.example:5000": {"username": "u", "password": "p"},
            "token.example": {"identitytoken": "t"},
            "helper.example": {}, "broken.example": {"auth": "!"},
        }}));
        assert_eq!(all.len(), 3);
        let hub = &all[HUB];
        assert_eq!(
            (hub.username.as_deref(), hub.password.as_deref()),
            (Some("user"), Some("pa:ss"))
        );
        assert_eq!(all["r.example:5000"].username.as_deref(), Some("u"));
        assert!(all["token.example"].username.is_none());
        for (reference, expected) in [
            ("busybox", "index.docker.io"),
            ("me/app:1", "index.docker.io"),
            ("docker.io/me/app", "index.docker.io"),
            ("r.example:5000/app", "r.example:5000"),
            ("localhost/app", "localhost"),
        ] {
            assert_eq!(host(registry(reference)), expected, "{reference}");
        }
        assert!(read(&Value::Null).is_empty());
    }
}
