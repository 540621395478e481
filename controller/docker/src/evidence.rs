//! Collection of the evidence of a failed run: its last log lines, its memory peak, and the state of its port.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use argus_backend::LogQuery;
use argus_backend::run_log::{Deadline, RunLog};
use argus_core::failed_run::is_wrong_format;
use argus_core::ident::ContainerId;
use argus_core::observed::Attachment;
use argus_core::outcome::{ActionError, Done, Evidence};
use argus_core::time::Timestamp;
use tokio::net::TcpStream;

use crate::Shared;
use crate::call;
use crate::error::Op;
use crate::logs;
use crate::ownership;
use crate::service_sockets;
use crate::tls_hello;

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
    /// True if its container still runs, because its health check failed.
    pub(crate) is_running: bool,
    pub(crate) port: Option<u16>,
    /// True if the probe sends HTTP requests.
    pub(crate) http: bool,
}

/// Collects the evidence that is available within the deadline; the evidence lists its missing parts.
///
/// # Errors
/// The container is gone, the engine is unreachable, or neither stream of the log could be read.
pub(crate) async fn collect(shared: &Shared, run: Run<'_>) -> Result<Done, ActionError> {
    let deadline = Deadline::start(shared.times.evidence);
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
    let peaks = shared.peaks.peaks_of(run.id, run.since);
    evidence.memory_peak = peaks.memory;
    evidence.pids_peak = peaks.pids;
    evidence.oom_kills = peaks.oom_kills;
    if evidence.memory_peak.is_none() && run.since.is_some() {
        evidence.missing.push(NO_PEAK.to_owned());
    }
    match diagnostics {
        Ok(found) => {
            evidence.network_diagnostics = found.results;
            evidence.listening = found.listening;
            evidence.healthy_paths = found.healthy_paths;
            evidence.speaks_tls = found.speaks_tls;
        }
        Err(why) => evidence.missing.push(format!("network: {why}")),
    }
    if evidence.stderr.last().is_some_and(|line| is_wrong_format(line)) {
        evidence.wrong_platform = describe_platforms(shared, run.id).await;
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
        why = deadline.passed() => Err(why),
    }
}

/// State of the network of a container that still runs.
#[derive(Debug, Default)]
struct NetworkDiagnosis {
    results: BTreeMap<String, String>,
    listening: Option<Vec<SocketAddr>>,
    healthy_paths: Vec<String>,
    speaks_tls: bool,
}

/// Connects to the port of a container that still runs, lists its aliases by network, and the addresses on which it listens.
async fn diagnose_network(shared: &Shared, run: Run<'_>) -> Result<NetworkDiagnosis, ActionError> {
    let Some(port) = run.port else {
        return Ok(diagnose_listeners(shared, run).await);
    };
    let (inspected, listening) = tokio::join!(
        ownership::inspect_container(shared, run.id.as_str()),
        Box::pin(service_sockets::find(shared, run.id)),
    );
    let inspected = inspected?.ok_or(ActionError::Gone)?;
    let mut found = BTreeMap::new();
    let mut healthy_paths = Vec::new();
    let mut speaks_tls = false;
    for (network, attachment) in &inspected.container.networks {
        found.insert(format!("aliases on {network}"), attachment.aliases.join(", "));
        let Some(address) = attachment.ip() else {
            continue;
        };
        let address = SocketAddr::new(address, port);
        let result = match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(_)) => {
                if run.http && healthy_paths.is_empty() {
                    (speaks_tls, healthy_paths) = tokio::join!(
                        tls_hello::is_answered(address),
                        Box::pin(service_sockets::find_healthy_paths(address)),
                    );
                }
                "connected".to_owned()
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
        };
        found.insert(format!("tcp {address}"), result);
    }
    let listeners = listening.as_deref().unwrap_or_default();
    let other = listeners.first().map(SocketAddr::port).filter(|first| {
        let is_only = listeners.iter().all(|address| address.port() == *first);
        is_only && run.http && *first != port
    });
    // The check requests another port than the only one with a listener.
    let address = inspected.container.networks.values().find_map(Attachment::ip);
    if let Some((address, other)) = address.zip(other) {
        let paths = Box::pin(service_sockets::find_healthy_paths(SocketAddr::new(
            address, other,
        )))
        .await;
        if !paths.is_empty() {
            found.insert(format!("healthy paths of port {other}"), paths.join(", "));
        }
    }
    if !inspected.container.has_network() {
        found.insert("network".to_owned(), "not attached to any network".to_owned());
    }
    if let Some(listening) = &listening {
        found.insert("listens on".to_owned(), format_listeners(listening));
    }
    if speaks_tls {
        found.insert("protocol".to_owned(), "TLS".to_owned());
    }
    if !healthy_paths.is_empty() {
        found.insert("healthy paths".to_owned(), healthy_paths.join(", "));
    }
    Ok(NetworkDiagnosis {
        results: found,
        listening,
        healthy_paths,
        speaks_tls,
    })
}

/// Lists the addresses on which a container listens that still runs, such as one with a failed command as health check. The check sends
/// nothing, because the protocol of its ports is unknown.
async fn diagnose_listeners(shared: &Shared, run: Run<'_>) -> NetworkDiagnosis {
    if !run.is_running {
        return NetworkDiagnosis::default();
    }
    let listening = Box::pin(service_sockets::find(shared, run.id)).await;
    let results = listening.iter();
    NetworkDiagnosis {
        results: results
            .map(|listening| ("listens on".to_owned(), format_listeners(listening)))
            .collect(),
        listening,
        ..NetworkDiagnosis::default()
    }
}

fn format_listeners(listening: &[SocketAddr]) -> String {
    if listening.is_empty() {
        return "no TCP port".to_owned();
    }
    let addresses: Vec<String> = listening.iter().map(ToString::to_string).collect();
    addresses.join(", ")
}

/// Describes the platforms of the container's image and of the engine; `None` if they are equal or unknown.
async fn describe_platforms(shared: &Shared, id: &ContainerId) -> Option<String> {
    let (image, engine) = platforms(shared, id).await.ok()??;
    (image != engine).then(|| format!("its image is built for `{image}`, but the engine runs `{engine}`"))
}

/// Platforms of the container's image and of the engine, such as `linux/arm64`.
async fn platforms(shared: &Shared, id: &ContainerId) -> Result<Option<(String, String)>, ActionError> {
    let client = shared.connection.client()?;
    let container = client.inspect_container(id.as_str(), None);
    let container = call::run(Op::Inspect, shared.times.read, container).await?;
    let image = container.image.unwrap_or_default();
    let image = call::run(Op::Inspect, shared.times.read, client.inspect_image(&image)).await?;
    let engine = call::run(Op::Info, shared.times.read, client.version()).await?;
    let platform =
        |os: Option<String>, architecture: Option<String>| Some(format!("{}/{}", os?, architecture?));
    Ok(platform(image.os, image.architecture).zip(platform(engine.os, engine.arch)))
}
