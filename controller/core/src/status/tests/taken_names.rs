//! Remedies of names and volumes that belong to others.

use super::*;

#[test]
fn data_of_a_compose_project_stay_with_every_remedy() {
    let mut shop = Shop::ready();
    let on = WaitReason::NameTaken {
        name: "shop_data".to_owned(),
        conflicting_object: "the Compose project `shop`".to_owned(),
        until: NOW,
        attempts: Vec::new(),
        compose_project: Some("shop".to_owned()),
    };
    shop.add_wait("web", on);
    let status = shop.status();
    let mut errors = status.errors.iter();
    let error = errors.find(|error| error.code == Code::NameConflict).unwrap();
    assert_eq!(
        error.remedies[0].command.as_deref(),
        Some("docker compose -p shop down")
    );
    for remedy in &error.remedies {
        let command = remedy.command.as_deref().unwrap_or_default();
        assert!(!command.contains("--volumes"), "{command}");
    }
    assert!(error.suggested_actions.contains(&ActionId::SetNamespace));
}

#[test]
fn container_of_another_controller_is_not_being_removed() {
    let mut shop = Shop::ready();
    shop.accepted = None;
    shop.plan = Some(Plan::default());
    assert_eq!(shop.status().services.len(), 2);
    let all: Vec<Arc<Container>> = shop.observed.containers.values().cloned().collect();
    for mut container in all {
        let own = &mut Arc::make_mut(&mut container).labels;
        own.insert(labels::CONTROLLER.to_owned(), "OTHER".to_owned());
        shop.observed.containers.insert(container);
    }
    assert_eq!(shop.status().services, []);
}
