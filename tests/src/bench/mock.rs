//! Load test of one mock: 5,000 requests per second, and its memory over a million requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use argus_tests::mock::MockServer;
use argus_tests::wait;
use serde_json::json;

use super::figure::Figure;

/// Number of connections that send requests in parallel.
const CLIENTS: u32 = 16;
const RATE: u32 = 5_000;
const SECONDS: u32 = 20;
/// Requests before the first measurement of memory.
const WARM: usize = 100_000;
const ALL: usize = 1_000_000;

pub(crate) fn run(figures: &mut Vec<Figure>) {
    let routes: Vec<_> = (0..50)
        .map(|number| json!({ "method": "GET", "path": format!("/kind{number}/:id"), "response": { "body": { "id": "{{request.params.id}}", "at": "{{timestamp}}" } } }))
        .collect();
    let config = json!({ "version": 1, "name": "m", "mock": { "port": 1, "routes": routes } });
    let mock = MockServer::start(&config);
    paced(&mock, figures);
    flat(&mock, figures);
}

/// Every client sends at fixed times, even if the previous response was late: waiting counts.
#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn paced(mock: &MockServer, figures: &mut Vec<Figure>) {
    let (errors, each) = (AtomicUsize::new(0), RATE / CLIENTS * SECONDS);
    let begin = Instant::now() + Duration::from_millis(100);
    let mut took: Vec<f64> = std::thread::scope(|threads| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let errors = &errors;
                threads.spawn(move || {
                    let mut connection = mock.connect();
                    let mut took = Vec::new();
                    for number in 0..each {
                        let slot = f64::from(number * CLIENTS + client) / f64::from(RATE);
                        let due = begin + Duration::from_secs_f64(slot);
                        wait::until_due(due);
                        let path = format!("/kind{}/{number}", number % 50);
                        let answer = connection.request("GET", &path, &[], "");
                        if answer.is_ok_and(|answer| answer.status == 200) {
                            took.push(due.elapsed().as_secs_f64() * 1e3);
                        } else {
                            errors.fetch_add(1, Ordering::Relaxed);
                            connection = mock.connect();
                        }
                    }
                    took
                })
            })
            .collect();
        clients
            .into_iter()
            .flat_map(|client| client.join().expect("a client"))
            .collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    took.sort_by(f64::total_cmp);
    let at = |share: usize| took.get(took.len() * share / 1_000).copied().unwrap_or(f64::NAN);
    let rate = f64::from(u32::try_from(took.len()).unwrap_or(u32::MAX)) / seconds;
    let failed = f64::from(u32::try_from(errors.load(Ordering::Relaxed)).unwrap_or(u32::MAX));
    super::push(
        figures,
        Figure::new("a mock at 5,000 requests per second: answered", "1/s", vec![rate]),
    );
    super::push(
        figures,
        Figure::new("… errors", "", vec![failed]).goal(("0", 0.0)),
    );
    super::push(figures, Figure::new("… p50", "ms", vec![at(500)]));
    super::push(figures, Figure::new("… p99", "ms", vec![at(990)]));
}

/// Every client sends its next request as soon as the response arrives.
#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn flat(mock: &MockServer, figures: &mut Vec<Figure>) {
    let request = AtomicUsize::new(0);
    let until = |all: usize| {
        std::thread::scope(|threads| {
            for _ in 0..CLIENTS {
                threads.spawn(|| {
                    let mut connection = mock.connect();
                    while request.fetch_add(1, Ordering::Relaxed) < all {
                        let answer = connection
                            .request("GET", "/kind7/1", &[], "")
                            .expect("a response");
                        assert_eq!(answer.status, 200);
                    }
                });
            }
        });
        resident(mock.pid())
    };
    let warm = until(WARM);
    let begin = Instant::now();
    let end = until(ALL);
    let rate = f64::from(u32::try_from(ALL - WARM).unwrap_or(u32::MAX)) / begin.elapsed().as_secs_f64();
    super::push(figures, Figure::new("a mock at full speed", "1/s", vec![rate]));
    super::push(
        figures,
        Figure::new("memory of a mock after 100,000 requests", "MiB", vec![warm]),
    );
    super::push(
        figures,
        Figure::new("… after 1,000,000", "MiB", vec![end]).goal(("+ 1 MiB", warm + 1.0)),
    );
}

fn resident(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
