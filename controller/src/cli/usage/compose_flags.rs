//! Flags of `docker compose` that Argus does not have.

/// Text for `docker exec`.
const DOCKER_EXEC: &str = "its counterpart is `docker exec` with this flag, such as `docker exec ENV-web sh`";
/// Text for the time of a stop.
const STOP_TIME: &str = "its counterpart is `stop_grace_period` in the file";
/// Text for the services of a file.
const PARTS: &str = "`argus config` prints the whole file";

/// Text for a command in a container of its own, which `docker compose run` starts.
pub(in crate::cli) const ONE_OFF: &str = "`argus run` starts a controller; for a command, use `argus exec SERVICE -- COMMAND` in the \
running container, or `docker run --rm --network argusai-ENV-network IMAGE COMMAND`";

/// Commands with their flags, and the text about their counterpart; empty without one.
const FLAGS: [(&str, &str, &str); 40] = [
    (
        "up",
        "--scale",
        "its counterpart is `scale` of the service in the file",
    ),
    (
        "up",
        "--wait",
        "`argus up --detach` waits until all services are ready",
    ),
    ("up", "--wait-timeout", "its counterpart is `--timeout`"),
    (
        "up",
        "--abort-on-container-exit",
        "its counterpart is `argus up -- COMMAND`",
    ),
    (
        "up",
        "--exit-code-from",
        "its counterpart is `argus up -- COMMAND`",
    ),
    (
        "up",
        "--attach --no-attach --no-log-prefix",
        "`argus logs --follow` prints the logs",
    ),
    (
        "up",
        "--pull",
        "its counterpart is `pull_policy` of the service in the file",
    ),
    (
        "up",
        "--watch -w",
        "`argus up` always follows changes of the build context",
    ),
    (
        "up",
        "--remove-orphans",
        "Argus always removes services that the file no longer has",
    ),
    (
        "up",
        "--renew-anon-volumes",
        "its counterpart is `argus down ENV --volumes` before `argus up`",
    ),
    ("up", "-t", STOP_TIME),
    (
        "up",
        "--no-deps --no-build --no-recreate --no-start --always-recreate-deps",
        "",
    ),
    ("down", "-v", "its counterpart is `--volumes`"),
    ("down", "-t", STOP_TIME),
    (
        "down",
        "--remove-orphans",
        "`argus down` always removes all containers of the environment",
    ),
    ("down", "--rmi", "its counterpart is `docker image rm`"),
    ("stop", "-t", STOP_TIME),
    ("restart", "-t", STOP_TIME),
    ("restart", "--no-deps", ""),
    (
        "run",
        "--rm -e --env -v --volume -u --user -w --workdir --entrypoint --no-deps --service-ports --name -i -t -it -T -d --detach --build",
        ONE_OFF,
    ),
    ("ps", "-a --all", "`argus ps` always lists all services"),
    ("ps", "--format", "its counterpart is `argus get ENV -o json`"),
    ("ps", "--services", "its counterpart is `argus get ENV`"),
    ("ps", "-q --quiet", "its counterpart is `docker ps --quiet`"),
    ("ps", "--filter --status --no-trunc --orphans", ""),
    ("logs", "-n", "its counterpart is `--tail`"),
    ("logs", "-t", "its counterpart is `--timestamps`"),
    ("logs", "--no-color", "its counterpart is `--color never`"),
    ("logs", "--no-log-prefix --index", ""),
    (
        "exec",
        "-T --no-tty",
        "`argus exec` allocates a terminal only if stdin and stdout are one",
    ),
    (
        "exec",
        "-d --detach -e --env -u --user -w --workdir --privileged",
        DOCKER_EXEC,
    ),
    (
        "exec",
        "--index",
        "replicas have their own names, such as `web-2`",
    ),
    (
        "build",
        "--no-cache",
        "its counterpart is `docker builder prune` before `argus build`",
    ),
    (
        "build",
        "--build-arg",
        "its counterpart is `build.args` of the service in the file",
    ),
    (
        "build",
        "--ssh",
        "its counterpart is `build.ssh` of the service in the file",
    ),
    ("build", "--push", "its counterpart is `docker push IMAGE`"),
    (
        "build",
        "--pull --progress -q --quiet -m --memory --with-dependencies",
        "",
    ),
    ("config", "-q --quiet", "its counterpart is `argus validate`"),
    (
        "config",
        "--services --images --volumes --networks --profiles --hash",
        PARTS,
    ),
    (
        "config",
        "--format --no-interpolate --no-normalize --resolve-image-digests",
        "",
    ),
];

/// Returns the text about a flag of a command such as `argus up`; `None` for a flag that is not of `docker compose`.
pub(super) fn describe(path: &str, flag: &str) -> Option<String> {
    let (_, command) = path.split_once(' ')?;
    let is_meant = |names: &str| names.split(' ').any(|name| name == flag);
    let (.., text) = FLAGS
        .iter()
        .find(|(of, names, _)| *of == command && is_meant(names))?;
    Some(match *text {
        "" => format!(", and no counterpart of `docker compose {command} {flag}`"),
        text => format!("; {text}"),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn flags_are_those_that_argus_does_not_have() {
        for (command, names, _) in FLAGS {
            let cli = Cli::command();
            let found = cli.find_subcommand(command).expect(command);
            for name in names.split(' ') {
                let bare = name.trim_start_matches('-');
                let is_known = found.get_arguments().any(|argument| {
                    let short = argument.get_short().filter(|_| !name.starts_with("--"));
                    argument.get_long() == Some(bare) || short.is_some_and(|short| bare == short.to_string())
                });
                assert!(!is_known, "{command} {name}");
            }
        }
        assert_eq!(
            describe("argus up", "--scale").unwrap(),
            format!("; {}", FLAGS[0].2)
        );
        let none = ", and no counterpart of `docker compose up --no-deps`";
        assert_eq!(describe("argus up", "--no-deps").as_deref(), Some(none));
        assert_eq!(describe("argus up", "--nonsense"), None);
        assert_eq!(describe("argus", "--scale"), None);
    }
}
