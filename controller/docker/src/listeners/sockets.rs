//! The sockets of the engine's network namespace and their processes, read from `/proc`.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;

use argus_core::ident::{Protocol, ProtocolPort};
use procfs::net::TcpState;
use procfs::process::{FDTarget, Process, all_processes};

/// Maximum shown length of a command line, which may be long and contain secrets.
const MAX_COMMAND_CHARS: usize = 120;

/// Owner of an open socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SocketOwner {
    /// A visible process.
    Process {
        pid: u32,
        /// Start of the command line.
        command: String,
    },
    /// A process that is not visible with the rights of this process.
    Hidden,
}

/// An open socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) address: IpAddr,
    pub(super) port: ProtocolPort,
    pub(super) owner: SocketOwner,
}

/// The open sockets of a network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sockets {
    /// Listening TCP sockets and bound UDP sockets.
    pub(super) listening: Vec<Socket>,
    /// Connected TCP sockets on ports without a listener, such as those of outgoing connections.
    pub(super) connected: Vec<Socket>,
}

/// Sockets in the network namespace of the process that serves the engine's socket.
///
/// `None` when they are not visible: no such socket, or a peer outside this process namespace.
pub(super) fn find(socket: &Path) -> Option<Sockets> {
    sockets_of(&Process::new(engine_pid(socket)?).ok()?)
}

/// As [`find`], in the network namespace of this process.
pub(super) fn find_own() -> Option<Sockets> {
    sockets_of(&Process::myself().ok()?)
}

/// Address, protocol and inode of a socket.
type Entry = (SocketAddr, Protocol, u64);

fn sockets_of(process: &Process) -> Option<Sockets> {
    let tcp = process
        .tcp()
        .ok()?
        .into_iter()
        .chain(process.tcp6().unwrap_or_default());
    let entries = tcp.map(|entry| (entry.state, (entry.local_address, Protocol::Tcp, entry.inode)));
    let (mut found, connected) = split_by_state(entries);
    let udp = process
        .udp()
        .ok()?
        .into_iter()
        .chain(process.udp6().unwrap_or_default());
    let bound = udp.filter(|entry| entry.local_address.port() > 0);
    found.extend(bound.map(|entry| (entry.local_address, Protocol::Udp, entry.inode)));
    let all = found.iter().chain(&connected);
    let holders = find_holders(&all.map(|(_, _, inode)| *inode).collect());
    let socket = |(address, protocol, inode): (SocketAddr, Protocol, u64)| Socket {
        address: address.ip(),
        port: ProtocolPort::new(address.port(), protocol),
        owner: holders.get(&inode).cloned().unwrap_or(SocketOwner::Hidden),
    };
    Some(Sockets {
        listening: found.into_iter().map(socket).collect(),
        connected: connected.into_iter().map(socket).collect(),
    })
}

/// Splits TCP sockets into listening ones and connected ones. The connections of a listener belong to its port.
fn split_by_state(entries: impl Iterator<Item = (TcpState, Entry)>) -> (Vec<Entry>, Vec<Entry>) {
    let (mut listening, mut connected) = (Vec::new(), Vec::new());
    for (state, entry) in entries {
        match state {
            TcpState::Listen => listening.push(entry),
            TcpState::Established | TcpState::SynSent => connected.push(entry),
            // The rest of a closed connection prevents no listener that permits it, and that of the engine does.
            _ => {}
        }
    }
    let ports: HashSet<u16> = listening.iter().map(|(address, ..)| address.port()).collect();
    connected.retain(|(address, ..)| !ports.contains(&address.port()));
    (listening, connected)
}

/// The process that listens on the socket. With socket activation it is systemd, in the same network namespace.
fn engine_pid(socket: &Path) -> Option<i32> {
    let stream = UnixStream::connect(socket).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
    Some(peer.pid.as_raw_nonzero().get())
}

fn find_holders(wanted: &HashSet<u64>) -> HashMap<u64, SocketOwner> {
    let mut holders = HashMap::new();
    for process in all_processes().into_iter().flatten().flatten() {
        let Ok(descriptors) = process.fd() else { continue };
        for descriptor in descriptors.flatten() {
            if let FDTarget::Socket(inode) = descriptor.target
                && wanted.contains(&inode)
            {
                holders.entry(inode).or_insert_with(|| describe_process(&process));
            }
        }
    }
    holders
}

fn describe_process(process: &Process) -> SocketOwner {
    let Ok(pid) = u32::try_from(process.pid()) else {
        return SocketOwner::Hidden;
    };
    let command = process.cmdline().unwrap_or_default().join(" ");
    SocketOwner::Process {
        pid,
        command: command.chars().take(MAX_COMMAND_CHARS).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_a_listener_are_its_own() {
        let entry = |port: u16, inode| (SocketAddr::from(([127, 0, 0, 1], port)), Protocol::Tcp, inode);
        let (listening, connected) = split_by_state(
            [
                (TcpState::Established, entry(80, 1)),
                (TcpState::Listen, entry(80, 2)),
                (TcpState::Established, entry(40_123, 3)),
                (TcpState::TimeWait, entry(40_124, 0)),
            ]
            .into_iter(),
        );
        assert_eq!(
            (listening, connected),
            (vec![entry(80, 2)], vec![entry(40_123, 3)])
        );
    }

    #[test]
    fn own_outgoing_connection_is_found_with_its_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let port = client.local_addr().unwrap().port();
        let sockets = find_own().unwrap();
        let found = sockets.connected.iter().find(|socket| socket.port.number == port);
        let owner = &found.unwrap().owner;
        let pid = std::process::id();
        assert!(
            matches!(owner, SocketOwner::Process { pid: of, .. } if *of == pid),
            "{owner:?}"
        );
    }
}
