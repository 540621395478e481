//! Services in the network namespace of another service, and services that restart with a dependency.
#![allow(clippy::unwrap_used, reason = "all names in these tests are valid")]

use std::sync::Arc;
use std::time::Duration;

use argus_core::action::Step;
use argus_core::labels;
use argus_core::observed::{Container, Object, WatchEvent};

use crate::moved_networks::{Specs, World, specs_of};

fn specs(vpn: &str, web: &str) -> Specs {
    specs_of(&format!(
        "services:\n  vpn: {{ image: {vpn}, container: {{ name: shop-vpn }} }}\n  \
         web: {{ image: b, {web}, container: {{ name: shop-web }} }}\n"
    ))
}

fn joined(vpn: &str) -> Specs {
    specs(vpn, "networkMode: 'service:vpn'")
}

fn container(world: &World, name: &str) -> Container {
    let mut all = world.store.containers();
    let found = all.find(|container| container.name == name);
    Container::clone(found.unwrap())
}

/// Verbs with the services whose containers they concern.
fn calls(steps: &[Step]) -> Vec<String> {
    let of_services = steps
        .iter()
        .filter_map(|step| Some((step, step.subject.service()?)));
    let calls = of_services.map(|(step, service)| format!("{service}: {}", step.action.verb()));
    calls.collect()
}

/// Gives the container of `vpn` a run that began after the start of `web`, as after a restart.
fn restart_vpn(world: &mut World) {
    let own = container(world, "shop-web").inspect.unwrap().started_at.unwrap();
    let mut vpn = container(world, "shop-vpn");
    vpn.inspect.as_mut().unwrap().started_at = Some(own + Duration::from_millis(1));
    world
        .store
        .apply(WatchEvent::Apply(Object::Container(Arc::new(vpn))));
}

#[test]
fn service_starts_in_the_network_of_a_running_one() {
    let mut world = World::new(Vec::new());
    let steps = world.run(&joined("a"));
    let expected = [
        "vpn: create-container",
        "vpn: start-container",
        "web: create-container",
        "web: start-container",
    ];
    let mut found = calls(&steps);
    let starts = ["vpn: start-container", "web: start-container"];
    let order: Vec<_> = found
        .iter()
        .filter(|call| starts.contains(&call.as_str()))
        .cloned()
        .collect();
    assert_eq!(order, starts);
    found.sort();
    assert_eq!(found, expected);
    let (vpn, web) = (container(&world, "shop-vpn"), container(&world, "shop-web"));
    assert!(web.networks.is_empty() && web.has_network() && !vpn.networks.is_empty());
    assert_eq!(web.labels[labels::NETWORK_OWNER], "vpn");
    assert_eq!(world.run(&joined("a")), [], "a second pass changes nothing");
}

#[test]
fn service_restarts_after_the_owner_of_its_network() {
    let mut world = World::new(Vec::new());
    world.run(&joined("a"));
    let id = container(&world, "shop-web").id;
    restart_vpn(&mut world);
    let steps = world.run(&joined("a"));
    let expected = ["web: stop-container", "web: start-container"];
    assert_eq!(calls(&steps), expected);
    assert_eq!(container(&world, "shop-web").id, id, "the same container");
    assert_eq!(world.run(&joined("a")), []);
}

#[test]
fn service_is_created_again_with_the_owner_of_its_network() {
    let mut world = World::new(Vec::new());
    world.run(&joined("a"));
    let (vpn, web) = (container(&world, "shop-vpn").id, container(&world, "shop-web").id);
    let steps = world.run(&joined("c"));
    let calls = calls(&steps);
    let at = |call: &str| calls.iter().position(|it| it == call).unwrap();
    assert!(at("web: stop-container") < at("vpn: stop-container"), "{calls:?}");
    assert!(
        at("vpn: start-container") < at("web: start-container"),
        "{calls:?}"
    );
    let (new_vpn, new_web) = (container(&world, "shop-vpn"), container(&world, "shop-web"));
    assert!(new_vpn.id != vpn && new_web.id != web);
    assert!(new_vpn.state.is_up() && new_web.state.is_up());
    assert_eq!(world.store.containers().count(), 2);
    assert_eq!(world.run(&joined("c")), []);
}

#[test]
fn dependent_restarts_only_if_its_file_requests_it() {
    for (web, expected) in [
        ("dependsOn: [vpn]", &[][..]),
        (
            "dependsOn: [{ service: vpn, restart: true }]",
            &["web: stop-container", "web: start-container"][..],
        ),
    ] {
        let mut world = World::new(Vec::new());
        world.run(&specs("a", web));
        restart_vpn(&mut world);
        assert_eq!(calls(&world.run(&specs("a", web))), expected, "{web}");
        assert_eq!(world.run(&specs("a", web)), []);
    }
}
