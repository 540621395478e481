//! The sockets of the engine's network namespace, and the processes behind them, as the kernel shows them.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::net::UnixStream;
use std::path::Path;

use argus_core::ident::{HostPort, Protocol};
use procfs::net::TcpState;
use procfs::process::{FDTarget, Process, all_processes};

/// A command line may be long and hold what nobody should read.
const LONGEST_COMMAND: usize = 120;

/// Who has a socket open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SocketOwner {
    /// This process.
    Process {
        /// Its id.
        pid: u32,
        /// The beginning of its command line.
        command: String,
    },
    /// A process that may not be looked into from here.
    Hidden,
}

/// Ports that are listened on (TCP) or bound (UDP) in the network namespace of whoever serves the socket.
///
/// `None` when that cannot be seen: no such socket, or a peer outside our process namespace.
pub(super) fn taken(socket: &Path) -> Option<BTreeMap<HostPort, SocketOwner>> {
    let engine = Process::new(engine_pid(socket)?).ok()?;
    let mut inodes: BTreeMap<HostPort, u64> = BTreeMap::new();
    let tcp = engine
        .tcp()
        .ok()?
        .into_iter()
        .chain(engine.tcp6().unwrap_or_default());
    for entry in tcp.filter(|entry| entry.state == TcpState::Listen) {
        inodes.insert(
            HostPort {
                number: entry.local_address.port(),
                protocol: Protocol::Tcp,
            },
            entry.inode,
        );
    }
    let udp = engine
        .udp()
        .ok()?
        .into_iter()
        .chain(engine.udp6().unwrap_or_default());
    for entry in udp.filter(|entry| entry.local_address.port() > 0) {
        inodes.insert(
            HostPort {
                number: entry.local_address.port(),
                protocol: Protocol::Udp,
            },
            entry.inode,
        );
    }
    let holders = holders(&inodes);
    let held = |inode: u64| holders.get(&inode).cloned().unwrap_or(SocketOwner::Hidden);
    Some(
        inodes
            .into_iter()
            .map(|(port, inode)| (port, held(inode)))
            .collect(),
    )
}

/// The process that listens on the socket. With socket activation that is systemd, in the same network namespace.
fn engine_pid(socket: &Path) -> Option<i32> {
    let stream = UnixStream::connect(socket).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
    Some(peer.pid.as_raw_nonzero().get())
}

fn holders(inodes: &BTreeMap<HostPort, u64>) -> HashMap<u64, SocketOwner> {
    let wanted: std::collections::HashSet<u64> = inodes.values().copied().collect();
    let mut holders = HashMap::new();
    for process in all_processes().into_iter().flatten().flatten() {
        let Ok(descriptors) = process.fd() else { continue };
        for descriptor in descriptors.flatten() {
            if let FDTarget::Socket(inode) = descriptor.target
                && wanted.contains(&inode)
            {
                holders.entry(inode).or_insert_with(|| holder(&process));
            }
        }
    }
    holders
}

fn holder(process: &Process) -> SocketOwner {
    let Ok(pid) = u32::try_from(process.pid()) else {
        return SocketOwner::Hidden;
    };
    let command = process.cmdline().unwrap_or_default().join(" ");
    SocketOwner::Process {
        pid,
        command: command.chars().take(LONGEST_COMMAND).collect(),
    }
}
