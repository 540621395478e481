//! Tests of the networks of a file: names, external networks, attachments and errors.

use argus_crds::Diagnostic;

use super::*;
use crate::desired::admit::{Admission, admit};
use crate::desired::hash::revision_of;
use crate::ident::ServiceName;

fn admitted(text: &str, allowed: bool) -> Admission {
    let text = format!("project: {{ name: shop }}\n{text}");
    let parsed = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
    assert_eq!(parsed.diagnostics, [], "{text}");
    let mut context = SpecContext::default();
    context.host.allowed = allowed;
    admit(&parsed.spec.unwrap(), &context)
}

fn desired(text: &str) -> Desired {
    let admission = admitted(text, true);
    admission
        .desired
        .unwrap_or_else(|| panic!("{:?}", admission.diagnostics))
}

/// A file with these services, each with its networks.
fn services(all: &[(&str, &str)]) -> String {
    let one = |(name, networks): &(&str, &str)| {
        format!("  {name}: {{ image: a, container: {{ name: shop-{name}, networks: {networks} }} }}\n")
    };
    let all: String = all.iter().map(one).collect();
    format!("services:\n{all}")
}

fn names<'a>(networks: impl Iterator<Item = EnvNetwork<'a>>) -> Vec<&'a str> {
    networks.map(|network| network.name.as_str()).collect()
}

fn service<'a>(desired: &'a Desired, name: &str) -> &'a Service {
    &desired.services[&ServiceName::new(name).unwrap()]
}

const WIDE: &str = "networks:\n  back: { internal: true }\n  front: { name: chosen }\n  proxy: { external: true }\n  lan: { external: true, name: company }\n";

#[test]
fn services_are_on_the_networks_that_they_list() {
    let all = services(&[
        ("db", "{ back: { aliases: [database, db.example.com] } }"),
        ("api", "[default, back]"),
        ("web", "[front, proxy, lan]"),
        ("own", "[]"),
    ]);
    let desired = desired(&format!("{WIDE}{all}"));
    let on = |name: &str| names(desired.networks_of(service(&desired, name)));
    assert_eq!(on("db"), ["argusai-shop_back"]);
    assert_eq!(on("api"), ["argusai-shop-network", "argusai-shop_back"]);
    assert_eq!(on("web"), ["chosen", "company", "proxy"]);
    assert_eq!(on("own"), ["argusai-shop-network"]);
    assert_eq!(names(desired.used_networks()).len(), 5);
    let external = desired.used_networks().filter(|network| network.external);
    assert_eq!(names(external), ["company", "proxy"]);
    let internal = desired.used_networks().filter(|network| network.internal);
    assert_eq!(names(internal), ["argusai-shop_back"]);
    let db = service(&desired, "db");
    let networks: Vec<_> = desired.networks_of(db).collect();
    let aliases: Vec<_> = db.aliases_on(&networks[0]).collect();
    assert_eq!(aliases, ["shop-db", "database", "db.example.com"]);
    for (one, other, shared) in [
        ("db", "api", true),
        ("api", "own", true),
        ("db", "own", false),
        ("web", "api", false),
    ] {
        assert_eq!(
            service(&desired, one).shares_network(service(&desired, other)),
            shared,
            "{one} {other}"
        );
    }
}

#[test]
fn default_network_alone_changes_no_revision() {
    let plain = desired(&services(&[("web", "[]")]));
    let listed = desired(&services(&[("web", "[default]")]));
    assert_eq!(revision_of(&listed), revision_of(&plain));
    let json = serde_json::to_string(&listed).unwrap();
    assert!(!json.contains("networks"), "{json}");
}

#[test]
fn environment_without_services_on_the_default_network_has_none() {
    let text = format!("networks: {{ back: {{}} }}\n{}", services(&[("web", "[back]")]));
    let desired = desired(&text);
    assert_eq!(names(desired.used_networks()), ["argusai-shop_back"]);
    assert_eq!(names(desired.declared_networks()).len(), 2);
}

#[test]
fn fork_has_networks_of_its_own() {
    let all = services(&[("web", "[default, front, back, proxy, lan]")]);
    let fork = desired(&format!("{WIDE}{all}")).forked(&EnvName::new("two").unwrap());
    let expected = [
        "argusai-two-network",
        "argusai-two_back",
        "argusai-two_front",
        "company",
        "proxy",
    ];
    assert_eq!(names(fork.used_networks()), expected);
}

#[test]
fn invalid_networks_are_reported_at_their_keys() {
    let check = |diagnostics: &[Diagnostic], path: &str, is_error: bool| {
        let found = diagnostics
            .iter()
            .any(|it| it.path == path && it.is_error() == is_error);
        assert!(found, "{path}: {diagnostics:?}");
    };
    let one = services(&[("web", "[back]")]);
    for (text, path, is_error) in [
        (
            "networks: { bak: {} }",
            "services[0].container.networks.back",
            true,
        ),
        ("networks: { back: {}, unused: {} }", "networks.unused", false),
        ("networks: { back: {}, default: {} }", "networks.default", true),
        ("networks: { back: { name: a/b } }", "networks.back.name", true),
        (
            "networks: { back: { external: true, name: host } }",
            "networks.back.name",
            true,
        ),
        (
            "networks: { back: { external: true, internal: true } }",
            "networks.back.internal",
            false,
        ),
        (
            "networks: { back: { name: argusai-shop-network } }",
            "networks.back",
            true,
        ),
        (
            "network: { external: true }\nnetworks: { back: {} }",
            "network.external",
            true,
        ),
    ] {
        check(
            &admitted(&format!("{text}\n{one}"), true).diagnostics,
            path,
            is_error,
        );
    }
    let alias = services(&[("web", "{ default: { aliases: [ok, '-'] } }")]);
    check(
        &admitted(&alias, true).diagnostics,
        "services[0].container.networks.default.aliases[1]",
        true,
    );
    let external = format!("networks: {{ back: {{ external: true }} }}\n{one}");
    let refused = admitted(&external, false);
    check(&refused.diagnostics, "networks.back.external", true);
    assert!(refused.diagnostics.iter().any(|it| {
        it.hint
            .as_deref()
            .is_some_and(|hint| hint.contains("`argus allow`"))
    }));
}

#[test]
fn port_needs_a_network_that_is_not_internal() {
    let web = |networks: &str| {
        format!(
            "networks: {{ back: {{ internal: true }}, front: {{}} }}\nservices:\n  web: {{ image: a, container: {{ name: w, ports: ['80:80'], networks: {networks} }} }}\n"
        )
    };
    let errors = |networks: &str| {
        let all = admitted(&web(networks), true).diagnostics;
        all.into_iter()
            .filter(Diagnostic::is_error)
            .map(|it| it.path)
            .collect::<Vec<_>>()
    };
    assert_eq!(errors("[back]"), ["services[0].container.ports"]);
    assert_eq!(errors("[back, front]"), [""; 0]);
}

#[test]
fn one_alias_on_two_separate_networks_is_clear() {
    let warnings = |web: &str| {
        let all = services(&[("a", "{ back: { aliases: [db] } }"), ("b", web)]);
        let text = format!("networks: {{ back: {{}}, front: {{}} }}\n{all}");
        let admission = admitted(&text, true);
        admission
            .diagnostics
            .iter()
            .filter(|it| it.message.contains("`db`"))
            .count()
    };
    assert_eq!(warnings("{ front: { aliases: [db] } }"), 0);
    assert_eq!(warnings("{ front: { aliases: [db] }, back: {} }"), 1);
}

#[test]
fn alias_is_compared_with_all_services_of_that_alias() {
    let alias = |network: &str| format!("{{ {network}: {{ aliases: [db] }} }}");
    let (front, back) = (alias("front"), alias("back"));
    let all = services(&[("a", &front), ("b", &back), ("c", &back)]);
    let text = format!("networks: {{ back: {{}}, front: {{}} }}\n{all}");
    let found = admitted(&text, true).diagnostics;
    let found = found.iter().map(|it| it.message.as_str());
    let found: Vec<_> = found.filter(|it| it.starts_with("`db`")).collect();
    assert_eq!(found, ["`db` is both an alias of `c` and an alias of `b`"]);
}

#[test]
fn mock_lists_its_networks() {
    let text = "networks: { back: {} }\nmocks:\n  pay: { port: 9001, networks: [back], routes: [] }\n";
    let desired = desired(text);
    assert_eq!(
        names(desired.networks_of(service(&desired, "pay"))),
        ["argusai-shop_back"]
    );
}
