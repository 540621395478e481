//! Tests that a listener receives every error once, with all fields, and heartbeats between events.

use argus_core::time::Timestamp;
use argus_crds::error::Code;
use argus_reconciler::clock::Clock;
use axum::body::Body;
use http_body_util::BodyExt as _;

use super::*;
use crate::error_fixtures::{assert_complete, full_of_errors};
use crate::http::assert_passed;
use crate::http::limits::Limits;
use crate::metrics::HttpMetrics;

/// Creates a client of a controller with the statuses in `statuses`.
fn client(statuses: &watch::Sender<Arc<Statuses>>, kind: &str) -> EventSubscriber {
    let dir = tempfile::tempdir().unwrap();
    let feed = Feed::from_files(dir.path().join("journal.jsonl"));
    let query = EventsQuery {
        kind: Some(kind.to_owned()),
        ..EventsQuery::default()
    };
    EventSubscriber {
        filter: parse_filter(&query).unwrap(),
        newest: watch::Sender::new(0).subscribe(),
        feed,
        statuses: statuses.subscribe(),
        last: 0,
        known: Arc::default(),
        fresh: true,
        trust: Trust::User,
        _listening: HttpMetrics::default().count_open_stream(),
        _permit: Limits::new(HttpMetrics::default()).open_stream().unwrap(),
    }
}

/// Reads the data of the first events of a stream.
async fn first_events(
    events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
    count: usize,
) -> Vec<Value> {
    let body = Sse::new(events.take(count)).into_response().into_body();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn record_for_caller(status: EnvironmentStatus) -> Arc<Statuses> {
    let mut statuses = Statuses::default();
    statuses
        .environments
        .insert(status.environment.clone(), Arc::new(status));
    Arc::new(statuses)
}

#[tokio::test]
async fn new_listener_receives_every_current_error() {
    let sender = watch::Sender::new(record_for_caller(full_of_errors()));
    let value = first_events(event_stream(client(&sender, "problem")), Code::ALL.len()).await;
    for (code, value) in Code::ALL.iter().zip(&value) {
        assert_complete(*code, value);
    }
}

#[tokio::test]
async fn listener_without_the_token_receives_no_output() {
    let mut status = full_of_errors();
    for error in &mut status.errors {
        *error = error.clone().tails("wolpertinger", "wolpertinger");
        "wolpertinger".clone_into(&mut error.message);
    }
    let quoting = |code: &Value| ["CONTAINER_CRASH", "BUILD_FAILED"].contains(&code.as_str().unwrap());
    let sender = watch::Sender::new(record_for_caller(status));
    for trust in [Trust::Anyone, Trust::User] {
        let mut client = client(&sender, "problem");
        client.trust = trust;
        let values = first_events(event_stream(client), Code::ALL.len()).await;
        for value in values.iter().filter(|value| quoting(&value["code"])) {
            let shown = value.to_string().contains("wolpertinger");
            assert_eq!(shown, trust == Trust::User, "{value}");
        }
        let tails = values.iter().filter(|value| value["stderrTail"].is_string());
        let expected = if trust == Trust::User { Code::ALL.len() } else { 0 };
        assert_eq!(tails.count(), expected, "{trust:?}");
    }
}

#[test]
fn summary_without_the_token_has_no_output() {
    let status = |message: &str| {
        let mut status = full_of_errors();
        let crash = status
            .errors
            .iter()
            .position(|error| error.code == Code::ContainerCrash);
        status.errors.swap(0, crash.unwrap());
        message.clone_into(&mut status.errors[0].message);
        record_for_caller(status)
    };
    let sender = watch::Sender::new(status("first"));
    for trust in [Trust::Anyone, Trust::User] {
        let mut client = client(&sender, "snapshot,environment");
        client.trust = trust;
        let mut events = client.snapshot_events();
        sender.send_replace(status("wolpertinger"));
        events.extend(client.change_events());
        sender.send_replace(status("first"));
        let shown = format!("{events:?}");
        assert_eq!(shown.contains("wolpertinger"), trust == Trust::User, "{shown}");
    }
}

#[tokio::test]
async fn rephrased_error_is_not_sent_again() {
    let all = full_of_errors();
    let one = |index: usize, message: &str| {
        let mut status = all.clone();
        status.errors = vec![all.errors[index].clone()];
        message.clone_into(&mut status.errors[0].message);
        record_for_caller(status)
    };
    let sender = watch::Sender::new(one(0, "first"));
    let mut client = client(&sender, "problem");
    assert_eq!(client.next().await.unwrap().len(), 1);
    sender.send_replace(one(0, "the same, again"));
    assert!(client.change_events().is_empty());
    sender.send_replace(one(1, "another"));
    assert_eq!(client.next().await.unwrap().len(), 1);
}

#[tokio::test]
async fn controller_errors_go_to_unfiltered_listeners() {
    let mut statuses = Statuses::default();
    statuses.controller.errors = full_of_errors().errors;
    let sender = watch::Sender::new(Arc::new(statuses));
    let mut everything = client(&sender, "problem");
    assert_eq!(everything.snapshot_events().len(), Code::ALL.len());
    let mut of_one = client(&sender, "problem");
    of_one.filter.environments.insert("shop".to_owned());
    assert!(of_one.snapshot_events().is_empty());
}

/// Reads the next part of a response, without line ends.
async fn next_part(body: &mut Body) -> String {
    let frame = body.frame().await.unwrap().unwrap();
    let bytes = frame.into_data().unwrap();
    String::from_utf8(bytes.to_vec()).unwrap().trim().replace(' ', "")
}

#[tokio::test(start_paused = true)]
async fn silent_stream_sends_a_comment_every_15_s() {
    let (statuses, newest) = (watch::Sender::new(Arc::default()), watch::Sender::new(0));
    let client = EventSubscriber {
        newest: newest.subscribe(),
        ..client(&statuses, "problem")
    };
    let clock = Clock::virtual_from(Timestamp(0));
    let mut body = stream_response(event_stream(client)).into_body();
    for count in 1..=3 {
        assert_eq!(next_part(&mut body).await, ":alive");
        assert_passed(clock, Duration::from_secs(15 * count));
    }
}

#[tokio::test(start_paused = true)]
async fn event_postpones_the_next_heartbeat() {
    let late = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok::<_, Infallible>(Event::default().data("x"))
    };
    let clock = Clock::virtual_from(Timestamp(0));
    let mut body = stream_response(stream::once(late).chain(stream::pending())).into_body();
    assert_eq!(next_part(&mut body).await, "data:x");
    assert_passed(clock, Duration::from_secs(10));
    assert_eq!(next_part(&mut body).await, ":alive");
    assert_passed(clock, Duration::from_secs(25));
}
