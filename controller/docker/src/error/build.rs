//! Classification of a failed build: by its own step, by a login, by the network, else as a failure of the build.

use argus_core::outcome::ActionError;

/// Phrases of a builder for a step that ran and failed, whatever its output is.
const OWN_STEP: [&str; 3] = [
    "returned a non-zero code",
    "did not complete successfully",
    "executor failed running",
];
/// Phrases of a builder for an image that does not exist. Docker Hub also sends the first one for a missing login.
const NOT_FOUND: [&str; 3] = ["repository does not exist", "manifest unknown", "not found"];
/// Phrases of registries for missing or wrong credentials.
const LOGIN: [&str; 7] = [
    "unauthorized",
    "403 forbidden",
    "failed to authorize",
    "authentication required",
    "no basic auth",
    "pull access denied",
    "requested access to the resource is denied",
];
/// Phrases of registries, of the network, and of an engine whose image of an earlier step was removed by a prune. Such a cause can end
/// without a change.
const OUTSIDE: [&str; 24] = [
    "toomanyrequests",
    "too many requests",
    "rate limit",
    "500 internal server error",
    "502 bad gateway",
    "503 service unavailable",
    "504 gateway",
    "unexpected http status: 5",
    "i/o timeout",
    "timeout exceeded",
    "deadline exceeded",
    "tls handshake timeout",
    "x509: ",
    "connection refused",
    "connection reset",
    "broken pipe",
    "no such host",
    "temporary failure in name resolution",
    "server misbehaving",
    "is unreachable",
    "unexpected eof",
    "no such image: sha256:",
    "layer does not exist",
    "too many open files",
];

/// Classifies the message of a builder. The caller adds the log.
pub(super) fn classify(message: &str) -> ActionError {
    let text = message.to_ascii_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let message = message.trim().to_owned();
    if has(&OWN_STEP) || (has(&NOT_FOUND) && !has(&OUTSIDE)) {
        build_failed(message)
    } else if has(&OUTSIDE) {
        build_interrupted(super::with_authority(message))
    } else if has(&LOGIN) {
        ActionError::AuthRequired(message)
    } else {
        build_failed(message)
    }
}

/// Failure whose log and instruction the caller adds, if there are any.
pub(crate) fn build_failed(message: String) -> ActionError {
    ActionError::BuildFailed {
        message,
        log: String::new(),
        instruction: None,
    }
}

/// Interruption whose log the caller adds, if there is one.
pub(crate) fn build_interrupted(message: String) -> ActionError {
    ActionError::BuildInterrupted {
        message,
        log: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_failures_are_separated_by_their_cause() {
        let kind = |message: &str| match classify(message) {
            ActionError::BuildFailed { .. } => "own",
            ActionError::BuildInterrupted { .. } => "outside",
            ActionError::AuthRequired(_) => "login",
            other => panic!("{other:?}"),
        };
        for (message, expected) in [
            (
                "The command '/bin/sh -c curl x' returned a non-zero code: 7",
                "own",
            ),
            (
                "process \"/bin/sh -c curl h\" did not complete successfully: exit code: 7",
                "own",
            ),
            (
                "executor failed running [/bin/sh -c echo connection refused; false]: exit code: 1",
                "own",
            ),
            (
                "failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized",
                "login",
            ),
            (
                "failed to authorize: failed to fetch anonymous token: unexpected status: 403 Forbidden",
                "login",
            ),
            (
                "failed to authorize: failed to fetch oauth token: Post \"https://auth.h/token\": i/o timeout",
                "outside",
            ),
            (
                "COPY failed: file not found in build context: stat a: file does not exist",
                "own",
            ),
            ("dockerfile parse error line 2: unknown instruction: RUNN", "own"),
            (
                "pull access denied for mine, repository does not exist or may require 'docker login'",
                "own",
            ),
            (
                "manifest for host:5000/a:9 not found: manifest unknown: manifest unknown",
                "own",
            ),
            (
                "Get \"http://host:5000/v2/a/manifests/1\": no basic auth credentials",
                "login",
            ),
            ("unauthorized: authentication required", "login"),
            (
                "Head \"https://h/v2/a/manifests/1\": denied: requested access to the resource is denied",
                "login",
            ),
            (
                "toomanyrequests: You have reached your pull rate limit",
                "outside",
            ),
            (
                "Get \"https://h/v2/\": dial tcp: lookup h on 10.0.0.2:53: no such host",
                "outside",
            ),
            (
                "Get \"http://127.0.0.1:1/v2/\": dial tcp 127.0.0.1:1: connect: connection refused",
                "outside",
            ),
            (
                "Get \"https://h/v2/\": net/http: TLS handshake timeout",
                "outside",
            ),
            (
                "Head \"https://h:5000/v2/a/manifests/1\": x509: certificate signed by unknown authority",
                "outside",
            ),
            (
                "received unexpected HTTP status: 503 Service Unavailable",
                "outside",
            ),
            ("No such image: sha256:0a1b2c3d", "outside"),
            (
                "ADD failed: Get \"http://h/a.tar\": dial tcp 10.1.2.3:80: i/o timeout",
                "outside",
            ),
        ] {
            assert_eq!(kind(message), expected, "{message}");
        }
    }
}
