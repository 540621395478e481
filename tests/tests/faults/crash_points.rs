//! A controller that is killed before and after every single write: the next one reaches the same end state.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use argus_tests::fixture::{IMAGE, LIMIT, container_runs, engine, running, text};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions};

/// Journeys in parallel: each spends most of its time waiting.
const AT_ONCE: usize = 4;
/// The writes of each phase, without the renewals of the lease.
const POINTS: [&[&str]; 3] = [
    &[
        "POST /networks/create",
        "POST /containers/create",
        "POST /containers/*/start",
    ],
    // A new `web` replaces the old one.
    &[
        "POST /containers/create",
        "POST /containers/*/stop",
        "DELETE /containers/*",
        "POST /containers/*/rename",
        "POST /containers/*/start",
    ],
    &[
        "POST /containers/*/stop",
        "DELETE /containers/*",
        "DELETE /networks/*",
    ],
];

/// Two services, one after the other. Leftovers of other tests stay, because their removal is a write.
fn pair(name: &str, greeting: &str) -> String {
    let health = "{ path: /healthz, port: 8080, interval: 200ms, timeout: 1s, retries: 20, startPeriod: 5s }";
    format!(
        "version: \"1\"\nproject: {{ name: {name} }}\nresilience: {{ preflight: {{ cleanOrphans: false }} }}\nservices:\n  db:\n    image: {IMAGE}\n    stopGrace: 1s\n    container: {{ name: {name}-db, healthcheck: {health} }}\n  \
         web:\n    image: {IMAGE}\n    dependsOn: [db]\n    stopGrace: 1s\n    container:\n      name: {name}-web\n      environment: {{ GREETING: {greeting} }}\n      healthcheck: {health}\n"
    )
}

struct Journey<'e> {
    name: String,
    engine: &'e PrivateEngine,
    proxy: Proxy,
    argus: Controller<'e>,
}

impl<'e> Journey<'e> {
    fn new(engine: &'e PrivateEngine, name: String) -> Self {
        let run = Self::prepare(engine, name);
        run.argus.start_again();
        run
    }

    /// The same with a controller that does not run yet.
    fn prepare(engine: &'e PrivateEngine, name: String) -> Self {
        let proxy = Proxy::start(&engine.scratch(&name).join("p.sock"), &engine.socket());
        let options = RunOptions {
            host: Some(proxy.host()),
            ..RunOptions::default()
        };
        let argus = Controller::prepare(engine, options);
        Self {
            name,
            engine,
            proxy,
            argus,
        }
    }

    /// Changes the specs, kills the controller at a following write, starts it again, and waits for the end of the
    /// phase.
    ///
    /// Returns the class of that write; `None` if the phase ended without it.
    fn phase(
        &self,
        write: usize,
        fault: Fault,
        change: impl Fn(&Self),
        is_over: impl Fn(&Self) -> bool,
    ) -> Option<String> {
        self.proxy.hold_at_change(write, fault);
        change(self);
        let what = format!("{} at write {write} {fault:?}", self.name);
        let is_held = self.argus.wait_until(LIMIT, &what, || {
            if self.proxy.is_held() {
                return Some(true);
            }
            // The end of a phase is visible before the answer to its last write.
            let is_over = is_over(self) && self.proxy.broken_write().is_none();
            is_over.then_some(false)
        });
        if is_held {
            self.argus.kill9();
        }
        let class = self.proxy.broken_write().filter(|_| is_held);
        self.proxy.heal();
        if is_held {
            self.argus.start_again();
            // The status files of the killed controller are replaced.
            self.argus.sync();
            self.argus
                .wait_until(LIMIT, &what, || is_over(self).then_some(()));
        }
        class
    }

    fn is_ready(&self, greeting: &str) -> bool {
        let status = self.argus.status(&self.name);
        let web = self.engine.inspect(&format!("{}-web", self.name));
        let greets = web.is_some_and(|web| {
            web["State"]["Running"] == true
                && web["Config"]["Env"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|one| text(one) == format!("GREETING={greeting}")))
        });
        status["phase"] == "Ready" && status["stale"] != true && greets
    }

    /// Restarts the controller, which finds nothing left to do.
    fn is_adopted_without_a_write(&self, greeting: &str) {
        self.argus.kill9();
        self.proxy.reset_counts();
        self.argus.start_again();
        self.argus.sync();
        self.argus
            .wait_until(LIMIT, "the next controller has listed", || {
                let listed = self
                    .proxy
                    .counts()
                    .keys()
                    .any(|class| class.starts_with("GET /containers/json"));
                (listed && self.is_ready(greeting)).then_some(())
            });
        self.argus.assert_settled(&self.name);
        let writes = self.proxy.writes_but_the_lease();
        assert_eq!(writes, [], "{} was already settled", self.name);
    }

    fn is_gone(&self) -> bool {
        let label = format!("label=argusai.project={}", self.name);
        self.engine
            .containers_with(&format!("argusai.project={}", self.name))
            .is_empty()
            && self
                .engine
                .docker_ok(&["network", "ls", "-q", "--filter", &label])
                .trim()
                .is_empty()
    }

    /// Asserts one running container per service, never started twice.
    fn is_whole(&self) -> BTreeMap<String, (String, String)> {
        let all = container_runs(self.engine, &self.name);
        let names: Vec<_> = all.keys().cloned().collect();
        assert_eq!(names, [format!("{}-db", self.name), format!("{}-web", self.name)]);
        for name in all.keys() {
            assert!(running(self.engine, name), "{name}");
        }
        let status = self.argus.status(&self.name);
        for service in ["db", "web"] {
            let row = Controller::service(&status, service);
            assert_eq!(row["restarts"], 0, "{row:#}");
        }
        all
    }
}

/// Kills at this write in each of the three phases. Returns the class of each such write.
fn journey(engine: &PrivateEngine, write: usize, fault: Fault) -> [Option<String>; 3] {
    let kind = if fault == Fault::HoldBefore { "b" } else { "a" };
    let run = Journey::new(engine, format!("kill{kind}{write}"));
    let file = |greeting: &'static str| {
        move |run: &Journey<'_>| run.argus.write_spec("e2e.yaml", &pair(&run.name, greeting))
    };
    let first = run.phase(write, fault, file("one"), |run| run.is_ready("one"));
    let before = run.is_whole();
    let second = run.phase(write, fault, file("two"), |run| run.is_ready("two"));
    let after = run.is_whole();
    let db = format!("{}-db", run.name);
    assert_eq!(before[&db], after[&db], "an unchanged service is untouched");
    run.is_adopted_without_a_write("two");
    let third = run.phase(
        write,
        fault,
        |run| run.argus.remove_spec("e2e.yaml"),
        Journey::is_gone,
    );
    [first, second, third]
}

#[test]
fn controller_killed_at_any_write_reaches_the_same_end() {
    let engine = engine();
    let next = AtomicUsize::new(0);
    // All phases ended without such a write, before and after the call.
    let over = [AtomicBool::new(false), AtomicBool::new(false)];
    let reached = [Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new())];
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let (write, side) = (number / 2, number % 2);
                    if over[side].load(Ordering::SeqCst) {
                        return;
                    }
                    let fault = [Fault::HoldBefore, Fault::HoldAfter][side];
                    let classes = journey(engine, write, fault);
                    if classes.iter().all(Option::is_none) {
                        over[side].store(true, Ordering::SeqCst);
                    }
                    let classes = (0..).zip(classes);
                    let points = classes.filter_map(|(phase, class): (usize, _)| Some((phase, class?)));
                    reached[side].lock().expect("no panic").extend(points);
                }
            });
        }
    });
    let expected: BTreeSet<_> = (0..)
        .zip(POINTS)
        .flat_map(|(phase, classes)| classes.iter().map(move |class| (phase, (*class).to_owned())))
        .collect();
    for (points, side) in reached.into_iter().zip(["before", "after"]) {
        assert_eq!(points.into_inner().expect("no panic"), expected, "{side}");
    }
}

// The writes of the test above are those of an owner, so its lease exists.
#[test]
fn controller_killed_at_its_lease_write_reaches_the_same_end() {
    let engine = engine();
    for (fault, side) in [(Fault::HoldBefore, "before"), (Fault::HoldAfter, "after")] {
        let run = Journey::prepare(engine, format!("lease{side}"));
        run.argus.write_spec("e2e.yaml", &pair(&run.name, "one"));
        run.proxy.hold_at(0, fault);
        run.argus.start_again();
        run.argus
            .wait_until(LIMIT, side, || run.proxy.is_held().then_some(()));
        let write = run.proxy.broken_write();
        assert_eq!(write.as_deref(), Some("POST /volumes/create"), "{side}");
        assert_eq!(
            run.proxy.writes().len(),
            1,
            "{side}: nothing is changed without a lease"
        );
        run.argus.kill9();
        run.proxy.heal();
        run.argus.start_again();
        run.argus.sync();
        run.argus
            .wait_until(LIMIT, side, || run.is_ready("one").then_some(()));
        let before = run.is_whole();
        run.is_adopted_without_a_write("one");
        assert_eq!(run.is_whole(), before, "{side}");
        run.argus.remove_spec("e2e.yaml");
        run.argus.wait_until(LIMIT, side, || run.is_gone().then_some(()));
    }
}
