//! Player of a world's script: it feeds a planner line by line. `tests/golden/README.md` defines the vocabulary.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::Action;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::{Accepted, Desired};
use argus_core::ident::PortMap;
use argus_core::ident::{ContainerId, EnvName, NetworkId, ServiceName};
use argus_core::lease::ControllerLeases;
use argus_core::observed::{MemoryUse, Network, Object, ObjectId, Store, Volume, WatchEvent};
use argus_core::outcome::Done;
use argus_core::plan::ControllerIdentity;
use argus_core::plan::{Plan, port};
use argus_core::preflight::{DiskFact, Fact, HostFacts, PreflightSnapshot};
use argus_core::probe::{HealthStates, ProbeStatus, ProbedHealth};
use argus_core::reconcile::{Inputs, Planner, ReconcileResult};
use argus_core::state::PlannerState;
use argus_core::status::plan_text;
use argus_core::time::Timestamp;
use argus_core::user_requests::{Hold, TestLease, UserRequests};

use crate::case::Case;
use crate::error;
use crate::objects::{self, Options};

pub(crate) type Played = Result<(), String>;

/// Start time of every case: 2027-01-15T08:00:00Z.
const BEGIN: Timestamp = Timestamp(1_800_000_000_000);

/// `now` moved by `-3s`, `+5s`, `500ms`.
pub(crate) fn moment(now: Timestamp, text: &str) -> Timestamp {
    let (back, span) = match text.strip_prefix('-') {
        Some(span) => (true, span),
        None => (false, text.trim_start_matches('+')),
    };
    let number = |end| {
        span.strip_suffix(end)
            .and_then(|digits: &str| digits.parse::<u64>().ok())
    };
    let span = number("ms")
        .map(Duration::from_millis)
        .or_else(|| number("s").map(Duration::from_secs))
        .unwrap_or_else(|| panic!("`{text}` is not a duration"));
    if back { now - span } else { now + span }
}

/// Preflight facts about a disk with this much free space.
fn disk(gigabytes: &str, at: Timestamp) -> Result<PreflightSnapshot, String> {
    let free = gigabytes
        .parse::<u64>()
        .map_err(|why| why.to_string())?
        .saturating_mul(1_000_000_000);
    let disk = DiskFact {
        path: "/var/lib/docker".to_owned(),
        free,
        total: 100_000_000_000,
        free_inodes: None,
        reclaimable: None,
    };
    let host = HostFacts {
        disk: Fact::Known(disk),
        ..HostFacts::default()
    };
    Ok(PreflightSnapshot {
        at: Some(at),
        host,
        ..PreflightSnapshot::default()
    })
}

pub(crate) struct GoldenFixture {
    /// All specs by environment, active or not.
    pub(crate) written: BTreeMap<EnvName, Desired>,
    first: EnvName,
    specs: BTreeMap<EnvName, Arc<Accepted>>,
    store: Store,
    pub(crate) memory: PlannerState,
    pub(crate) planner: Option<Planner>,
    health: HealthStates,
    requests: UserRequests,
    preflight: Option<PreflightSnapshot>,
    pub(crate) site: ControllerIdentity,
    scanned: bool,
    shows_variables: bool,
    pub(crate) now: Timestamp,
}

impl GoldenFixture {
    /// Plays a case to its end. Returns the decisions as text.
    pub(crate) fn play(case: &Case) -> Result<String, String> {
        let mut fixture = Self::of(&case.specs)?;
        if !case.store.iter().any(|line| line == "never listed") {
            fixture.list();
        }
        for line in &case.store {
            fixture.line(line).map_err(|why| format!("`{line}`: {why}"))?;
        }
        let turn = fixture.turn();
        let mut out = String::new();
        for (env, plan) in turn.plans.iter() {
            if turn.plans.len() > 1 {
                out.extend([env.as_str(), ":\n"]);
            }
            out.push_str(&plan_text::text(plan));
            if fixture.shows_variables {
                out.push_str(&variables(plan));
            }
        }
        if turn.relist {
            out.push_str("asks for a full list\n");
        }
        if turn.plans.is_empty() {
            out.push_str("nothing is desired or seen\n");
        }
        Ok(masked(&out))
    }

    fn of(specs: &[String]) -> Result<Self, String> {
        let place = SpecContext {
            directory: "/specs/shop".to_owned(),
            now: BEGIN,
            uuid: "6f2c1c7e-0000-4000-8000-000000000001".to_owned(),
            ..SpecContext::default()
        };
        let (mut written, mut accepted, mut first) = (BTreeMap::new(), BTreeMap::new(), None);
        for text in specs {
            let reading = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
            let spec = reading
                .spec
                .ok_or_else(|| format!("{:#?}", reading.diagnostics))?;
            let admission = admit(&spec, &place);
            if !reading.diagnostics.is_empty() || !admission.diagnostics.is_empty() {
                return Err(format!("{:#?}{:#?}", reading.diagnostics, admission.diagnostics));
            }
            let desired = admission
                .desired
                .ok_or_else(|| format!("{:#?}", admission.diagnostics))?;
            first.get_or_insert_with(|| desired.env.clone());
            written.insert(desired.env.clone(), desired.clone());
            let file = Accepted {
                spec_path: "/specs/shop/e2e.yaml".to_owned(),
                lines: argus_core::desired::key_lines::KeyLines::default(),
                accepted_at: moment(BEGIN, "-60s"),
                has_pending_edit: false,
                allowed: false,
                is_ending: false,
                file_hash: None,
                mounted_files: std::collections::BTreeMap::new(),
                desired,
            };
            accepted.insert(file.desired.env.clone(), Arc::new(file));
        }
        Ok(Self {
            written,
            first: first.ok_or("no spec")?,
            specs: accepted,
            store: Store::default(),
            memory: PlannerState::default(),
            planner: None,
            health: HealthStates::new(),
            requests: UserRequests::default(),
            preflight: None,
            site: ControllerIdentity {
                controller: "argus-1".to_owned(),
                run: "run-1".to_owned(),
                publish_address: [127, 0, 0, 1].into(),
            },
            scanned: true,
            shows_variables: false,
            now: BEGIN,
        })
    }

    fn line(&mut self, line: &str) -> Played {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["never", "listed"] => {}
            ["never", "scanned"] => self.scanned = false,
            ["show", "environment"] => self.shows_variables = true,
            ["waits", waits @ ..] => self.set_waits(waits)?,
            ["reachable"] => self.store.apply(WatchEvent::Connected(self.now)),
            ["listed"] => self.list(),
            ["lost", why @ ..] => self
                .store
                .apply(WatchEvent::Disconnected(self.now, why.join(" "))),
            ["outage", from, until] => {
                self.store
                    .apply(WatchEvent::Disconnected(moment(self.now, from), String::new()));
                self.store.apply(WatchEvent::Connected(moment(self.now, until)));
            }
            ["now", span] => self.now = moment(self.now, span),
            ["removed", env] => drop(self.specs.remove(&env_of(env)?)),
            ["accepted", span] => {
                let at = moment(self.now, span);
                self.edit(|accepted| accepted.accepted_at = at);
            }
            ["disputed"] => self.edit(|accepted| accepted.has_pending_edit = true),
            ["container", id, service, state, rest @ ..] => {
                self.container(id, service, state, &Options(rest.to_vec()))?;
            }
            ["network", id, rest @ ..] => self.network(id, &Options(rest.to_vec()))?,
            ["volume", name, rest @ ..] => self.volume(name, &Options(rest.to_vec()))?,
            ["gone", id] => {
                let id = ContainerId::new(*id).map_err(|why| why.to_string())?;
                self.store.apply(WatchEvent::Delete(ObjectId::Container(id)));
            }
            ["retagged", id] => {
                let id = ContainerId::new(*id).map_err(|why| why.to_string())?;
                self.store.apply(WatchEvent::ImageRetagged(id));
            }
            ["memory", id, percent] => {
                let id = ContainerId::new(*id).map_err(|why| why.to_string())?;
                let high = percent.parse().ok().map(|used| MemoryUse {
                    used,
                    limit: 100,
                    at: self.now,
                });
                self.store.apply(WatchEvent::MemoryHigh(id, high));
            }
            ["disk", gigabytes, at] => self.preflight = Some(disk(gigabytes, moment(self.now, at))?),
            ["probe", id, word] => self.probe(id, word)?,
            ["dead", id] => self.dead(id)?,
            ["hold", target, rest @ ..] => self.hold(target, rest)?,
            ["test", env, case, span] => {
                let until = moment(self.now, span);
                self.requests.begin(TestLease {
                    environment: env_of(env)?,
                    case: (*case).to_owned(),
                    since: self.now,
                    until,
                    holder: None,
                    purpose: None,
                    unverified: None,
                });
            }
            ["turn"] => drop(self.turn()),
            ["done", rest @ .., "as", id] => self.finish(&rest.join(" "), Ok(id))?,
            ["done", rest @ ..] => self.finish(&rest.join(" "), Ok(""))?,
            ["fail", rest @ ..] => {
                let (subject, error) = rest
                    .iter()
                    .position(|word| *word == "with")
                    .map(|at| (rest[..at].join(" "), &rest[at + 1..]))
                    .ok_or("fail SUBJECT with ERROR")?;
                let error = error::read(error)?;
                self.finish(&subject, Err(error))?;
            }
            ["retry", env] => {
                let env = env_of(env)?;
                self.turn();
                self.planner.as_mut().ok_or("no planner")?.retry(&env, None);
            }
            ["remember", rest @ ..] => self.remember(rest)?,
            _ => return Err("is not a line of a world".to_owned()),
        }
        Ok(())
    }

    /// Replaces the waits of the controller, before the first object.
    fn set_waits(&mut self, waits: &[&str]) -> Played {
        for wait in waits {
            let (key, span) = wait.split_once('=').ok_or("KEY=SPAN")?;
            let span = moment(BEGIN, span).since(BEGIN);
            match key {
                "externalStop" => self.memory.delays.external_stop = span,
                "outageMargin" => self.memory.delays.outage_margin = span,
                _ => return Err(format!("`{key}` is not a wait")),
            }
        }
        self.store = Store::new(self.memory.delays);
        self.list();
        Ok(())
    }

    /// Applies a full list of all objects.
    fn list(&mut self) {
        let mut seen = Vec::new();
        for observed in self.store.environments().values() {
            seen.extend(observed.containers.values().cloned().map(Object::Container));
            seen.extend(observed.networks.values().cloned().map(Object::Network));
            seen.extend(observed.volumes.values().cloned().map(Object::Volume));
        }
        self.store.apply(WatchEvent::Connected(self.now));
        self.store.apply(WatchEvent::Init);
        for object in seen {
            self.store.apply(WatchEvent::Apply(object));
        }
        self.store.apply(WatchEvent::InitDone);
    }

    fn edit(&mut self, change: impl FnOnce(&mut Accepted)) {
        if let Some(accepted) = self.specs.get_mut(&self.first) {
            change(Arc::make_mut(accepted));
        }
    }

    pub(crate) fn address(&self, text: &str) -> Result<(EnvName, ServiceName), String> {
        let (env, service) = match text.split_once('/') {
            Some((env, service)) => (env_of(env)?, service),
            None => (self.first.clone(), text),
        };
        if !self.written.contains_key(&env) {
            return Err(format!("no spec has the name `{env}`"));
        }
        Ok((env, ServiceName::new(service).map_err(|why| why.to_string())?))
    }

    /// Ports of a created container: the stored ones, then the wanted ones, then the one in the line.
    pub(crate) fn ports(&self, env: &EnvName, service: &ServiceName, output: Option<&str>) -> PortMap {
        let kept = self.memory.environments.get(env).cloned().unwrap_or_default();
        let no_one = port::PortReservations::new();
        let mut ports = port::assign(&self.written[env], &kept, &no_one, &BTreeMap::new(), self.now).ports;
        ports.extend(output.and_then(|output| objects::pair(service, output)));
        ports
    }

    fn container(&mut self, id: &str, service: &str, state: &str, options: &Options<'_>) -> Played {
        let (env, service) = self.address(service)?;
        let desired = &self.written[&env];
        let ports = self.ports(&env, &service, options.get("host"));
        let made = objects::spec_of(desired, &service, &ports, &self.site, self.now);
        let spec = made.as_ref().map(|(spec, _)| spec);
        let site = &self.site;
        let seen = objects::container(id, state, &service, desired, spec, site, options, self.now)?;
        self.store
            .apply(WatchEvent::Apply(Object::Container(Arc::new(seen))));
        Ok(())
    }

    fn network(&mut self, id: &str, options: &Options<'_>) -> Played {
        let env = options.get("of").map_or_else(|| Ok(self.first.clone()), env_of)?;
        let desired = self.written.get(&env).ok_or("no such spec")?;
        let network = Network {
            id: NetworkId::new(id).map_err(|why| why.to_string())?,
            name: options.get("name").unwrap_or(desired.network.as_str()).to_owned(),
            labels: objects::plain_labels(desired, "network", &self.site, options),
            created_at: moment(self.now, options.get("created").unwrap_or("-120s")),
            is_broken: options.get("broken").is_some(),
        };
        self.store
            .apply(WatchEvent::Apply(Object::Network(Arc::new(network))));
        Ok(())
    }

    fn volume(&mut self, name: &str, options: &Options<'_>) -> Played {
        let env = options.get("of").map_or_else(|| Ok(self.first.clone()), env_of)?;
        let desired = self.written.get(&env).ok_or("no such spec")?;
        let volume = Volume {
            name: name.to_owned(),
            labels: objects::plain_labels(desired, "volume", &self.site, options),
        };
        self.store
            .apply(WatchEvent::Apply(Object::Volume(Arc::new(volume))));
        Ok(())
    }

    fn probe(&mut self, id: &str, word: &str) -> Played {
        let id = ContainerId::new(id).map_err(|why| why.to_string())?;
        let verdict = match word {
            "starting" => ProbeStatus::Starting,
            "healthy" => ProbeStatus::Healthy,
            "unhealthy" => ProbeStatus::Unhealthy,
            other => return Err(format!("`{other}` is not a verdict")),
        };
        let facts = self.store.container(&id).and_then(|seen| seen.inspect.as_ref());
        let started_at = facts.and_then(|facts| facts.started_at);
        let (since, output) = (self.now, String::new());
        self.health.insert(
            id,
            ProbedHealth {
                status: verdict,
                since,
                started_at,
                output,
                ..ProbedHealth::default()
            },
        );
        Ok(())
    }

    /// The probe gets no response.
    fn dead(&mut self, id: &str) -> Result<(), String> {
        let id = ContainerId::new(id).map_err(|why| why.to_string())?;
        let health = self.health.get_mut(&id).ok_or("it was not probed")?;
        health.unresponsive = true;
        Ok(())
    }

    fn hold(&mut self, target: &str, rest: &[&str]) -> Played {
        let (env, service) = match target.split_once('/') {
            Some((env, service)) => (env, Some(service)),
            None => (target, None),
        };
        let service = service.map(ServiceName::new).transpose();
        self.requests.add_hold(Hold {
            environment: env_of(env)?,
            service: service.map_err(|why| why.to_string())?,
            since: self.now,
            until: rest.first().map(|span| moment(self.now, span)),
            stops: false,
            reason: String::new(),
            holder: None,
            command: None,
        });
        Ok(())
    }

    fn turn(&mut self) -> ReconcileResult {
        let inputs = Inputs {
            leases: &ControllerLeases::default(),
            requests: &self.requests,
            specs: &self.specs,
            preflight: self.preflight.as_ref(),
            scanned: self.scanned,
            store: &self.store,
            health: &self.health,
            now: self.now,
        };
        let (site, memory) = (&self.site, &self.memory);
        let planner = self
            .planner
            .get_or_insert_with(|| Planner::new(site.clone(), memory.clone()));
        planner.reconcile(&inputs)
    }

    /// Reconciles, and completes the step on a subject immediately.
    fn finish(&mut self, subject: &str, outcome: Result<&str, argus_core::outcome::ActionError>) -> Played {
        let turn = self.turn();
        let steps = turn.plans.values().flat_map(|plan| &plan.steps);
        let mut offered: Vec<String> = Vec::new();
        let mut found = None;
        for step in steps {
            offered.push(step.subject.to_string());
            let output = step.subject.to_string();
            if output == subject
                || subject
                    .strip_suffix('*')
                    .is_some_and(|begin| output.starts_with(begin))
            {
                found = Some(step.clone());
            }
        }
        let step = found.ok_or_else(|| format!("no action on it is offered, only on {offered:?}"))?;
        let outcome = match (outcome, &step.action) {
            (Err(error), _) => Err(error),
            (Ok(id), Action::CreateContainer { .. }) => Ok(Done::Container(
                ContainerId::new(id).map_err(|why| why.to_string())?,
            )),
            (Ok(id), Action::CreateNetwork { .. }) => {
                Ok(Done::Network(NetworkId::new(id).map_err(|why| why.to_string())?))
            }
            (Ok(_), _) => Ok(Done::Applied),
        };
        let planner = self.planner.as_mut().ok_or("no planner")?;
        planner.finished(&step, &outcome, &self.store, self.now);
        Ok(())
    }
}

fn env_of(text: &str) -> Result<EnvName, String> {
    EnvName::new(text).map_err(|why| why.to_string())
}

/// The variables of every container to create.
fn variables(plan: &Plan) -> String {
    let mut out = String::new();
    for step in &plan.steps {
        if let Action::CreateContainer { spec, .. } = &step.action {
            for (key, value) in &spec.env_vars {
                out.extend([step.subject.to_string(), format!(" has {key}={value}\n")]);
            }
        }
    }
    out
}

/// Masks hashes, because they change with every new field of a spec.
fn masked(text: &str) -> String {
    let mut out = text.to_owned();
    for mark in [".argus-", "@build:"] {
        let mut parts = out.split(mark);
        let mut masked = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            masked.push_str(mark);
            masked.push_str("HASH");
            masked.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
        }
        out = masked;
    }
    out
}
