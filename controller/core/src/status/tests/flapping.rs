//! The warning about a health check whose result changes too often.

use super::*;

#[test]
fn fourth_health_change_is_a_warning() {
    for changes in [3, 4] {
        let mut shop = Shop::ready();
        let history = shop.history.service_mut(&name("web"));
        history.health_transitions = (0..changes).map(|at| NOW - Duration::from_secs(at)).collect();
        let status = shop.status();
        assert_eq!(status.phase, Phase::Ready);
        let flaky = status.errors.iter();
        let flaky: Vec<_> = flaky.filter(|error| error.code == Code::FlakySuspected).collect();
        if changes == 3 {
            assert!(flaky.is_empty(), "{flaky:#?}");
            continue;
        }
        assert_eq!(flaky.len(), 1, "{flaky:#?}");
        assert_eq!(
            (flaky[0].severity, flaky[0].service.as_deref()),
            (Severity::Warning, Some("web"))
        );
        let transitions = flaky[0].details["healthTransitions"].as_array();
        assert_eq!(transitions.map(Vec::len), Some(4));
    }
}

#[test]
fn flapping_probes_are_one_warning() {
    let mut shop = Shop::ready();
    shop.history.service_mut(&name("web"));
    let id = ContainerId::new("c-web-e1").unwrap();
    shop.health.get_mut(&id).unwrap().flapping = true;
    let status = shop.status();
    let errors: Vec<_> = status
        .errors
        .iter()
        .map(|error| (error.code, error.severity))
        .collect();
    assert_eq!(errors, [(Code::FlakySuspected, Severity::Warning)]);
    let error = &status.errors[0];
    assert_eq!(error.service.as_deref(), Some("web"));
    assert!(
        error.message.contains("more than half of its probes fail"),
        "{error:#?}"
    );
}
