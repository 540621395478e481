//! Messages of Docker 20.10, 26.1 and 28, with their expected classification.

use super::*;

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn kind(error: &ActionError) -> String {
    match error {
        ActionError::PortTaken(refusal) => format!("PortTaken {}", refusal.port),
        ActionError::NameTaken { holder } => format!("NameTaken {}", holder.get(..6).unwrap_or(holder)),
        ActionError::RateLimited { retry_after, .. } => format!("RateLimited {retry_after:?}"),
        other => {
            let text = format!("{other:?}");
            text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
        }
    }
}

fn check(op: Op, status: u16, message: &str, expected: &str) {
    let message = message.replace("64hex", HEX);
    assert_eq!(
        kind(&classify_response(op, status, &message)),
        expected,
        "{op:?} {status} {message}"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn container_errors_are_classified() {
    use Op::*;
    let table = [
        (CreateContainer, 404, "No such image: nope:latest", "ImageMissing"),
        (
            CreateContainer,
            409,
            r#"Conflict. The container name "/N" is already in use by container "64hex". You have to remove (or rename) that container to be able to reuse that name."#,
            "NameTaken 012345",
        ),
        (
            CreateContainer,
            400,
            "Invalid container name (X), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed",
            "Rejected",
        ),
        (
            CreateContainer,
            400,
            r#"invalid mount config for type "bind": bind source path does not exist: /nope"#,
            "BadMount",
        ),
        (
            CreateContainer,
            400,
            "Minimum memory limit allowed is 6MB",
            "Rejected",
        ),
        (
            CreateContainer,
            400,
            r#"invalid port specification: "70000""#,
            "Rejected",
        ),
        (
            CreateContainer,
            500,
            "write /var/lib/docker/x/link: no space left on device",
            "DiskFull",
        ),
        (
            StartContainer,
            409,
            "cannot start a paused container, try unpause instead",
            "Busy",
        ),
        (
            StartContainer,
            409,
            "container is marked for removal and cannot be started",
            "Busy",
        ),
        (StartContainer, 404, "No such container: abc", "Gone"),
        (
            Logs,
            409,
            "can not get logs from container which is dead or marked for removal",
            "Gone",
        ),
        (StartContainer, 404, "network nonet not found", "NetworkGone"),
        (StartContainer, 404, "network 64hex not found", "NetworkGone"),
        (
            StartContainer,
            404,
            "failed to set up container networking: network argus-x not found",
            "NetworkGone",
        ),
        (
            StartContainer,
            500,
            r"failed to create endpoint c on network x: adding interface veth1 to bridge br-y failed: could not find bridge br-y: route ip+net: no such network interface",
            "StartFailed",
        ),
        (
            StartContainer,
            400,
            r#"failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "nope": executable file not found in $PATH: unknown"#,
            "EntrypointNotFound",
        ),
        (
            StartContainer,
            400,
            r#"failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/x": stat /x: no such file or directory: unknown"#,
            "EntrypointNotFound",
        ),
        (
            StartContainer,
            400,
            r#"failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/etc/passwd": permission denied: unknown"#,
            "EntrypointNotFound",
        ),
        (
            StartContainer,
            500,
            r#"failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error mounting "/a" to rootfs at "/b": mount /a:/b (via /proc/self/fd/6), flags: 0x5000: not a directory: unknown"#,
            "BadMount",
        ),
        (
            StartContainer,
            500,
            r#"connection error: desc = "transport: Error while dialing dial unix /run/containerd/containerd.sock: connect: connection refused": unavailable"#,
            "Engine",
        ),
        (
            StartContainer,
            500,
            "write /var/lib/docker/hash1: no space left on device",
            "DiskFull",
        ),
        (StartContainer, 503, "whatever", "Engine"),
        (StopContainer, 404, "No such container: abc", "Gone"),
        (
            RemoveContainer,
            409,
            "removal of container N is already in progress",
            "Busy",
        ),
        (
            RemoveContainer,
            409,
            "You cannot remove a running container 64hex. Stop the container before attempting removal or force remove",
            "Rejected",
        ),
        (
            RenameContainer,
            409,
            r#"Conflict. The container name "/N" is already in use by container "64hex". You have to"#,
            "NameTaken 012345",
        ),
        (UnpauseContainer, 500, "Container 64hex is not paused", "Unknown"),
        (Exec, 409, "Container 64hex is not running", "Rejected"),
        (
            Exec,
            409,
            "Container N is paused, unpause the container before exec",
            "Rejected",
        ),
        (Inspect, 404, "No such container: abc", "Gone"),
        (List, 404, "page not found", "Rejected"),
        (
            Info,
            400,
            "client version 1.10 is too old. Minimum supported API version is 1.12",
            "Rejected",
        ),
        (RemoveContainer, 500, "some unexpected text", "Unknown"),
    ];
    for (op, status, message, expected) in table {
        check(op, status, message, expected);
    }
}

#[test]
fn unavailable_resources_are_temporary() {
    let start = "failed to create task for container: failed to start shim: fork/exec /usr/bin/containerd-shim-runc-v2: \
                 resource temporarily unavailable: unknown";
    check(Op::StartContainer, 500, start, "Busy");
    let network = "failed to add the host pair interfaces: Resource temporarily unavailable";
    check(Op::CreateNetwork, 500, network, "Busy");
    check(Op::Pull, 500, start, "PullFailed");
}

#[test]
fn too_many_open_files_are_temporary() {
    let start = "OCI runtime create failed: unable to start container process: too many open files: unknown";
    check(Op::StartContainer, 500, start, "Busy");
    let create = "open /var/lib/docker/image/repositories.json: too many open files";
    check(Op::CreateContainer, 500, create, "Busy");
    check(Op::CreateNetwork, 500, "accept4: too many open files", "Busy");
    check(Op::Pull, 500, create, "PullFailed");
    check(Op::Build, 500, create, "BuildInterrupted");
}

#[test]
fn network_and_volume_errors_are_classified() {
    use Op::*;
    let table = [
        (
            CreateNetwork,
            409,
            "network with name X already exists",
            "NameTaken networ",
        ),
        (
            CreateNetwork,
            404,
            "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network",
            "PoolExhausted",
        ),
        (
            CreateNetwork,
            400,
            "all predefined address pools have been fully subnetted",
            "PoolExhausted",
        ),
        (
            CreateNetwork,
            500,
            "failed to update store for object type *libnetwork.network: write /x/local-kv.db: no space left on device",
            "DiskFull",
        ),
        (
            CreateNetwork,
            403,
            "Pool overlaps with other one on this address space",
            "Rejected",
        ),
        (
            RemoveNetwork,
            403,
            "error while removing network: network X id 64hex has active endpoints",
            "NetworkInUse",
        ),
        (
            RemoveNetwork,
            403,
            r#"error while removing network: network X has active endpoints (name:"c" id:"012")"#,
            "NetworkInUse",
        ),
        (RemoveNetwork, 404, "network X not found", "Gone"),
        (
            RemoveNetwork,
            403,
            "bridge is a pre-defined network and cannot be removed",
            "Rejected",
        ),
        (ConnectNetwork, 404, "network X not found", "NetworkGone"),
        (ConnectNetwork, 404, "No such container: X", "Gone"),
        (
            ConnectNetwork,
            403,
            "endpoint with name C already exists in network X",
            "Rejected",
        ),
        (
            DisconnectNetwork,
            500,
            "container 64hex is not connected to network X",
            "Unknown",
        ),
        (RemoveVolume, 409, "remove V: volume is in use - [64hex]", "Busy"),
        (RemoveVolume, 404, "get V: no such volume", "Gone"),
        (Inspect, 404, "network 64hex not found", "Gone"),
    ];
    for (op, status, message, expected) in table {
        check(op, status, message, expected);
    }
}

#[test]
fn refused_ports_are_found_in_the_message() {
    let driver = "driver failed programming external connectivity on endpoint N (64hex): ";
    let networking = "failed to set up container networking: ";
    let table = [
        (
            "Bind for 0.0.0.0:19000 failed: port is already allocated",
            "PortTaken 19000/tcp",
        ),
        (
            "Error starting userland proxy: listen tcp4 0.0.0.0:19001: bind: address already in use",
            "PortTaken 19001/tcp",
        ),
        (
            "listen tcp4 0.0.0.0:19001: bind: address already in use",
            "PortTaken 19001/tcp",
        ),
        (
            "Error starting userland proxy: listen udp4 127.0.0.1:53: bind: address already in use",
            "PortTaken 53/udp",
        ),
        (
            "Error starting userland proxy: listen tcp6 [::1]:8080: bind: address already in use",
            "PortTaken 8080/tcp",
        ),
        (
            "failed to bind host port 10.0.2.100:3000/tcp: address already in use",
            "PortTaken 3000/tcp",
        ),
        (
            "failed to bind host port for 127.0.0.1:8080:172.17.0.3:80/tcp: address already in use",
            "PortTaken 8080/tcp",
        ),
        (
            "failed to bind host port for 0.0.0.0:5353:172.17.0.3:53/udp: address already in use",
            "PortTaken 5353/udp",
        ),
        (
            "Error starting userland proxy: listen tcp4 10.9.9.9:80: bind: cannot assign requested address",
            "Rejected",
        ),
        (
            "(iptables failed: iptables --wait -t nat -A DOCKER: iptables: No chain/target/match by that name.\n (exit status 1))",
            "StartFailed",
        ),
    ];
    for (message, expected) in table {
        check(Op::StartContainer, 500, &format!("{driver}{message}"), expected);
        check(
            Op::StartContainer,
            500,
            &format!("{networking}{driver}{message}"),
            expected,
        );
    }
    check(
        Op::StartContainer,
        500,
        "cannot listen on the TCP port: listen tcp4 :8080: bind: address already in use",
        "PortTaken 8080/tcp",
    );
}

#[test]
fn registry_messages_are_classified() {
    let table = [
        (
            "manifest for x/y:z not found: manifest unknown: manifest unknown",
            "ImageNotFound",
        ),
        (
            "pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
            "ImageNotFound",
        ),
        (
            "Head \"https://r/v2/x/manifests/1\": unauthorized: authentication required",
            "AuthRequired",
        ),
        ("Get \"https://r/v2/\": no basic auth credentials", "AuthRequired"),
        ("denied: permission_denied", "AuthRequired"),
        (
            "toomanyrequests: You have reached your pull rate limit.",
            "RateLimited None",
        ),
        ("too many requests; retry-after: 30", "RateLimited Some(30s)"),
        (
            "no matching manifest for linux/arm64 in the manifest list entries",
            "ImageNotFound",
        ),
        ("write /var/lib/docker/tmp/x: no space left on device", "DiskFull"),
        (
            "Get \"https://registry-1.docker.io/v2/\": dial tcp: lookup registry-1.docker.io: no such host",
            "PullFailed",
        ),
    ];
    for (message, expected) in table {
        assert_eq!(kind(&classify_pull(message)), expected, "{message}");
        check(Op::Pull, 500, message, expected);
    }
}

#[test]
fn only_the_object_itself_counts_as_gone() {
    assert!(is_gone("No such container: x"));
    assert!(is_gone("network 64hex not found"));
    assert!(is_gone("get v: no such volume"));
    assert!(!is_gone("page not found"));
    assert!(!is_gone("No such image: x"));
}
