//! Selection of the engine: by name, by environment variable, by Docker context, or the default socket.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{BadEndpoint, Endpoint};

const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// Selects the endpoint in the order of the Docker CLI; `env` reads environment variables.
pub(super) fn find(
    named: Option<&str>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Endpoint, BadEndpoint> {
    if let Some(named) = named {
        return Endpoint::parse(named);
    }
    if let Some(host) = env("DOCKER_HOST") {
        if host.starts_with("tcp://") && env("DOCKER_TLS_VERIFY").is_some() {
            return Err(BadEndpoint::Tls(host));
        }
        return Endpoint::parse(&host);
    }
    let folder = config_folder(&env);
    let context = env("DOCKER_CONTEXT").or_else(|| current_context(folder.as_deref()?));
    match context {
        Some(name) if name != "default" => {
            let host = folder.and_then(|folder| context_host(&folder, &name));
            Endpoint::parse(&host.ok_or(BadEndpoint::NoContext(name))?)
        }
        _ => Endpoint::parse(DEFAULT_SOCKET),
    }
}

/// Docker's configuration folder: `DOCKER_CONFIG`, else `~/.docker`.
pub(crate) fn config_folder(env: &impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    env("DOCKER_CONFIG")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&env("HOME")?).join(".docker")))
}

fn current_context(folder: &Path) -> Option<String> {
    let config = read_json(&folder.join("config.json"))?;
    config
        .get("currentContext")?
        .as_str()
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

fn context_host(folder: &Path, name: &str) -> Option<String> {
    let entries = std::fs::read_dir(folder.join("contexts/meta")).ok()?;
    let metas = entries
        .flatten()
        .filter_map(|entry| read_json(&entry.path().join("meta.json")));
    let meta = metas
        .into_iter()
        .find(|meta| meta.get("Name").and_then(Value::as_str) == Some(name))?;
    meta.pointer("/Endpoints/docker/Host")?
        .as_str()
        .map(str::to_owned)
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        move |key| pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone())
    }

    fn host(named: Option<&str>, env: &[(&str, &str)]) -> String {
        find(named, with(env)).map_or_else(|bad| bad.to_string(), |endpoint| endpoint.to_string())
    }

    #[test]
    fn endpoints_are_selected_in_the_order_of_the_docker_cli() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        let env = [("DOCKER_CONFIG", home)];
        assert_eq!(host(None, &env), "unix:///var/run/docker.sock");

        let meta = dir.path().join("contexts/meta/abc");
        std::fs::create_dir_all(&meta).unwrap();
        let text = r#"{"Name":"lab","Endpoints":{"docker":{"Host":"tcp://lab:2375"}}}"#;
        std::fs::write(meta.join("meta.json"), text).unwrap();
        std::fs::write(dir.path().join("config.json"), r#"{"currentContext":"lab"}"#).unwrap();
        assert_eq!(host(None, &env), "tcp://lab:2375");
        assert_eq!(
            host(None, &[env[0], ("DOCKER_CONTEXT", "default")]),
            "unix:///var/run/docker.sock"
        );
        assert_eq!(
            host(None, &[env[0], ("DOCKER_CONTEXT", "gone")]),
            "docker context `gone` not found"
        );
        assert_eq!(
            host(None, &[env[0], ("DOCKER_HOST", "unix:///h.sock")]),
            "unix:///h.sock"
        );
        assert_eq!(
            host(Some("/n.sock"), &[("DOCKER_HOST", "unix:///h.sock")]),
            "unix:///n.sock"
        );
        let tls = [("DOCKER_HOST", "tcp://h:2376"), ("DOCKER_TLS_VERIFY", "1")];
        assert!(host(None, &tls).contains("needs TLS"));
    }
}
