//! Bind sources below a directory that a container can write, after a reboot: nothing starts that a container can replace.

use std::sync::Arc;

use argus_backend::sim::FaultProfile;
use argus_core::wait::{Wait, WaitReason};
use argus_reconciler::{Command, Snapshot};

use super::fixture::{Fixture, Run, env};

const ABOVE: &str = ".:/app";
const BELOW: &str = "./conf:/conf:ro";

fn file(name: &str, mount: &str) -> String {
    format!(
        "project: {{ name: {name} }}\nservices:\n  web: {{ image: app:1, container: {{ name: {name}-web, volumes: [\"{mount}\"] }} }}\n"
    )
}

/// Waits until the environment runs the revision of its file that has a mount at `target`.
async fn settled_with(run: &Run, name: &str, target: &str) -> Arc<Snapshot> {
    run.until(target, |snapshot| {
        let accepted = snapshot.specs.environments.get(&env(name));
        let revision = accepted.and_then(|accepted| {
            let mut mounts = accepted.desired.services.values().flat_map(|it| &it.mounts);
            mounts
                .any(|mount| mount.target() == target)
                .then_some(&accepted.desired.revision)
        });
        let plan = snapshot.plans.get(&env(name));
        plan.is_some_and(|plan| plan.is_settled() && revision.is_some() && plan.revision.as_ref() == revision)
    })
    .await
}

/// Asserts that the writer `shop` starts after a reboot, and `mail` does not.
async fn assert_only_the_writer_starts(run: &Run, starts: u32) {
    let is_source = |wait: &Wait| matches!(&wait.on, WaitReason::WritableSource(on) if !on.writer.is_going);
    run.until("the writer runs, and the other one waits", |snapshot| {
        let plan = |name: &str| snapshot.plans.get(&env(name));
        let shop = snapshot.store.of(&env("shop"));
        let mut containers = shop.into_iter().flat_map(|observed| observed.containers.values());
        containers.any(|container| container.state.is_up())
            && plan("mail").is_some_and(|plan| plan.waits.iter().any(is_source))
    })
    .await;
    run.pause(60).await;
    assert_eq!(run.engine().model.start_count("mail/web"), starts);
}

#[tokio::test(start_paused = true)]
async fn source_below_a_rolled_back_writer_never_starts() {
    let fixture = Fixture::new(FaultProfile::no_faults());
    fixture.write("shop", &file("shop", ABOVE));
    fixture.write("mail", &file("mail", "mail-data:/data"));
    let run = fixture.start(&fixture.state("s"), fixture.fresh());
    settled_with(&run, "shop", "/app").await;
    // The revision counts as known good.
    run.pause(20).await;
    fixture.write("shop", &file("shop", "shop-data:/data"));
    settled_with(&run, "shop", "/data").await;
    fixture.write("mail", &file("mail", BELOW));
    settled_with(&run, "mail", "/conf").await;
    let environment = env("shop");
    let reply = run
        .handle
        .send(Command::Rollback { environment }, String::new())
        .await;
    assert!(reply.is_ok(), "{reply:?}");
    run.until("the earlier revision runs", |snapshot| {
        let file = &snapshot.specs.environments[&env("shop")].desired.revision;
        let plan = &snapshot.plans[&env("shop")];
        plan.is_settled() && plan.revision.as_ref().is_some_and(|revision| revision != file)
    })
    .await;
    let starts = run.engine().model.start_count("mail/web");
    run.reboot();
    assert_only_the_writer_starts(&run, starts).await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn source_of_an_earlier_permission_never_starts() {
    let fixture = Fixture::new(FaultProfile::no_faults());
    fixture.write("shop", &file("shop", ABOVE));
    fixture.write("mail", &file("mail", BELOW));
    let run = fixture.start_allowed(&fixture.state("s"), fixture.fresh());
    settled_with(&run, "shop", "/app").await;
    settled_with(&run, "mail", "/conf").await;
    let engine = run.rebooted_copy();
    run.stop().await;
    // The permission has ended: the next run has both files of the last one.
    let starts = engine.model.start_count("mail/web");
    let run = fixture.start(&fixture.state("s"), engine);
    assert_only_the_writer_starts(&run, starts).await;
    run.stop().await;
}
