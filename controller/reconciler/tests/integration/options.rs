//! Options of a controller on an engine in memory.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use argus_core::delays::Delays;
use argus_core::desired::BreakerSettings;
use argus_core::desired::ceiling::Ceiling;
use argus_core::desired::namespace::NamespaceFrom;
use argus_core::lease::TTL;
use argus_core::retry::RetrySettings;
use argus_reconciler::clock::Clock;
use argus_reconciler::specs::build_context::OwnImageContext;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{Deadlines, Options};

/// Options with the folders `specs` and `state` of `dir`.
pub(crate) fn options(dir: &Path, clock: Clock) -> Options {
    Options {
        specs: dir.join("specs"),
        state: StateDir::at(dir.join("state")),
        strict: false,
        env_allow: Vec::new(),
        namespace_from: NamespaceFrom::File,
        process_env: BTreeMap::new(),
        allow_mounts: Vec::new(),
        allowed: None,
        allow_external: Vec::new(),
        git_writable: false,
        private_folders: Vec::new(),
        ceiling: Ceiling::default(),
        engine_socket: None,
        helpers: true,
        own_image: OwnImageContext {
            folder: "/nowhere/own-image".into(),
            write_context: None,
        },
        publish_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        translate: None,
        engine_host: None,
        deadlines: Deadlines::default(),
        engine_breaker: BreakerSettings::default(),
        retries: RetrySettings::default(),
        delays: Delays::default(),
        stop_grace: Duration::from_secs(2),
        journal_limit: 64 * 1024,
        lease_ttl: TTL,
        clock,
    }
}
