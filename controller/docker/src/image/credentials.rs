//! Registry credentials from Docker's configuration file. Credential helpers are not executed.

use std::collections::HashMap;
use std::path::PathBuf;

use argus_core::outcome::ActionError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bollard::auth::DockerCredentials;
use serde_json::Value;

use crate::connect::config_folder;

/// Key of Docker Hub in Docker's configuration file.
const HUB: &str = "https://index.docker.io/v1/";

/// Path of Docker's configuration file.
fn file() -> Option<PathBuf> {
    let env = |key: &str| std::env::var(key).ok().filter(|value| !value.is_empty());
    config_folder(&env).map(|folder| folder.join("config.json"))
}

/// Adds the file that Argus reads credentials from to the error of a missing login.
pub(super) fn with_file(error: ActionError) -> ActionError {
    match (error, file()) {
        (ActionError::AuthRequired(text), Some(file)) => {
            let file = file.display();
            ActionError::AuthRequired(format!("{text}; Argus reads credentials from `{file}`"))
        }
        (error, _) => error,
    }
}

/// All credentials by registry, in the format of the builder.
pub(super) fn all() -> HashMap<String, DockerCredentials> {
    let Some(path) = file() else {
        return HashMap::new();
    };
    let config = std::fs::read(path)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    read(&config.unwrap_or(Value::Null))
}

/// The credentials for an image's registry.
pub(super) fn for_image(reference: &str) -> Option<DockerCredentials> {
    let registry = registry(reference);
    all()
        .into_iter()
        .find(|(key, _)| host(key) == host(registry))
        .map(|(_, credentials)| credentials)
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
