//! Selection of the engine: by name, by environment variable, by Docker context, or the default socket.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{BadEndpoint, Endpoint};

const DEFAULT_SOCKET: &str = "/var/run/docker.sock";
/// Address of an engine without a name, if TLS is requested.
const DEFAULT_TLS_ADDRESS: &str = "localhost:2376";

/// Selects the endpoint in the order of the Docker CLI; `env` reads environment variables.
pub(super) fn find(
    named: Option<&str>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Endpoint, BadEndpoint> {
    let folder = config_folder(&env);
    if let Some(host) = named.map(str::to_owned).or_else(|| env("DOCKER_HOST")) {
        return match Endpoint::parse(&host)? {
            Endpoint::Tcp(address) if host.starts_with("tcp://") => with_tls(address, folder, &env),
            endpoint => Ok(endpoint),
        };
    }
    let context = env("DOCKER_CONTEXT").or_else(|| current_context(folder.as_deref()?));
    match context {
        Some(name) if name != "default" => {
            let found = folder.and_then(|folder| read_context(&folder, &name));
            found.unwrap_or(Err(BadEndpoint::NoContext(name)))
        }
        _ if env("DOCKER_TLS_VERIFY").or_else(|| env("DOCKER_TLS")).is_some() => {
            with_tls(DEFAULT_TLS_ADDRESS.to_owned(), folder, &env)
        }
        _ => Endpoint::parse(DEFAULT_SOCKET),
    }
}

/// Adds TLS to an address if the variables of the Docker CLI request it.
fn with_tls(
    address: String,
    folder: Option<PathBuf>,
    env: &impl Fn(&str) -> Option<String>,
) -> Result<Endpoint, BadEndpoint> {
    if env("DOCKER_TLS_VERIFY").is_some() {
        let certificates = env("DOCKER_CERT_PATH").map(PathBuf::from).or(folder);
        let certificates = certificates.ok_or_else(|| BadEndpoint::Tls(format!("tcp://{address}")))?;
        return Ok(Endpoint::Tls(address, certificates));
    }
    match env("DOCKER_TLS") {
        Some(_) => Err(BadEndpoint::Unverified(format!("tcp://{address}"))),
        None => Ok(Endpoint::Tcp(address)),
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

/// Endpoint of a context. `None` if the context does not exist or has no host.
fn read_context(folder: &Path, name: &str) -> Option<Result<Endpoint, BadEndpoint>> {
    let entries = std::fs::read_dir(folder.join("contexts/meta")).ok()?;
    let mut contexts = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name(), read_json(&entry.path().join("meta.json"))?)));
    let (id, meta) = contexts.find(|(_, meta)| meta.get("Name").and_then(Value::as_str) == Some(name))?;
    let endpoint = meta.pointer("/Endpoints/docker")?;
    let host = endpoint.get("Host")?.as_str()?;
    let certificates = folder.join("contexts/tls").join(id).join("docker");
    Some(match Endpoint::parse(host) {
        Ok(Endpoint::Tcp(_)) if endpoint.get("SkipTLSVerify") == Some(&Value::Bool(true)) => {
            Err(BadEndpoint::UnverifiedContext(name.to_owned()))
        }
        // Without the permission to read them, the certificates exist too.
        Ok(Endpoint::Tcp(address)) if !matches!(certificates.try_exists(), Ok(false)) => {
            Ok(Endpoint::Tls(address, certificates))
        }
        other => other,
    })
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
    }

    #[test]
    fn certificates_are_those_of_the_docker_cli() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        let tls = |folder: &str| Ok(Endpoint::Tls("h:2376".to_owned(), PathBuf::from(folder)));
        let verify = ("DOCKER_TLS_VERIFY", "1");
        let remote = [("DOCKER_HOST", "tcp://h:2376"), verify, ("DOCKER_CONFIG", home)];
        assert_eq!(find(None, with(&remote)), tls(home));
        let at = [remote[0], verify, ("DOCKER_CERT_PATH", "/certificates")];
        assert_eq!(find(None, with(&at)), tls("/certificates"));
        assert_eq!(find(Some("tcp://h:2376"), with(&at[1..])), tls("/certificates"));
        let local = [("DOCKER_HOST", "unix:///h.sock"), verify];
        assert_eq!(find(None, with(&local)), Endpoint::parse("/h.sock"));
        let plain = [("DOCKER_HOST", "http://h:2376"), verify];
        assert_eq!(find(None, with(&plain)), Ok(Endpoint::Tcp("h:2376".to_owned())));
        let default = Endpoint::Tls("localhost:2376".to_owned(), PathBuf::from(home));
        assert_eq!(find(None, with(&remote[1..])), Ok(default));
        // Without certificates or a verification, nothing is sent in plain text.
        let url = "tcp://h:2376".to_owned();
        assert_eq!(find(None, with(&remote[..2])), Err(BadEndpoint::Tls(url.clone())));
        assert_eq!(
            find(None, with(&[remote[0], ("DOCKER_TLS", "1")])),
            Err(BadEndpoint::Unverified(url))
        );

        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let context = |skips: bool| {
            let docker = format!(r#"{{"Host":"tcp://h:2376","SkipTLSVerify":{skips}}}"#);
            write(
                "contexts/meta/abc/meta.json",
                &format!(r#"{{"Name":"lab","Endpoints":{{"docker":{docker}}}}}"#),
            );
            find(None, with(&[("DOCKER_CONFIG", home), ("DOCKER_CONTEXT", "lab")]))
        };
        assert_eq!(context(false), Ok(Endpoint::Tcp("h:2376".to_owned())));
        write("contexts/tls/abc/docker/ca.pem", "");
        assert_eq!(context(false), tls(&format!("{home}/contexts/tls/abc/docker")));
        assert_eq!(
            context(true),
            Err(BadEndpoint::UnverifiedContext("lab".to_owned()))
        );
    }
}
