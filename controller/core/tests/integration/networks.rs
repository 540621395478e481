//! Several networks of one environment: creation, attachments, repair, removal and external networks.
#![allow(clippy::unwrap_used, reason = "all names in these tests are valid")]

use std::sync::Arc;

use argus_core::action::{Action, Step, Subject};
use argus_core::ident::ResourceName;
use argus_core::observed::{Container, Object, ObjectId, WatchEvent};
use argus_core::outcome::ActionError;

use crate::moved_networks::{Specs, World, env, specs_of};

const SERVICES: &str = "services:\n  db: { image: a, container: { name: shop-db, networks: { back: { aliases: [database] } } } }\n  \
                        web: { image: a, container: { name: shop-web, networks: [default, back] } }\n";
const OWN: &str = "argusai-shop-network";
const BACK: &str = "argusai-shop_back";

fn wide() -> Specs {
    specs_of(&format!("networks: {{ back: {{ internal: true }} }}\n{SERVICES}"))
}

fn sorted(world: &World) -> Vec<String> {
    let mut networks = world.network();
    networks.sort();
    networks
}

fn container(world: &World, name: &str) -> Container {
    let mut all = world.store.containers();
    let found = all.find(|container| container.name == name);
    Container::clone(found.unwrap())
}

fn networks(world: &World, name: &str) -> Vec<String> {
    container(world, name).networks.into_keys().collect()
}

fn verbs(steps: &[Step], service: &str) -> Vec<&'static str> {
    let own = steps.iter().filter(|step| {
        let name = step.subject.service();
        name.is_some_and(|name| name.as_str() == service)
    });
    own.map(|step| step.action.verb()).collect()
}

/// Changes a container as a person does.
fn change(world: &mut World, name: &str, change: impl FnOnce(&mut Container)) {
    let mut container = container(world, name);
    change(&mut container);
    world
        .store
        .apply(WatchEvent::Apply(Object::Container(Arc::new(container))));
}

#[test]
fn container_is_on_all_its_networks_before_its_first_start() {
    let mut world = World::new(Vec::new());
    let steps = world.run(&wide());
    assert_eq!(sorted(&world), [OWN, BACK]);
    assert_eq!(networks(&world, "shop-db"), [BACK]);
    assert_eq!(networks(&world, "shop-web"), [OWN, BACK]);
    let create = ["create-container", "start-container"];
    assert_eq!(verbs(&steps, "db"), create);
    assert_eq!(verbs(&steps, "web"), [create[0], "connect-network", create[1]]);
    let db = container(&world, "shop-db");
    assert!(db.networks[BACK].aliases.contains(&"database".to_owned()));
    let web = &container(&world, "shop-web").networks[BACK];
    assert_eq!(web.aliases, ["web", "shop-web"]);
    let internal = |step: &&Step| match &step.action {
        Action::CreateNetwork { name, labels, .. } => {
            labels.contains_key("argusai.internal") == (name.as_str() == BACK)
        }
        _ => true,
    };
    assert!(steps.iter().all(|step| internal(&step)), "{steps:?}");
    assert_eq!(world.run(&wide()), []);
}

#[test]
fn missing_attachment_is_repaired_without_a_restart() {
    let mut world = World::new(Vec::new());
    world.run(&wide());
    for network in [OWN, BACK] {
        change(&mut world, "shop-web", |web| drop(web.networks.remove(network)));
        let steps = world.run(&wide());
        assert_eq!(verbs(&steps, "web"), ["connect-network"], "{network}: {steps:?}");
        assert_eq!(steps.len(), 1);
        assert_eq!(networks(&world, "shop-web"), [OWN, BACK]);
    }
    change(&mut world, "shop-db", |db| {
        db.networks.get_mut(BACK).unwrap().aliases = vec!["db".to_owned()];
    });
    let steps = world.run(&wide());
    assert_eq!(verbs(&steps, "db"), ["disconnect-network", "connect-network"]);
}

#[test]
fn removed_network_comes_back_below_running_containers() {
    let mut world = World::new(Vec::new());
    world.run(&wide());
    let observed = world.store.of(&env()).unwrap();
    let back = observed.find_network(&ResourceName::new(BACK).unwrap()).unwrap();
    let id = ObjectId::Network(back.id.clone());
    world.store.apply(WatchEvent::Delete(id));
    for name in ["shop-db", "shop-web"] {
        change(&mut world, name, |container| {
            container.networks.remove(BACK);
        });
    }
    let steps = world.run(&wide());
    assert_eq!(sorted(&world), [OWN, BACK]);
    assert_eq!(networks(&world, "shop-web"), [OWN, BACK]);
    assert!(
        !steps.iter().any(|step| step.action.verb() == "start-container"),
        "{steps:?}"
    );
}

#[test]
fn network_that_no_service_uses_is_removed() {
    let mut world = World::new(Vec::new());
    world.run(&wide());
    let narrow = SERVICES.replace("[default, back]", "[back]");
    world.run(&specs_of(&format!(
        "networks: {{ back: {{ internal: true }} }}\n{narrow}"
    )));
    assert_eq!(sorted(&world), [BACK]);
    world.run(&Specs::new());
    assert_eq!(world.network(), [""; 0]);
}

#[test]
fn changed_internal_replaces_only_its_network() {
    let mut world = World::new(Vec::new());
    world.run(&wide());
    let ids = |world: &World| {
        let observed = world.store.of(&env()).unwrap();
        [OWN, BACK].map(|name| {
            observed
                .find_network(&ResourceName::new(name).unwrap())
                .unwrap()
                .id
                .clone()
        })
    };
    let before = ids(&world);
    let steps = world.run(&specs_of(&format!("networks: {{ back: {{}} }}\n{SERVICES}")));
    let after = ids(&world);
    assert_eq!(before[0], after[0]);
    assert_ne!(before[1], after[1]);
    assert!(
        !steps.iter().any(|step| step.action.verb() == "stop-container"),
        "{steps:?}"
    );
}

#[test]
fn derived_name_of_a_further_network_moves() {
    let mut world = World::new(vec![BACK]);
    world.run(&wide());
    assert_eq!(sorted(&world), [OWN, "argusai-shop_back-2"]);
    assert_eq!(networks(&world, "shop-web"), [OWN, "argusai-shop_back-2"]);
    // A network of the file keeps its name, and the moved one takes another.
    let names = "networks: { back: {}, back-2: {} }\n";
    let services = SERVICES.replace("[default, back]", "[default, back, back-2]");
    let mut world = World::new(vec![BACK]);
    world.run(&specs_of(&format!("{names}{services}")));
    assert_eq!(
        sorted(&world),
        [OWN, "argusai-shop_back-2", "argusai-shop_back-3"]
    );
}

#[test]
fn external_network_is_checked_and_never_created_or_removed() {
    let text = format!("networks: {{ back: {{ external: true, name: company }} }}\n{SERVICES}");
    let specs = specs_of(&text);
    let mut world = World::new(Vec::new());
    let steps = world.run(&specs);
    assert!(
        steps.iter().all(|step| step.subject.service().is_none()),
        "{steps:?}"
    );
    let subject = Subject::Network {
        environment: env(),
        name: Some(ResourceName::new("back").unwrap()),
    };
    let failure = &world.planner.state().action_failures[&subject];
    assert_eq!(failure.error, ActionError::NetworkNotFound("company".to_owned()));
    let mut world = World::new(vec!["company"]);
    let steps = world.run(&specs);
    assert_eq!(networks(&world, "shop-web"), [OWN, "company"]);
    assert_eq!(sorted(&world), [OWN]);
    let is_external = |step: &Step| match &step.action {
        Action::ConnectNetwork {
            network, external, ..
        } => network == "company" && *external,
        _ => true,
    };
    assert!(steps.iter().all(is_external), "{steps:?}");
    let steps = world.run(&Specs::new());
    let removed = |step: &&Step| matches!(&step.action, Action::RemoveNetwork { name, .. } if name == OWN);
    assert_eq!(steps.iter().filter(removed).count(), 1);
}
