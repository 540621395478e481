//! Holds, test leases and removals that end.

use super::*;

fn env(name: &str) -> EnvName {
    EnvName::new(name).unwrap()
}

fn service(name: &str) -> ServiceName {
    ServiceName::new(name).unwrap()
}

fn hold(name: Option<&str>, until: Option<i64>) -> Hold {
    Hold {
        environment: env("shop"),
        service: name.map(service),
        since: Timestamp(0),
        until: until.map(Timestamp),
        stops: false,
        reason: String::new(),
        holder: None,
        command: None,
    }
}

#[test]
fn hold_covers_its_subject_until_it_ends() {
    let mut requests = UserRequests::default();
    requests.add_hold(hold(Some("web"), Some(100)));
    let held = |requests: &UserRequests, name: &str, at: i64| {
        requests
            .hold(&env("shop"), &service(name), Timestamp(at))
            .is_some()
    };
    assert!(held(&requests, "web", 99) && !held(&requests, "web", 100) && !held(&requests, "db", 1));
    requests.add_hold(hold(None, None));
    assert!(held(&requests, "db", 1_000_000));
    assert!(
        requests
            .hold(&env("other"), &service("web"), Timestamp(1))
            .is_none()
    );
    assert!(requests.resume(&env("shop"), None));
    assert_eq!(requests, UserRequests::default());
    assert!(!requests.resume(&env("shop"), None));
}

#[test]
fn start_ends_only_the_stops_of_its_services() {
    let stop = |name: &str| Hold {
        stops: true,
        ..hold(Some(name), None)
    };
    let mut requests = UserRequests {
        holds: vec![hold(Some("db"), None), stop("web"), stop("api")],
        ..UserRequests::default()
    };
    requests.start(&env("other"), None);
    assert_eq!(requests.holds.len(), 3);
    requests.start(&env("shop"), Some(&service("web")));
    assert_eq!(requests.holds, [hold(Some("db"), None), stop("api")]);
    requests.start(&env("shop"), None);
    assert_eq!(requests.holds, [hold(Some("db"), None)]);
}

#[test]
fn later_hold_keeps_a_stop() {
    let stop = Hold {
        stops: true,
        ..hold(Some("web"), None)
    };
    let mut requests = UserRequests::default();
    requests.add_hold(stop.clone());
    requests.add_hold(hold(None, Some(100)));
    requests.add_hold(hold(Some("web"), Some(100)));
    let web = |at: i64| requests.hold(&env("shop"), &service("web"), Timestamp(at));
    assert_eq!(web(99), Some(&hold(None, Some(100))), "no step at all");
    assert_eq!(web(100), Some(&stop));
    requests.expire(Timestamp(100));
    assert_eq!(requests.holds, [stop]);
}

#[test]
fn expired_removal_is_forgotten_with_its_volumes() {
    let mut requests = UserRequests::default();
    let projects = ["shop".to_owned()];
    requests.request_orphan_removal(projects, VolumeRemoval::AllFolders, Timestamp(10));
    requests.expire(Timestamp(9));
    assert!(requests.is_volume_removal_requested("shop", true, Timestamp(9)));
    requests.expire(Timestamp(10));
    assert_eq!(requests, UserRequests::default());
}

#[test]
fn stored_requests_without_holder_are_read() {
    let stored = r#"{"holds":[{"environment":"shop","service":null,"since":0,"until":null,"reason":"look"}],
        "leases":[{"environment":"shop","case":"a","since":0,"until":10}]}"#;
    let requests: UserRequests = serde_json::from_str(stored).unwrap();
    assert_eq!(
        (&requests.holds[0].holder, &requests.test_leases[0].purpose),
        (&None, &None)
    );
    let again: UserRequests = serde_json::from_str(&serde_json::to_string(&requests).unwrap()).unwrap();
    assert_eq!(requests, again);
}

#[test]
fn test_lease_ends_on_expiry_or_by_request() {
    let lease = |case: &str, until| TestLease {
        environment: env("shop"),
        case: case.to_owned(),
        since: Timestamp(0),
        until: Timestamp(until),
        holder: None,
        purpose: None,
        unverified: None,
    };
    let mut requests = UserRequests::default();
    requests.begin(lease("a", 10));
    requests.begin(lease("b", 20));
    requests.begin(lease("a", 15));
    assert_eq!(requests.test_leases.len(), 2, "restarted, not added twice");
    let current = |requests: &UserRequests, at| {
        requests
            .test_lease(&env("shop"), Timestamp(at))
            .map(|lease| lease.case.clone())
    };
    assert_eq!(current(&requests, 5).as_deref(), Some("b"));
    assert_eq!(requests.next_end(Timestamp(5)), Some(Timestamp(15)));
    assert!(requests.end(&env("shop"), "b").is_some() && requests.end(&env("shop"), "b").is_none());
    assert_eq!(current(&requests, 14).as_deref(), Some("a"));
    assert_eq!(current(&requests, 15), None);
    requests.expire(Timestamp(15));
    assert_eq!(requests.test_leases.len(), 1, "it can still be ended");
    assert_eq!(requests.next_end(Timestamp(15)), None);
    requests.expire(Timestamp(15) + EXPIRED_LIMIT);
    assert_eq!(requests, UserRequests::default());
}
