//! Label selectors of `argus get`, with the equality operators of `kubectl`.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Requirements on the labels of a service, which all must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    /// Value of the label; `None` for any.
    value: Option<String>,
    /// True if the requirement excludes services with this label.
    is_excluded: bool,
}

impl FromStr for LabelSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all: Option<Vec<_>> = text.split(',').map(|part| parse(part.trim())).collect();
        all.map(Self).ok_or_else(|| {
            "write `KEY=VALUE`, `KEY!=VALUE`, `KEY` or `!KEY`, and several of them with commas".to_owned()
        })
    }
}

fn parse(text: &str) -> Option<Requirement> {
    let (key, value, is_excluded) = if let Some((key, value)) = text.split_once("!=") {
        (key, Some(value), true)
    } else if let Some((key, value)) = text.split_once('=') {
        (key, Some(value.strip_prefix('=').unwrap_or(value)), false)
    } else if let Some(key) = text.strip_prefix('!') {
        (key, None, true)
    } else {
        (text, None, false)
    };
    let (key, value) = (key.trim(), value.map(str::trim));
    let is_key = |c: char| c.is_alphanumeric() || "-._/".contains(c);
    let is_valid = !key.is_empty() && key.chars().all(is_key);
    is_valid.then(|| Requirement {
        key: key.to_owned(),
        value: value.map(str::to_owned),
        is_excluded,
    })
}

impl LabelSelector {
    /// True if the labels meet all requirements. As in `kubectl`, `KEY!=VALUE` includes services without the label.
    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| {
            let found = labels.get(&requirement.key);
            let has = found.is_some_and(|found| requirement.value.as_ref().is_none_or(|it| it == found));
            has != requirement.is_excluded
        })
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{EnvironmentStatus, PortMapping, ServiceStatus};

    use super::super::Get;
    use super::*;

    #[test]
    fn selector_matches_as_in_kubectl() {
        let labels = [("team", "payments"), ("example.com/tier", "web"), ("empty", "")];
        let labels = labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        for (selector, expected) in [
            ("team=payments", true),
            ("team==payments", true),
            ("team=other", false),
            ("team!=payments", false),
            ("team!=other", true),
            ("absent!=other", true),
            ("absent=other", false),
            ("team", true),
            ("absent", false),
            ("!absent", true),
            ("!team", false),
            ("empty=", true),
            ("team=", false),
            ("example.com/tier=web, !absent", true),
            ("example.com/tier=web,team!=payments", false),
        ] {
            let parsed: LabelSelector = selector.parse().expect("a selector");
            assert_eq!(parsed.matches(&labels), expected, "{selector}");
        }
    }

    #[test]
    fn invalid_selector_is_refused() {
        for selector in ["", ",", "a=b,", "=a", "!", "!=a", "team in (a)", "a b=c"] {
            assert!(selector.parse::<LabelSelector>().is_err(), "{selector}");
        }
    }

    #[test]
    fn selector_leaves_services_with_their_ports() {
        let row = |name: &str, team: &str| ServiceStatus {
            name: name.to_owned(),
            labels: [("team".to_owned(), team.to_owned())].into(),
            ..ServiceStatus::default()
        };
        let port = |service: &str| PortMapping {
            service: service.to_owned(),
            ..PortMapping::default()
        };
        let select = |selectors: &[&str]| {
            let mut status = EnvironmentStatus {
                services: vec![row("web", "a"), row("db", "b")],
                port_mappings: vec![port("web"), port("db")],
                ..EnvironmentStatus::default()
            };
            let get = Get {
                target: None,
                all_services: false,
                output: None,
                selector: selectors
                    .iter()
                    .map(|text| text.parse().expect("a selector"))
                    .collect(),
                no_headers: false,
                watch: false,
            };
            let is_listed = get.select(&mut status);
            let ports = status.port_mappings.into_iter().map(|it| it.service);
            let names = status.services.into_iter().map(|row| row.name);
            assert!(ports.eq(names.clone()));
            (is_listed, names.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(select(&[]), (true, "web db".to_owned()));
        assert_eq!(select(&["team=b"]), (true, "db".to_owned()));
        assert_eq!(select(&["team", "team!=b"]), (true, "web".to_owned()));
        assert_eq!(select(&["team=a,team=b"]), (false, String::new()));
    }
}
