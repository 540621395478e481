//! Programs that listen only inside their containers: the warning, and the edit of the errors of other services.

use argus_crds::error::SpecEdit;

use super::spec_edits::failing_in;
use super::*;

const SPEC: &str = "project: { name: shop }
services:
  db:
    image: db:1
    container:
      name: shop-db
      ports: [\"5432:5432\"]
      environment:
        HOST: 127.0.0.1
      healthcheck: { type: exec, command: [true] }
  web:
    image: web:1
    container:
      name: shop-web
      environment: { URL: \"http://db:5432\" }
      healthcheck: { type: exec, command: [true] }
";

fn shop(text: &str) -> Shop {
    let mut shop = Shop::ready();
    let network = shop
        .accepted
        .as_ref()
        .map(|accepted| accepted.desired.network.clone());
    shop.accepted = failing_in(text, |_| {}).accepted;
    let desired = &mut shop.accepted.as_mut().unwrap().desired;
    desired.network = network.unwrap();
    shop.attach_all();
    shop
}

fn warnings(shop: &Shop) -> Vec<String> {
    let warnings = shop.status().diagnostics.into_iter();
    warnings
        .map(|it| format!("{}; {}", it.message, it.hint.unwrap_or_default()))
        .collect()
}

#[test]
fn refused_link_changes_the_listen_address_of_its_target() {
    let mut shop = shop(SPEC);
    let change = "change `HOST` from `127.0.0.1` to `0.0.0.0` in environments/shop/e2e.yaml:9";
    let broken = check_with_error(&shop, Some(refused()));
    shop.connectivity.checks.insert(shop.env.clone(), broken);
    let error = &shop.status().errors[0];
    assert_eq!(error.code, Code::NetworkUnreachable);
    let edit = error.remedies[0].edit.as_ref();
    assert_eq!(edit.map(SpecEdit::change).as_deref(), Some(change));
    assert_eq!(
        warnings(&shop),
        [format!(
            "port 5432 of `db` is published, but the file sets a loopback address as its listen address; {change}"
        )]
    );
    // Another service connected.
    let good = check_with_error(&shop, None);
    shop.connectivity.checks.insert(shop.env.clone(), good);
    assert_eq!(warnings(&shop), [""; 0]);
}

#[test]
fn reachable_program_has_no_warning() {
    for (part, other) in [
        ("HOST: 127.0.0.1", "HOST: 0.0.0.0"),
        ("HOST: 127.0.0.1", "CACHE_HOST: 127.0.0.1"),
        ("HOST: 127.0.0.1", "METRICS_LISTEN: 127.0.0.1:9100"),
        ("ports: [\"5432:5432\"]", "labels: {}"),
        ("type: exec, command: [true]", "type: tcp, port: 5432"),
    ] {
        assert_eq!(
            warnings(&shop(&SPEC.replacen(part, other, 1))),
            [""; 0],
            "{other}"
        );
    }
    assert_eq!(warnings(&shop(SPEC)).len(), 1);
}
