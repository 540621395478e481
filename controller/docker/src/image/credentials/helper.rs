//! Credential helpers: programs that keep passwords outside Docker's configuration file.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bollard::auth::DockerCredentials;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// Maximum duration of a call. A helper that asks a person does not answer sooner.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of an answer.
const MAX_ANSWER: u64 = 1 << 20;
/// Answer of a helper that has no credentials for a registry.
const NOT_FOUND: &str = "credentials not found in native keychain";
/// User name with which a helper marks an identity token.
const TOKEN: &str = "<token>";

/// The helper with a name, as `credsStore` and `credHelpers` contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Helper {
    program: String,
}

impl Helper {
    pub(super) fn new(name: &str) -> Self {
        Self {
            program: format!("docker-credential-{name}"),
        }
    }

    #[cfg(test)]
    pub(super) fn program(&self) -> &str {
        &self.program
    }

    /// Returns the credentials for a registry; `None` if the helper has none.
    pub(super) async fn get(&self, registry: &str) -> Result<Option<DockerCredentials>, String> {
        let (status, answer) = self.call("get", registry).await?;
        if !status.success() && answer.trim() == NOT_FOUND {
            return Ok(None);
        }
        let answer = self.parse(status, &answer)?;
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        let (username, secret) = (text("Username"), text("Secret"));
        if username.is_empty() && secret.is_empty() {
            return Ok(None);
        }
        let serveraddress = Some(registry.to_owned());
        Ok(Some(if username == TOKEN {
            DockerCredentials {
                identitytoken: Some(secret),
                serveraddress,
                ..DockerCredentials::default()
            }
        } else {
            DockerCredentials {
                username: Some(username),
                password: Some(secret),
                serveraddress,
                ..DockerCredentials::default()
            }
        }))
    }

    /// Returns the registries that the helper has credentials for.
    pub(super) async fn list(&self) -> Result<Vec<String>, String> {
        let (status, answer) = self.call("list", "").await?;
        match self.parse(status, &answer)? {
            Value::Object(users) => Ok(users.into_iter().map(|(registry, _)| registry).collect()),
            _ => Err(self.unreadable()),
        }
    }

    /// The answer may contain a secret, so no failure quotes it.
    fn parse(&self, status: ExitStatus, answer: &str) -> Result<Value, String> {
        if !status.success() {
            return Err(format!("`{}` failed with {status}", self.program));
        }
        serde_json::from_str(answer).map_err(|_| self.unreadable())
    }

    fn unreadable(&self) -> String {
        format!("`{}` did not print the expected JSON", self.program)
    }

    async fn call(&self, verb: &str, input: &str) -> Result<(ExitStatus, String), String> {
        let mut command = Command::new(&self.program);
        command
            .arg(verb)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start `{}`: {error}", self.program))?;
        let exchange = async {
            if let Some(mut stdin) = child.stdin.take() {
                // A helper may end without reading its input.
                drop(stdin.write_all(input.as_bytes()).await);
            }
            let mut answer = Vec::new();
            if let Some(stdout) = child.stdout.take() {
                stdout.take(MAX_ANSWER).read_to_end(&mut answer).await?;
            }
            std::io::Result::Ok((child.wait().await?, String::from_utf8_lossy(&answer).into_owned()))
        };
        match tokio::time::timeout(TIMEOUT, exchange).await {
            Ok(ended) => {
                ended.map_err(|error| format!("cannot read the answer of `{}`: {error}", self.program))
            }
            Err(_) => Err(format!(
                "`{}` did not end within {} s",
                self.program,
                TIMEOUT.as_secs()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a helper whose program is this shell script.
    async fn get(script: &str) -> Result<Option<DockerCredentials>, String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("docker-credential-test");
        // Another process writes the program: a file that a thread of this process has open for writing cannot be executed.
        let written = std::process::Command::new("sh")
            .args([
                "-c",
                r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod 755 "$2""#,
                "sh",
                script,
            ])
            .arg(&program)
            .status();
        assert!(written.unwrap().success());
        let helper = Helper {
            program: program.display().to_string(),
        };
        let folder = format!("{}/", folder.path().display());
        let answer = helper.get("r.example").await;
        answer.map_err(|failure| failure.replace(&folder, ""))
    }

    #[tokio::test]
    async fn answers_of_a_helper_become_credentials() {
        let script = r#"read -r server; echo "{\"Username\":\"$1\",\"Secret\":\"for $server\"}""#;
        let found = get(script).await.unwrap().unwrap();
        assert_eq!(
            (found.username.as_deref(), found.password.as_deref()),
            (Some("get"), Some("for r.example"))
        );
        let token = r#"echo '{"Username":"<token>","Secret":"t"}'"#;
        let found = get(token).await.unwrap().unwrap();
        assert_eq!(
            (found.username, found.identitytoken.as_deref()),
            (None, Some("t"))
        );
        let nothing = "echo 'credentials not found in native keychain'; exit 1";
        assert_eq!(get(nothing).await, Ok(None));
    }

    #[tokio::test]
    async fn failure_of_a_helper_quotes_no_secret() {
        for (script, failure) in [
            (
                "echo hunter2; exit 3",
                "`docker-credential-test` failed with exit status: 3",
            ),
            (
                "echo hunter2",
                "`docker-credential-test` did not print the expected JSON",
            ),
        ] {
            assert_eq!(get(script).await, Err(failure.to_owned()));
        }
        let missing = Helper::new("missing").get("r.example").await.unwrap_err();
        assert!(
            missing.starts_with("cannot start `docker-credential-missing`: "),
            "{missing}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_helper_is_given_up() {
        let failure = get("exec sleep 600").await.unwrap_err();
        assert_eq!(failure, "`docker-credential-test` did not end within 10 s");
    }
}
