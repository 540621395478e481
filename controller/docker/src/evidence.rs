//! Collection of the evidence of a failed run: its last log lines, its memory peak, and the state of its port.

mod platform;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use argus_backend::LogQuery;
use argus_backend::run_log::{Deadline, RunLog, start_deadline, timeout_error};
use argus_core::failed_run::is_wrong_format;
use argus_core::ident::ContainerId;
use argus_core::outcome::{ActionError, Done, Evidence};
use argus_core::time::Timestamp;
use tokio::net::TcpStream;

use crate::Shared;
use crate::logs;
use crate::ownership;
use crate::service_sockets;

/// Deadline of a test connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Missing part of the evidence of a run whose memory was never sampled.
const NO_PEAK: &str =
    "memory peak: the run ended before the first sample, or the engine runs on another host";

/// The run whose evidence is collected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) id: &'a ContainerId,
    pub(crate) since: Option<Timestamp>,
    /// Time of its first lines.
    pub(crate) lines_since: Option<Timestamp>,
    /// Its end; `None` while its container runs.
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) port: Option<u16>,
    /// True if the probe sends HTTP requests.
    pub(crate) http: bool,
}

/// Collects the evidence that is available within the deadline; the evidence lists its missing parts.
///
/// # Errors
/// The container is gone, the engine is unreachable, or neither stream of the log could be read.
pub(crate) async fn collect(shared: &Shared, run: Run<'_>) -> Result<Done, ActionError> {
    let deadline = start_deadline();
    let log = RunLog {
        open: |query: LogQuery| logs::lines(shared, run.id, &query),
        since: run.lines_since,
        ended_at: run.ended_at,
        deadline: deadline.clone(),
    };
    let mut evidence = Evidence::default();
    let (read, diagnostics) = tokio::join!(
        Box::pin(log.add_to(&mut evidence)),
        run_until(deadline, Box::pin(diagnose_network(shared, run))),
    );
    read?;
    shared.peaks.sample_one(run.id);
    evidence.memory_peak = shared.peaks.peak_of(run.id, run.since);
    if evidence.memory_peak.is_none() && run.since.is_some() {
        evidence.missing.push(NO_PEAK.to_owned());
    }
    match diagnostics {
        Ok(found) => {
            evidence.network_diagnostics = found.results;
            evidence.listening = found.listening;
            evidence.healthy_paths = found.healthy_paths;
        }
        Err(why) => evidence.missing.push(format!("network: {why}")),
    }
    if evidence.stderr.last().is_some_and(|line| is_wrong_format(line)) {
        evidence.wrong_platform = platform::describe_difference(shared, run.id).await;
    }
    Ok(Done::Evidence(Box::new(evidence)))
}

async fn run_until<T>(
    deadline: Deadline,
    call: impl Future<Output = Result<T, ActionError>>,
) -> Result<T, ActionError> {
    tokio::select! {
        biased;
        result = call => result,
        () = deadline => Err(timeout_error()),
    }
}

/// State of the network of a container that still runs.
#[derive(Debug, Default)]
struct NetworkDiagnosis {
    results: BTreeMap<String, String>,
    listening: Option<Vec<SocketAddr>>,
    healthy_paths: Vec<String>,
}

/// Connects to the port of a container that still runs, lists its aliases by network, and the addresses on which it listens.
async fn diagnose_network(shared: &Shared, run: Run<'_>) -> Result<NetworkDiagnosis, ActionError> {
    let Some(port) = run.port else {
        return Ok(NetworkDiagnosis::default());
    };
    let (inspected, listening) = tokio::join!(
        ownership::inspect_container(shared, run.id.as_str()),
        Box::pin(service_sockets::find(shared, run.id)),
    );
    let inspected = inspected?.ok_or(ActionError::Gone)?;
    let mut found = BTreeMap::new();
    let mut healthy_paths = Vec::new();
    for (network, attachment) in &inspected.container.networks {
        found.insert(format!("aliases on {network}"), attachment.aliases.join(", "));
        let address = attachment
            .address
            .as_ref()
            .and_then(|text| text.split('/').next());
        let Some(address) = address.and_then(|text| text.parse::<IpAddr>().ok()) else {
            continue;
        };
        let address = SocketAddr::new(address, port);
        let result = match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(_)) => {
                if run.http && healthy_paths.is_empty() {
                    healthy_paths = service_sockets::find_healthy_paths(address).await;
                }
                "connected".to_owned()
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
        };
        found.insert(format!("tcp {address}"), result);
    }
    if inspected.container.networks.is_empty() {
        found.insert("network".to_owned(), "not attached to any network".to_owned());
    }
    if let Some(listening) = &listening {
        let addresses: Vec<String> = listening.iter().map(ToString::to_string).collect();
        let addresses = if addresses.is_empty() {
            "no TCP port".to_owned()
        } else {
            addresses.join(", ")
        };
        found.insert("listens on".to_owned(), addresses);
    }
    if !healthy_paths.is_empty() {
        found.insert("healthy paths".to_owned(), healthy_paths.join(", "));
    }
    Ok(NetworkDiagnosis {
        results: found,
        listening,
        healthy_paths,
    })
}
