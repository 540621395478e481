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

/// Listening TCP sockets and bound UDP sockets in the network namespace of the process that serves the engine's socket.
///
/// `None` when they are not visible: no such socket, or a peer outside this process namespace.
pub(super) fn find_listeners(socket: &Path) -> Option<Vec<Socket>> {
    listeners_of(&Process::new(engine_pid(socket)?).ok()?)
}

/// As [`find_listeners`], in the network namespace of this process.
pub(super) fn find_own_listeners() -> Option<Vec<Socket>> {
    listeners_of(&Process::myself().ok()?)
}

fn listeners_of(process: &Process) -> Option<Vec<Socket>> {
    let mut found: Vec<(SocketAddr, Protocol, u64)> = Vec::new();
    let tcp = process
        .tcp()
        .ok()?
        .into_iter()
        .chain(process.tcp6().unwrap_or_default());
    let listening = tcp.filter(|entry| entry.state == TcpState::Listen);
    found.extend(listening.map(|entry| (entry.local_address, Protocol::Tcp, entry.inode)));
    let udp = process
        .udp()
        .ok()?
        .into_iter()
        .chain(process.udp6().unwrap_or_default());
    let bound = udp.filter(|entry| entry.local_address.port() > 0);
    found.extend(bound.map(|entry| (entry.local_address, Protocol::Udp, entry.inode)));
    let holders = find_holders(&found.iter().map(|(_, _, inode)| *inode).collect());
    let socket = |(address, protocol, inode): (SocketAddr, Protocol, u64)| Socket {
        address: address.ip(),
        port: ProtocolPort {
            number: address.port(),
            protocol,
        },
        owner: holders.get(&inode).cloned().unwrap_or(SocketOwner::Hidden),
    };
    Some(found.into_iter().map(socket).collect())
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
