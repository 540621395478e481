//! What counts as a failure of a run, and what a failure counts for.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::Accepted;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::diagnose::{self, FailureCause, FailureKind};
use argus_core::ident::{ContainerId, EnvName, ServiceName};
use argus_core::labels;
use argus_core::observed::{
    Config, Container, ContainerState, InspectInfo, Object, Outage, Store, WatchEvent,
};
use argus_core::outcome::Evidence;
use argus_core::probe::{Health, HealthStates, ProbeStatus};
use argus_core::state::observe::Context;
use argus_core::state::restart::{self, RestartDecision as Restart};
use argus_core::state::{PlannerState, ServiceHistory};
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;

const SECOND: i64 = 1_000;

/// One service and what is seen of it, told second by second.
struct Story {
    memory: PlannerState,
    accepted: Accepted,
    health: HealthStates,
    outages: Vec<Outage>,
    now: Timestamp,
    containers: BTreeMap<String, Container>,
    retagged: Vec<&'static str>,
}

fn env() -> EnvName {
    EnvName::new("shop").unwrap()
}

impl Story {
    fn of(more: &str) -> Self {
        let text = format!(
            "version: \"1\"\nproject: {{ name: shop }}\nservices:\n  web:\n    image: web:1\n    container:\n      name: shop-web\n{more}"
        );
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        Self {
            memory: PlannerState::default(),
            accepted: Accepted {
                desired: admit(&written, &SpecContext::default()).desired.unwrap(),
                spec_path: "e2e.yaml".to_owned(),
                accepted_at: Timestamp(0),
                has_pending_edit: false,
            },
            health: HealthStates::new(),
            outages: Vec::new(),
            now: Timestamp(1_000 * SECOND),
            containers: BTreeMap::new(),
            retagged: Vec::new(),
        }
    }

    fn probed() -> Self {
        Self::of("      healthcheck: { path: /, port: 80, interval: 30s, retries: 3 }\n")
    }

    /// Its run since a moment, as it is now.
    fn container(&mut self, state: ContainerState, started: Timestamp, ended: Option<(Timestamp, i64)>) {
        self.container_of("c1", state, started, ended);
    }

    fn container_of(
        &mut self,
        id: &str,
        state: ContainerState,
        started: Timestamp,
        ended: Option<(Timestamp, i64)>,
    ) {
        let all = [
            (labels::MANAGED, "true"),
            (labels::ENVIRONMENT, "shop"),
            (labels::SERVICE, "web"),
        ];
        let container = Container {
            id: ContainerId::new(id).unwrap(),
            name: "shop-web".to_owned(),
            labels: all.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            image: "web:1".to_owned(),
            state,
            created_at: Timestamp(1),
            networks: BTreeMap::new(),
            inspect: Some(InspectInfo {
                started_at: Some(started),
                finished_at: ended.map(|(at, _)| at),
                exit_code: ended.map_or(0, |(_, code)| code),
                oom_killed: false,
                error: String::new(),
                image_id: None,
                health: None,
                config: Config::default(),
            }),
            stopped_by_other: None,
            oom_at: None,
        };
        self.containers.insert(id.to_owned(), container);
        self.look();
    }

    fn says(&mut self, verdict: ProbeStatus) {
        let seen = &self.containers["c1"];
        let health = Health {
            status: verdict,
            since: self.now,
            started_at: seen.inspect.as_ref().unwrap().started_at,
            failing_since: (verdict == ProbeStatus::Unhealthy).then(|| self.now - Duration::from_secs(60)),
            recent: vec!["503".to_owned()],
            ..Health::default()
        };
        self.health.insert(seen.id.clone(), health);
        self.look();
    }

    fn look(&mut self) {
        let mut store = Store::default();
        for container in self.containers.values() {
            store.apply(WatchEvent::Apply(Object::Container(Arc::new(container.clone()))));
        }
        for id in &self.retagged {
            store.apply(WatchEvent::ImageMoved(ContainerId::new(*id).unwrap()));
        }
        let context = Context {
            health: &self.health,
            outages: &self.outages,
            requests: &UserRequests::default(),
            controller: "",
            now: self.now,
        };
        let seen = store.of(&env()).cloned().unwrap_or_default();
        self.memory.observe(&env(), Some(&self.accepted), &seen, &context);
    }

    fn later(&mut self, seconds: u64) -> Timestamp {
        self.now = self.now + Duration::from_secs(seconds);
        self.now
    }

    fn kept(&mut self) -> &mut ServiceHistory {
        let kept = self.memory.environments.get_mut(&env()).unwrap();
        kept.services.get_mut(&ServiceName::new("web").unwrap()).unwrap()
    }

    fn verdict(&mut self) -> Restart {
        let (policy, outages) = (self.accepted.desired.restart.clone(), self.outages.clone());
        let kept = self.kept();
        restart::decide(&policy, &kept.failures, &outages, &kept.health_transitions)
    }
}

#[test]
fn what_never_becomes_healthy_spends_its_budget_however_long_that_takes() {
    let mut story = Story::probed();
    for run in 1..=4 {
        let started = story.now;
        story.container(ContainerState::Running, started, None);
        story.later(130);
        story.says(ProbeStatus::Unhealthy);
        match (run, story.verdict()) {
            (1..=3, Restart::At(_, attempt)) => assert_eq!(attempt, run),
            (4, Restart::GaveUp(restarts)) => assert_eq!(restarts, 3),
            (_, other) => panic!("run {run}: {other:?}"),
        }
        story.later(8);
    }
}

#[test]
fn a_failure_of_a_probe_knows_since_when_it_failed() {
    let mut story = Story::probed();
    let started = story.now;
    story.container(ContainerState::Running, started, None);
    let told = story.later(130);
    story.says(ProbeStatus::Unhealthy);
    let failed_run = &story.kept().failures[0];
    assert_eq!(
        (failed_run.at, failed_run.failing_since),
        (told, Some(told - Duration::from_secs(60)))
    );
}

#[test]
fn moments_of_health_forgive_nothing_and_a_minute_of_it_does() {
    for (healthy_for, spent) in [(5, true), (70, false)] {
        let mut story = Story::probed();
        for _ in 0..5 {
            let started = story.now;
            story.container(ContainerState::Running, started, None);
            story.later(1);
            story.says(ProbeStatus::Healthy);
            // Three failures in a row, thirty seconds apart, come after the last good answer.
            story.later(healthy_for + 90);
            story.says(ProbeStatus::Unhealthy);
            story.later(8);
        }
        let gave_up = matches!(story.verdict(), Restart::GaveUp(_));
        assert_eq!(
            gave_up,
            spent,
            "healthy for {healthy_for} s: {:?}",
            story.verdict()
        );
    }
}

#[test]
fn another_image_behind_the_tag_ends_a_give_up_and_nothing_sooner() {
    let mut story = Story::of("");
    for run in 1..=4 {
        let started = story.now;
        story.container(ContainerState::Running, started, None);
        let ended = story.later(1);
        story.container(ContainerState::Exited, started, Some((ended, run)));
        if run == 3 {
            story.retagged.push("c1");
            story.look();
            assert!(!story.kept().failures[2].image_replaced, "it is restarted anyway");
            story.retagged.clear();
        }
        story.later(8);
    }
    assert_eq!(story.verdict(), Restart::GaveUp(3));
    story.look();
    assert!(!story.kept().failures[3].image_replaced);
    story.retagged.push("c1");
    story.look();
    assert!(story.kept().failures[3].image_replaced);

    // What is made from the new image fails for the first time.
    story.containers.clear();
    story.retagged.clear();
    let started = story.later(1);
    story.container_of("c2", ContainerState::Running, started, None);
    let ended = story.later(1);
    story.container_of("c2", ContainerState::Exited, started, Some((ended, 1)));
    assert_eq!(story.kept().failures.len(), 1);
    assert!(matches!(story.verdict(), Restart::At(_, 1)));
}

#[test]
fn what_has_no_probe_is_forgiven_by_running() {
    let mut story = Story::of("");
    for _ in 0..5 {
        let started = story.now;
        story.container(ContainerState::Running, started, None);
        let ended = story.later(70);
        story.container(ContainerState::Exited, started, Some((ended, 1)));
        story.later(8);
    }
    assert!(matches!(story.verdict(), Restart::At(_, 1)));
}

#[test]
fn an_unhealthy_run_that_goes_on_is_a_failure_again_after_a_retry() {
    let mut story = Story::probed();
    let started = story.now;
    story.container(ContainerState::Running, started, None);
    story.later(130);
    story.says(ProbeStatus::Unhealthy);
    assert_eq!(story.kept().failures.len(), 1);
    let desired = story.accepted.desired.clone();
    story.memory.prune_failures(&env(), Some(&desired));
    assert!(story.kept().failures.is_empty());
    story.later(1);
    story.look();
    let failures = &story.kept().failures;
    assert_eq!((failures.len(), failures[0].number), (1, 2));
    // And what ended before the retry is forgiven.
    let mut story = Story::of("");
    story.container(ContainerState::Exited, started, Some((started, 1)));
    assert_eq!(story.kept().failures.len(), 1);
    story.memory.prune_failures(&env(), Some(&desired));
    story.look();
    assert!(story.kept().failures.is_empty());
}

#[test]
fn an_unhealthy_run_that_ends_by_itself_is_the_same_failure_with_another_end() {
    let mut story = Story::probed();
    let started = story.now;
    story.container(ContainerState::Running, started, None);
    story.later(130);
    story.says(ProbeStatus::Unhealthy);
    story.kept().failures[0].evidence = Some(Evidence::default());
    let ended = story.later(1);
    story.containers.get_mut("c1").unwrap().oom_at = Some(ended);
    let oom_at = story.containers["c1"].oom_at;
    story.container(ContainerState::Exited, started, Some((ended, 137)));
    story.containers.get_mut("c1").unwrap().oom_at = oom_at;
    story.look();
    let failures = &story.kept().failures;
    assert_eq!(failures.len(), 1, "{failures:?}");
    let failed_run = &failures[0];
    assert_eq!(
        (failed_run.cause, failed_run.exit_code, failed_run.at),
        (FailureCause::Exited, 137, ended)
    );
    assert_eq!(diagnose::kind(failed_run), FailureKind::OutOfMemory);
    assert_eq!(failed_run.number, 1);
    assert!(failed_run.evidence.is_none(), "what it left is taken again");
    assert_eq!(failed_run.probe_output, ["503"]);
}

fn with_last_words(story: &mut Story, words: &str) {
    let kept = story.kept();
    let last = kept.failures.last_mut().unwrap();
    last.evidence = Some(Evidence {
        stderr: vec![words.to_owned()],
        ..Evidence::default()
    });
}

#[test]
fn what_ran_for_long_in_between_made_progress_and_is_not_halted() {
    for (minutes, halted) in [(1, true), (24 * 60, false)] {
        let mut story = Story::of("");
        for _ in 0..3 {
            let started = story.now;
            story.container(ContainerState::Running, started, None);
            let ended = story.later(minutes * 60);
            story.container(ContainerState::Exited, started, Some((ended, 1)));
            with_last_words(&mut story, "connection reset by peer");
            story.later(8);
        }
        let found = matches!(story.verdict(), Restart::Halted(_));
        assert_eq!(found, halted, "{minutes} min: {:?}", story.verdict());
    }
}

#[test]
fn what_came_to_itself_or_fell_with_the_engine_repeats_nothing() {
    let mut story = Story::of("");
    for round in 0..3 {
        let started = story.now;
        story.container(ContainerState::Running, started, None);
        let ended = story.later(5);
        if round < 2 {
            story.outages.push(Outage {
                from: ended,
                until: Some(ended),
            });
        }
        story.container(ContainerState::Exited, started, Some((ended, 1)));
        with_last_words(&mut story, "terminated");
        story.later(60);
    }
    assert!(
        matches!(story.verdict(), Restart::At(_, 1)),
        "{:?}",
        story.verdict()
    );
    let mut story = Story::probed();
    let started = story.now;
    story.container(ContainerState::Running, started, None);
    for _ in 0..3 {
        story.later(100);
        story.says(ProbeStatus::Unhealthy);
        with_last_words(&mut story, "slow query");
        if story.kept().failures.len() < 3 {
            story.later(1);
            story.says(ProbeStatus::Healthy);
        }
    }
    assert!(
        matches!(story.verdict(), Restart::At(..)),
        "{:?}",
        story.verdict()
    );
}

#[test]
fn what_a_probe_found_on_the_way_into_an_outage_is_no_failure() {
    let mut story = Story::probed();
    let started = story.now;
    story.container(ContainerState::Running, started, None);
    story.later(60);
    story.says(ProbeStatus::Healthy);
    let cut = story.later(60);
    story.outages.push(Outage {
        from: cut,
        until: Some(cut + Duration::from_secs(30)),
    });
    // The engine was hanging before its loss was noticed, and the verdict is still on the table when it is back.
    story.now = cut - Duration::from_secs(5);
    story.says(ProbeStatus::Unhealthy);
    story.now = cut + Duration::from_secs(31);
    story.look();
    assert_eq!(story.kept().failures, []);
    // Found again afterwards it is one.
    story.says(ProbeStatus::Unhealthy);
    assert_eq!(story.kept().failures.len(), 1);
}

#[test]
fn a_failure_by_a_clock_that_lags_comes_after_those_before_it() {
    let mut story = Story::of("");
    for round in 1..=4 {
        // The engine's clock was set back by an hour after the first failure.
        let engine = |at: Timestamp| {
            if round == 1 {
                at
            } else {
                at - Duration::from_secs(3_600)
            }
        };
        let started = engine(story.now);
        // Made anew each time, as from the second failure on.
        let id = format!("c{round}");
        story.containers.clear();
        story.container_of(&id, ContainerState::Running, started, None);
        let ended = engine(story.later(1));
        story.container_of(&id, ContainerState::Exited, started, Some((ended, 1)));
        let last = story.kept().failures.last().unwrap().clone();
        assert_eq!((last.number, last.container.as_str()), (round, id.as_str()));
        assert!(!last.followed_by_run);
        let now = story.now;
        match story.verdict() {
            Restart::At(at, _) => assert!(at > now, "failure {round} has its delay"),
            other => assert_eq!(other, Restart::GaveUp(3), "failure {round}"),
        }
        story.later(10);
    }
    assert_eq!(story.verdict(), Restart::GaveUp(3));
}

#[test]
fn a_retry_before_the_engine_was_seen_forgets_what_is_remembered() {
    let mut story = Story::of("");
    let started = story.now;
    story.container(ContainerState::Exited, started, Some((started, 1)));
    let site = argus_core::reconcile::ControllerIdentity {
        controller: "me".to_owned(),
        run: "1".to_owned(),
        publish_address: [127, 0, 0, 1].into(),
    };
    let mut planner = argus_core::reconcile::Planner::new(site, story.memory.clone());
    planner.retry(&env());
    let kept = &planner.state().environments[&env()];
    let web = &kept.services[&ServiceName::new("web").unwrap()];
    assert!(web.failures.is_empty() && web.reset_baseline.is_some());
}
