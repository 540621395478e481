//! Facts that the controller observes around a failed run. They follow from the file and the output of a case, never from its expected edit.

use std::time::Duration;

use super::*;
use crate::desired::Image;
use crate::failed_run::host_view::HostView;
use crate::labels;
use crate::observed::Volume;
use crate::outcome::HostFile;
use crate::state::HealthyRun;

/// Platform of the engine.
const ENGINE: &str = "linux/amd64";
const CREATED: Timestamp = Timestamp(1_000);
const ACCEPTED: Timestamp = Timestamp(5_000);
const HEALTHY_BEFORE: Timestamp = Timestamp(15_000);
const STARTED: Timestamp = Timestamp(20_000);
/// Duration of a run that ends with an exit code.
const RAN: Duration = Duration::from_secs(3);

impl Scenario {
    /// Adds the times, limits, sockets and host files of the run, and the health of the siblings. Returns the volumes, which are older
    /// than the revision.
    pub(super) fn observe(&mut self) -> BTreeMap<String, Arc<Volume>> {
        let service = &self.accepted.desired.services["web"];
        let is_unhealthy = self.run.cause == FailureCause::Unhealthy;
        let patience = service
            .probe
            .as_ref()
            .map(|probe| probe.start_period + probe.interval * probe.retries);
        self.accepted.accepted_at = ACCEPTED;
        self.run.started_at = Some(STARTED);
        self.run.at = STARTED + patience.filter(|_| is_unhealthy).unwrap_or(RAN);
        self.run.memory_limit = service.memory;
        self.observe_health();
        self.observe_sockets();
        self.observe_host();
        let volume = |name: &crate::ident::ResourceName| {
            let name = name.as_str().to_owned();
            let labels = BTreeMap::from([(labels::CREATED_AT.to_owned(), CREATED.to_string())]);
            (name.clone(), Arc::new(Volume { name, labels }))
        };
        self.accepted.desired.volumes.iter().map(volume).collect()
    }

    /// A dependency is healthy before the service starts. Other siblings start together with it, so they are healthy after its end.
    fn observe_health(&mut self) {
        let services = &self.accepted.desired.services;
        let needs = &services["web"].depends_on;
        let probed = services.values().filter(|sibling| sibling.probe.is_some());
        for sibling in probed.filter(|sibling| sibling.name.as_str() != "web") {
            let mut waited = needs.iter().filter(|need| need.condition != Condition::Started);
            let is_before = waited.any(|need| need.service == sibling.name);
            let since = if is_before {
                HEALTHY_BEFORE
            } else {
                self.run.at + RAN
            };
            let healthy = HealthyRun {
                container: ContainerId::new("c2").unwrap(),
                started_at: None,
                since,
                probe: None,
            };
            self.history.service_mut(&sibling.name).healthy_run = Some(healthy);
        }
    }

    /// Nothing listens if a probe is refused and no socket is known. A server that reports plain requests speaks TLS. An actuator answers
    /// at the path that the output names.
    fn observe_sockets(&mut self) {
        let refused = self
            .run
            .probe_output
            .last()
            .is_some_and(|last| last.ends_with("connection refused"));
        let evidence = self.run.evidence.as_mut().unwrap();
        let lines = || evidence.stderr.iter().chain(&evidence.stdout);
        let speaks_tls = lines().any(|line| line.contains("HTTP request to an HTTPS server"));
        let base = lines().find_map(|line| line.split("beneath base path '").nth(1)?.split('\'').next());
        let actuator = base.map(|base| format!("{base}/health"));
        let is_wrong_format = lines().any(|line| crate::failed_run::is_wrong_format(line));
        let image = self.accepted.desired.services["web"].image.reference();
        if image.starts_with("arm64v8/") && is_wrong_format {
            evidence.wrong_platform = Some(format!("the image is for linux/arm64, the engine for {ENGINE}"));
        }
        evidence.speaks_tls = speaks_tls;
        evidence.healthy_paths = actuator.into_iter().collect();
        if refused && evidence.listening.is_none() {
            evidence.listening = Some(Vec::new());
        }
        if let Image::Built(build) = &self.accepted.desired.services["web"].image
            && let Some(platform) = build.options.platform.as_ref().filter(|_| is_wrong_format)
            && platform != ENGINE
        {
            evidence.wrong_platform = Some(format!("the image is for {platform}, the engine for {ENGINE}"));
        }
    }

    /// Files below the mounts that the output names: a source without an ending, other than a `Caddyfile`, is a folder of root, and a file
    /// exists unless a line reports that it does not, or that it cannot be made. Facts of scripts that cannot run are unknown.
    fn observe_host(&mut self) {
        let service = &self.accepted.desired.services["web"];
        let evidence = self.run.evidence.as_ref().unwrap();
        if crate::failed_run::kind(&self.run) == crate::failed_run::FailureKind::NotRunnable {
            return;
        }
        let lines: Vec<&String> = evidence.stderr.iter().chain(&evidence.stdout).collect();
        let is_absent = |path: &str| {
            let reports = ["No such file", "create directory", "mkdir"];
            let mut lines = lines.iter().filter(|line| line.contains(path));
            lines.any(|line| reports.iter().any(|part| line.contains(part)))
        };
        let facts = |path: &str| {
            // The engine makes a folder of a file that does not exist.
            let mut named = lines.iter().filter(|line| line.contains(path));
            let is_reported = named.any(|line| line.contains("is a directory"));
            let name = path.rsplit('/').next().unwrap_or_default();
            let is_file = name.contains('.') || name.ends_with("file");
            let is_folder =
                service.mounts.iter().any(|mount| mount.target() == path) && (is_reported || !is_file);
            let mode = match (is_folder, is_absent(path)) {
                (true, _) => Some(0o040_755),
                (false, true) => None,
                (false, false) => Some(0o100_644),
            };
            HostFile {
                mode,
                ..HostFile::default()
            }
        };
        let is_mounted = |path: &str| {
            let mut mounts = service.mounts.iter();
            mounts.any(|mount| crate::failed_run::host_view::is_below(path, mount.target()))
        };
        let named = HostView::of(&self.accepted, service).paths(evidence).into_iter();
        let named = named.map(|(path, _)| path).filter(|path| is_mounted(path));
        let found: BTreeMap<String, HostFile> = named.map(|path| (path.clone(), facts(&path))).collect();
        self.run.evidence.as_mut().unwrap().host_files = found;
    }
}
