//! The restart rate limit: many failures in parallel do not restart in parallel.

use std::time::Duration;

use argus_core::action::ActionKind;
use argus_tests::fixture::{LIMIT, text};
use argus_tests::{Controller, RunOptions};
use rustix::process::Signal;
use serde_json::Value;

use super::case::{Case, PlannedAction, send, shell, until};

const SERVICES: [&str; 3] = ["bad", "other", "third"];
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn restart_beyond_the_limit_waits_for_the_minute() {
    let options = RunOptions {
        args: vec!["--restart-rate-limit".to_owned(), "2".to_owned()],
        ..RunOptions::default()
    };
    let further = ["other", "third"].map(|name| {
        format!("\n  {name}:\n    image: busybox:local\n    container: {{ name: ratelimit-{name} }}")
    });
    let service = shell("ratelimit", "exec sleep 3600", "") + &further.concat();
    let case = Case::start_with(options, "ratelimit", "restartDelay: 1s", &service);
    case.argus.wait_ready("ratelimit", LIMIT);
    // The first restart of each service is not limited.
    for restarts in 1..=2 {
        for name in SERVICES {
            send(case.engine, &format!("ratelimit-{name}"), Signal::KILL);
        }
        if restarts == 1 {
            case.argus
                .wait_status("ratelimit", LIMIT, "restarts all services", |status| {
                    let is_again = |service: Value| service["state"] == "Ready" && service["restarts"] == 1;
                    SERVICES
                        .iter()
                        .all(|name| is_again(Controller::service(status, name)))
                });
        }
    }
    let of = |status: &Value| SERVICES.map(|name| Controller::service(status, name));
    let is_limited = |service: &&Value| service["waitingOn"]["reason"] == "RateLimited";
    let is_restarted = |service: &&Value| service["state"] == "Ready" && service["restarts"] == 2;
    let status = case
        .argus
        .wait_status("ratelimit", LIMIT, "is restarted up to the limit", |status| {
            let services = of(status);
            services.iter().filter(is_limited).count() == 1
                && services.iter().filter(is_restarted).count() == 2
        });
    assert_ne!(status["phase"], "Ready");
    let services = of(&status);
    let waiting = services.iter().find(is_limited).expect("it waits");
    let message = text(&waiting["waitingOn"]["message"]);
    assert!(message.contains("2 per minute"), "{waiting:#}");
    let starts = SERVICES.iter().flat_map(|name| case.actions(name));
    let is_restart =
        |action: &PlannedAction| action.kind == ActionKind::StartContainer && action.cause == "restart 2";
    let starts: Vec<_> = starts.filter(is_restart).map(|action| action.at).collect();
    assert_eq!(starts.len(), 2, "{starts:?}");
    let first = starts.into_iter().min().expect("two restarts");
    assert_eq!(until(waiting), first + MINUTE, "{waiting:#}");
}
