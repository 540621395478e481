//! Tests that all metrics are documented, that rules, dashboard and docs use existing names, and that records are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use argus_core::action::ActionKind;
use argus_core::ident::EnvName;
use argus_core::journal::{Entry, Event, JOURNAL_VERSION, OrphanRemoval, Outcome, Record};
use argus_core::plan::ControllerIdentity;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_crds::error::Code;
use argus_crds::status::{BreakerState, EnvironmentStatus, Mode, ServiceStatus};
use prometheus::proto::MetricType;

use super::*;

const BEGIN: &str = "<!-- the table is generated: UPDATE=1 cargo test -p argus metrics -->\n";
const END: &str = "<!-- end of the table -->\n";

/// Documentation of one metric.
struct Row {
    name: String,
    kind: MetricType,
    labels: Vec<String>,
    help: String,
}

struct Fixture {
    metrics: Metrics,
    task_metrics: TaskMetrics,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    statuses: watch::Sender<Arc<Statuses>>,
}

fn fixture() -> Fixture {
    fixture_in(Mode::Minimal)
}

fn fixture_in(mode: Mode) -> Fixture {
    let identity = ControllerIdentity {
        controller: "C".to_owned(),
        run: "R".to_owned(),
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
    };
    let blank = Snapshot {
        mode,
        ..Snapshot::blank(identity, PlannerState::default(), Timestamp(0))
    };
    let snapshots = watch::channel(Arc::new(blank)).1;
    let (statuses, status_receiver) = watch::channel(Arc::<Statuses>::default());
    let task_metrics = TaskMetrics::default();
    Fixture {
        metrics: Metrics::new(&task_metrics, snapshots.clone(), status_receiver),
        task_metrics,
        snapshots,
        statuses,
    }
}

fn rows() -> Vec<Row> {
    let fixture = fixture();
    let gauges = Gauges::new(fixture.snapshots, fixture.statuses.subscribe());
    let mut rows = Vec::new();
    for collector in fixture.metrics.collectors(&fixture.task_metrics, gauges) {
        let kinds: BTreeMap<String, MetricType> = collector
            .collect()
            .iter()
            .map(|family| (family.name().to_owned(), family.get_field_type()))
            .collect();
        for desc in collector.desc() {
            rows.push(Row {
                name: desc.fq_name.clone(),
                kind: kinds[&desc.fq_name],
                labels: desc.variable_labels.clone(),
                help: desc.help.clone(),
            });
        }
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    rows
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn documentation_lists_every_metric() {
    let mut table = "\n| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for row in rows() {
        let labels: Vec<String> = row.labels.iter().map(|label| format!("`{label}`")).collect();
        let kind = format!("{:?}", row.kind).to_lowercase();
        let (name, help) = (row.name, row.help.trim_end());
        writeln!(table, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")).unwrap();
    }
    table.push('\n');
    let text = read("docs/metrics.md");
    let (head, rest) = text.split_once(BEGIN).unwrap();
    let (found, tail) = rest.split_once(END).unwrap();
    if found == table {
        return;
    }
    assert!(
        std::env::var_os("UPDATE").is_some(),
        "docs/metrics.md is outdated; hint: UPDATE=1 cargo test -p argus metrics"
    );
    let page = format!("{head}{BEGIN}{table}{END}{tail}");
    std::fs::write(root().join("docs/metrics.md"), page).unwrap();
}

#[test]
fn metric_names_follow_prometheus_conventions() {
    let rows = rows();
    assert!(rows.len() > 50, "{} metrics", rows.len());
    for Row {
        name,
        kind,
        labels,
        help,
    } in &rows
    {
        let ours = name.starts_with("argus_");
        assert!(ours || name.starts_with("process_"), "{name}");
        assert_eq!(*kind == MetricType::COUNTER, name.ends_with("_total"), "{name}");
        if *kind == MetricType::HISTOGRAM {
            assert!(name.ends_with("_seconds"), "{name}");
        }
        assert!(help.ends_with('.'), "{name}: {help}");
        for label in labels {
            let known = [
                "api_version",
                "check",
                "class",
                "code",
                "environment",
                "kind",
                "method",
                "mode",
                "path",
                "phase",
                "reason",
                "result",
                "scope",
                "service",
                "state",
                "state",
                "status",
                "task",
                "type",
                "verb",
                "version",
                "wake",
            ];
            assert!(
                known.contains(&label.as_str()),
                "{name}: label {label} may be unbounded"
            );
        }
    }
}

/// Returns all names of metrics and of recorded series in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == ':';
    text.split(|char| !is_part(char))
        .filter(|word| {
            ["argus_", "argus:", "process_"]
                .iter()
                .any(|start| word.starts_with(start))
        })
        .filter(|word| !word.ends_with(['_', ':']))
        .map(str::to_owned)
        .collect()
}

#[test]
fn rules_dashboard_and_docs_use_existing_metrics() {
    let rules = read("charts/prometheus/argus.rules.yml");
    let recorded: BTreeSet<&str> = rules
        .lines()
        .filter_map(|line| {
            line.trim_start()
                .trim_start_matches("- ")
                .strip_prefix("record: ")
        })
        .collect();
    assert!(!recorded.is_empty());
    let rows = rows();
    let exists = |name: &str| {
        let part = |row: &Row| {
            let rest = name.strip_prefix(&row.name);
            let histogram = row.kind == MetricType::HISTOGRAM;
            rest.is_some_and(|rest| {
                rest.is_empty() || (histogram && ["_bucket", "_sum", "_count"].contains(&rest))
            })
        };
        recorded.contains(name) || rows.iter().any(part)
    };
    let mut used = BTreeSet::new();
    for (path, shows) in [
        ("charts/prometheus/argus.rules.yml", true),
        ("charts/grafana/argus.json", true),
        ("charts/prometheus/argus.rules.test.yml", false),
        ("docs/metrics.md", false),
    ] {
        let named = names(&read(path));
        let unknown: Vec<_> = named.iter().filter(|name| !exists(name)).collect();
        assert!(unknown.is_empty(), "{path} uses unknown names: {unknown:?}");
        used.extend(named.into_iter().filter(|_| shows));
    }
    // Every metric must be on the dashboard or in a rule.
    let is_unused = |row: &&Row| !used.iter().any(|name| name.starts_with(&row.name));
    let unused: Vec<_> = rows.iter().filter(is_unused).map(|row| &row.name).collect();
    assert!(
        unused.is_empty(),
        "neither in the rules nor on the dashboard: {unused:?}"
    );
}

#[test]
fn every_alert_has_a_runbook_section() {
    let (rules, docs) = (read("charts/prometheus/argus.rules.yml"), read("docs/metrics.md"));
    let tests = read("charts/prometheus/argus.rules.test.yml");
    let alerts: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in alerts {
        let anchor = format!("runbook: docs/metrics.md#{}", alert.to_lowercase());
        assert!(rules.contains(&anchor), "{alert} has no runbook");
        assert!(
            docs.contains(&format!("\n### {alert}\n")),
            "docs/metrics.md has no `### {alert}`"
        );
        assert!(tests.contains(&anchor), "no test for {alert}");
    }
}

/// Returns the names that a type is deserialized from, in the order of its declaration.
fn variants<T: serde::de::DeserializeOwned>() -> Vec<String> {
    let error = serde_json::from_str::<T>(r#"{ "verb": "?" }"#)
        .map(drop)
        .unwrap_err();
    let words = error.to_string();
    let quoted: Vec<String> = words.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    quoted[1..].to_vec()
}

#[test]
fn every_verb_has_a_series_from_the_start() {
    assert_eq!(
        variants::<argus_reconciler::Command>(),
        argus_reconciler::Command::VERBS
    );
    let mut actions: BTreeSet<String> = variants::<argus_core::action::Action>()
        .iter()
        .map(|verb| {
            let small = |char: char| format!("-{}", char.to_ascii_lowercase());
            let part = |char: char| {
                if char.is_ascii_uppercase() {
                    small(char)
                } else {
                    char.to_string()
                }
            };
            verb.chars().map(part).collect()
        })
        .collect();
    // It changes nothing on the engine, so the journal has no record of it.
    assert!(actions.remove("collect-evidence"));
    assert_eq!(
        actions,
        counters::action_verbs()
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    );
}

#[test]
fn dashboard_panels_use_the_chosen_data_source() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("charts/grafana/argus.json")).unwrap();
    assert_eq!(dashboard["uid"], "argus-controller", "the uid must not change");
    let names = |list: &serde_json::Value, key: &str| -> Vec<serde_json::Value> {
        list.as_array()
            .unwrap()
            .iter()
            .map(|one| one[key].clone())
            .collect()
    };
    let variables = names(&dashboard["templating"]["list"], "name");
    assert_eq!(variables, ["datasource", "job", "instance", "environment"]);
    let ids: BTreeSet<String> = names(&dashboard["panels"], "id")
        .iter()
        .map(ToString::to_string)
        .collect();
    let panels = dashboard["panels"].as_array().unwrap();
    assert_eq!(ids.len(), panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel:#}");
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{panel:#}");
        }
    }
}

struct RecordWriter<'a> {
    counters: &'a Counters,
    seq: u64,
}

impl RecordWriter<'_> {
    fn write_event(&mut self, seconds: i64, note: Event) {
        self.write(seconds, Entry::Event(note));
    }

    fn write(&mut self, seconds: i64, entry: Entry) {
        self.seq += 1;
        self.counters.count_record(&Record {
            v: JOURNAL_VERSION,
            seq: self.seq,
            at: Timestamp(seconds * 1_000).to_string(),
            run: "R".to_owned(),
            entry,
        });
    }
}

fn crashed(env: &EnvName, after_ms: u64) -> Event {
    failed(env, Code::ContainerCrash, after_ms)
}

fn failed(env: &EnvName, code: Code, after_ms: u64) -> Event {
    Event::Error {
        environment: Some(env.clone()),
        service: Some("api".to_owned()),
        code,
        error_id: None,
        after_ms: Some(after_ms),
    }
}

/// Creates an environment `shop` with a service `api`.
fn shop() -> (Fixture, EnvName) {
    let fixture = fixture();
    let api = ServiceStatus {
        name: "api".to_owned(),
        ..ServiceStatus::default()
    };
    let status = EnvironmentStatus {
        services: vec![api],
        ..EnvironmentStatus::default()
    };
    fixture.statuses.send_modify(|statuses| {
        Arc::make_mut(statuses)
            .environments
            .insert("shop".to_owned(), Arc::new(status));
    });
    (fixture, EnvName::new("shop").unwrap())
}

fn recovered(env: &EnvName) -> Event {
    Event::Recovered {
        environment: env.clone(),
        service: "api".to_owned(),
    }
}

#[test]
fn exactly_the_current_mode_is_set() {
    for mode in Mode::ALL {
        let text = fixture_in(*mode).metrics.render().unwrap();
        for other in Mode::ALL {
            let line = format!("argus_mode{{mode=\"{other:?}\"}} {}", i32::from(other == mode));
            assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
        }
    }
}

#[test]
fn records_are_counted_until_the_environment_is_gone() {
    let (fixture, env) = shop();
    let restart = |times| Event::Restart {
        environment: env.clone(),
        service: "api".to_owned(),
        restarts: times,
        times,
        code: Some(Code::ContainerCrash),
    };
    let mut writer = RecordWriter {
        counters: &fixture.metrics.counters,
        seq: 0,
    };
    // It fails twice, and recovers 10 s after the first failure.
    writer.write_event(101, crashed(&env, 1_000));
    writer.write_event(105, crashed(&env, 500));
    writer.write_event(109, restart(2));
    writer.write_event(110, recovered(&env));
    writer.write_event(
        111,
        Event::Circuit {
            environment: None,
            to: BreakerState::HalfOpen,
            times_opened: 1,
        },
    );
    let (what, id) = ("network".to_owned(), "n".to_owned());
    writer.write_event(
        111,
        Event::OrphanFound {
            environment: None,
            what: what.clone(),
            id: id.clone(),
            name: "left".to_owned(),
            project: None,
            result: "removing".to_owned(),
        },
    );
    let removal = |outcome| {
        Event::OrphanRemoved(OrphanRemoval {
            environment: None,
            what: what.clone(),
            id: id.clone(),
            name: "left".to_owned(),
            outcome,
            code: None,
        })
    };
    writer.write_event(111, removal(Outcome::Failed));
    writer.write_event(111, removal(Outcome::Done));
    writer.write(
        112,
        Entry::Result {
            of: 1,
            environment: None,
            verb: ActionKind::StartContainer,
            outcome: Outcome::Failed,
            code: None,
            ms: 250,
        },
    );
    let text = fixture.metrics.render().unwrap();
    for line in [
        r#"argus_container_restarts_total{environment="shop",reason="CONTAINER_CRASH",service="api"} 2"#,
        r#"argus_errors_total{code="CONTAINER_CRASH"} 2"#,
        r#"argus_errors_total{code="CONTAINER_OOM"} 0"#,
        r#"argus_time_to_detect_seconds_count{reason="CONTAINER_CRASH"} 2"#,
        r#"argus_time_to_detect_seconds_sum{reason="CONTAINER_CRASH"} 1.5"#,
        r#"argus_time_to_detect_seconds_count{reason="CONTAINER_OOM"} 0"#,
        r#"argus_time_to_recover_seconds_count{reason="CONTAINER_CRASH"} 1"#,
        r#"argus_time_to_recover_seconds_sum{reason="CONTAINER_CRASH"} 10"#,
        r#"argus_time_to_recover_seconds_count{reason="ENTRYPOINT_NOT_FOUND"} 0"#,
        r#"argus_circuit_breaker_transitions_total{scope="engine",state="halfOpen"} 1"#,
        r#"argus_actions_total{result="failed",verb="start-container"} 1"#,
        r#"argus_action_duration_seconds_sum{verb="start-container"} 0.25"#,
        r#"argus_journal_records_total{kind="event"} 8"#,
        r#"argus_services{environment="shop",state="Unknown"} 1"#,
        r#"argus_mode{mode="Minimal"} 1"#,
        r#"argus_orphans_found_total{kind="network"} 1"#,
        r#"argus_orphans_removed_total{kind="network"} 1"#,
        r#"argus_orphans_removed_total{kind="volume"} 0"#,
        r#"argus_circuit_breaker_state{environment="shop",scope="environment",state="closed"} 1"#,
        r#"argus_commands_total{result="accepted",verb="retry"} 0"#,
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
    fixture.statuses.send_replace(Arc::default());
    let text = fixture.metrics.render().unwrap();
    assert!(!text.contains("shop"), "{text}");
}

#[test]
fn ready_environment_resolves_earlier_failures() {
    let (fixture, env) = shop();
    let mut writer = RecordWriter {
        counters: &fixture.metrics.counters,
        seq: 0,
    };
    // Such as by a new revision.
    writer.write_event(200, crashed(&env, 0));
    writer.write_event(
        201,
        Event::Phase {
            environment: env.clone(),
            from: "Degraded".to_owned(),
            to: "Ready".to_owned(),
            revision: None,
            after_ms: None,
        },
    );
    writer.write_event(300, crashed(&env, 0));
    writer.write_event(305, recovered(&env));
    let text = fixture.metrics.render().unwrap();
    let line = "argus_time_to_recover_seconds_sum{reason=\"CONTAINER_CRASH\"} 5\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn recovery_is_counted_by_its_first_failure() {
    let (fixture, env) = shop();
    let mut writer = RecordWriter {
        counters: &fixture.metrics.counters,
        seq: 0,
    };
    // Its probe failed for 20 s. The restart crashed, and the next one recovered it.
    writer.write_event(100, failed(&env, Code::HealthCheckTimeout, 20_000));
    writer.write_event(110, failed(&env, Code::ContainerCrash, 500));
    writer.write_event(120, recovered(&env));
    let text = fixture.metrics.render().unwrap();
    for line in [
        r#"argus_time_to_detect_seconds_sum{reason="HEALTH_CHECK_TIMEOUT"} 20"#,
        r#"argus_time_to_detect_seconds_sum{reason="CONTAINER_CRASH"} 0.5"#,
        r#"argus_time_to_recover_seconds_sum{reason="HEALTH_CHECK_TIMEOUT"} 40"#,
        r#"argus_time_to_recover_seconds_count{reason="CONTAINER_CRASH"} 0"#,
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
}
