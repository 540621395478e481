//! Kinds of faults, and the injection of each.

use std::process::{Child, Stdio};
use std::time::Duration;

use argus_backend::sim::Rng;
use argus_tests::{Controller, wait};
use rustix::process::{Pid, Signal, kill_process};

use crate::board::Hit;
use crate::now;
use crate::world::{SERVICES, World, container, environment};

/// One kind of fault.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Relative frequency. Faults of the engine and of the controller affect all environments, and are rarer.
    weight: u64,
    /// `None` if the target was broken already and the fault had no effect.
    pub(crate) inject: fn(&World<'_>, &Draw) -> Option<Hit>,
}

/// Random choices of one fault. All are drawn for every kind, so that the seed alone determines the sequence.
pub(crate) struct Draw {
    pub(crate) environment: usize,
    pub(crate) service: &'static str,
    /// From 0 to 1000.
    span: u64,
    coin: bool,
}

impl Draw {
    pub(crate) fn of(chance: &mut Rng, environments: usize) -> Self {
        Self {
            environment: usize::try_from(chance.below(environments as u64)).expect("a small number"),
            service: chance.pick(&SERVICES).expect("three services"),
            span: chance.below(1001),
            coin: chance.percent(50),
        }
    }

    fn between(&self, low: u64, high: u64) -> Duration {
        Duration::from_millis(low + (high - low) * self.span / 1000)
    }

    fn container(&self) -> String {
        container(self.environment, self.service)
    }
}

const fn kind(name: &'static str, weight: u64, inject: fn(&World<'_>, &Draw) -> Option<Hit>) -> Kind {
    Kind { name, weight, inject }
}

pub(crate) const KINDS: &[Kind] = &[
    kind("exit", 4, |world, draw| {
        ends(world, draw, draw.service, |name| {
            // The shell ends with its container, so its result means nothing.
            world.docker(&["exec", name, "sh", "-c", "kill -TERM -1"]);
            true
        })
    }),
    kind("kill", 4, |world, draw| {
        ends(world, draw, draw.service, |name| kill_main(world, name))
    }),
    kind("stop", 4, |world, draw| {
        ends(world, draw, draw.service, |name| {
            world.docker(&["stop", "-t", "1", name])
        })
    }),
    kind("oom", 4, |world, draw| {
        ends(world, draw, "api", |name| {
            world.docker(&["exec", name, "touch", "/tmp/boom"])
        })
    }),
    kind("pause", 4, |world, draw| {
        let hit = Hit::one(draw.environment);
        world.docker(&["pause", &draw.container()]).then_some(hit)
    }),
    kind("detach", 4, |world, draw| {
        let hit = Hit::one(draw.environment);
        let network = world.network(draw.environment)?;
        world
            .docker(&["network", "disconnect", "-f", &network, &draw.container()])
            .then_some(hit)
    }),
    kind("network", 4, |world, draw| {
        let hit = Hit::one(draw.environment);
        let network = world.network(draw.environment)?;
        let detach = SERVICES.map(|service| {
            let name = container(draw.environment, service);
            format!("docker network disconnect -f {network} {name} &")
        });
        // Otherwise the controller reattaches the containers before the network can be removed.
        world.argus.signal(Signal::STOP);
        let removed = world.shell(&format!("{} wait; docker network rm {network}", detach.join(" ")));
        world.argus.signal(Signal::CONT);
        removed.then_some(hit)
    }),
    kind("bridge", 4, |world, draw| {
        let hit = Hit::one(draw.environment);
        let network = world.network(draw.environment)?;
        world
            .shell(&format!("ip link del br-{}", &network[..12]))
            .then_some(hit)
    }),
    kind("port", 4, |world, draw| {
        let port = world.port(draw.environment)?;
        ends(world, draw, "web", |name| {
            let stopped = world.docker(&["stop", "-t", "0", name]);
            let mut holder = hold(world, port);
            world.later(draw.between(2000, 12_000), move |_| {
                drop(holder.kill());
                drop(holder.wait());
            });
            stopped
        })
    }),
    kind("edit", 4, |world, draw| {
        let web = container(draw.environment, "web");
        let before = world.run(&web)?;
        if draw.coin {
            world.write(draw.environment, "version: \"1\"\nproject: { name: ");
            pause(draw.between(500, 2500));
        }
        let hit = Hit::one(draw.environment);
        world.edit(draw.environment);
        Some(hit.changing(draw.environment, web, before))
    }),
    kind("events", 3, |world, draw| {
        ends(world, draw, draw.service, |name| {
            world.proxy.cut("GET /events");
            kill_main(world, name)
        })
    }),
    kind("engine-kill", 2, |world, draw| {
        world.engine.kill9();
        pause(draw.between(0, 4000));
        world.engine.start_again();
        Some(Hit::all())
    }),
    kind("engine-stop", 2, |world, draw| {
        world.engine.stop();
        pause(draw.between(0, 4000));
        world.engine.start_again();
        Some(Hit::all())
    }),
    kind("engine-freeze", 2, |world, draw| {
        world.engine.freeze();
        pause(draw.between(1000, 12_000));
        world.engine.thaw();
        Some(Hit::all())
    }),
    kind("containerd", 2, |world, draw| {
        // The engine starts a killed containerd again only after some seconds.
        let containerd = containerd(world)?;
        // Only one container, because ten repeated restarts per minute are the limit of all environments together.
        let (mut hit, name) = (Hit::all(), draw.container());
        let before = world.run(&name)?;
        if kill_main(world, &name) {
            hit = hit.changing(draw.environment, name, before);
        }
        // Argus starts it again after its restart delay of one second.
        pause(draw.between(800, 1600));
        kill_pid(containerd).then_some(hit)
    }),
    kind("controller", 3, |world, draw| {
        let name = draw.container();
        let before = world.run(&name)?;
        world.argus.kill9();
        let killed = draw.coin && kill_main(world, &name);
        pause(draw.between(0, 4000));
        let hit = Hit::all();
        world.restart_controller();
        Some(if killed {
            hit.changing(draw.environment, name, before)
        } else {
            hit
        })
    }),
    kind("second", 2, |world, draw| {
        let second = Controller::start(world.engine, world.second());
        let coin = draw.coin;
        world.later(draw.between(3000, 10_000), move |_| {
            if coin {
                second.kill9();
            } else {
                second.stop();
            }
        });
        Some(Hit::all())
    }),
];

/// Draws one of `kinds` by weight.
pub(crate) fn pick<'k>(chance: &mut Rng, kinds: &[&'k Kind]) -> &'k Kind {
    let mut at = chance.below(kinds.iter().map(|kind| kind.weight).sum());
    for kind in kinds {
        match at.checked_sub(kind.weight) {
            Some(rest) => at = rest,
            None => return kind,
        }
    }
    unreachable!("the draw is below the sum of the weights")
}

/// A fault that ends the current run of a container.
fn ends(world: &World<'_>, draw: &Draw, service: &str, end: impl FnOnce(&str) -> bool) -> Option<Hit> {
    let name = container(draw.environment, service);
    let before = world.run(&name)?;
    let hit = Hit::one(draw.environment);
    let done = end(&name);
    done.then(|| hit.changing(draw.environment, name, before))
}

/// Kills the main process of a container from the host, so that the engine learns only of its death.
fn kill_main(world: &World<'_>, name: &str) -> bool {
    let pid = world
        .query(&format!("/containers/{name}/json"))
        .and_then(|found| found["State"]["Pid"].as_i64())
        .and_then(|pid| i32::try_from(pid).ok());
    pid.is_some_and(kill_pid)
}

/// Process id of the engine's containerd; `None` while it does not run.
fn containerd(world: &World<'_>) -> Option<i32> {
    let file = world.engine.scratch("").join("../exec/containerd/containerd.pid");
    let pid = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    line.contains("containerd").then_some(pid)
}

fn kill_pid(pid: i32) -> bool {
    let pid = if pid > 1 { Pid::from_raw(pid) } else { None };
    pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// A foreign process that takes a free port. It ends if Argus was faster.
fn hold(world: &World<'_>, port: u16) -> Child {
    let mut command = world.engine.command_in_netns("busybox");
    command
        .args(["nc", "-ll", "-p", &port.to_string(), "-e", "/bin/true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("busybox starts")
}

/// Waits between two parts of a fault.
fn pause(span: Duration) {
    wait::until_due(now() + span);
}

/// Text of a fault for the log.
pub(crate) fn describe(kind: &Kind, draw: &Draw) -> String {
    format!(
        "{} {}/{} span {} coin {}",
        kind.name,
        environment(draw.environment),
        draw.service,
        draw.span,
        u8::from(draw.coin)
    )
}
