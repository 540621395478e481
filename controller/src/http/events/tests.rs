//! Who listens hears of every error once, and whole.

use argus_crds::error::Code;

use super::*;
use crate::client::tests::{full_of_errors, whole};
use crate::metrics::HttpMetrics;

/// A client of a controller whose statuses are in `shown`.
fn client(shown: &watch::Sender<Arc<StatusDocuments>>, kind: &str) -> Client {
    let dir = tempfile::tempdir().unwrap();
    let feed = Feed::of_files(dir.path().join("journal.jsonl"));
    let asked = EventsQuery {
        kind: Some(kind.to_owned()),
        ..EventsQuery::default()
    };
    Client {
        wanted: wanted(&asked).unwrap(),
        newest: watch::Sender::new(0).subscribe(),
        feed,
        shown: shown.subscribe(),
        last: 0,
        known: Arc::default(),
        fresh: true,
        trust: Trust::Nobody,
        _listening: HttpMetrics::default().listening(),
    }
}

/// The data of the events that a stream begins with.
async fn heard(
    told: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
    many: usize,
) -> Vec<Value> {
    let body = Sse::new(told.take(many)).into_response().into_body();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn shown(status: EnvironmentStatus) -> Arc<StatusDocuments> {
    let mut shown = StatusDocuments::default();
    shown.environments.insert(status.environment.clone(), status);
    Arc::new(shown)
}

#[tokio::test]
async fn who_comes_hears_of_every_error_that_is_there_whole() {
    let sender = watch::Sender::new(shown(full_of_errors()));
    let told = heard(told(client(&sender, "problem")), Code::ALL.len()).await;
    for (code, told) in Code::ALL.iter().zip(&told) {
        whole(*code, told);
    }
}

#[tokio::test]
async fn a_new_error_is_told_once_and_one_that_is_told_again_in_other_words_is_not() {
    let all = full_of_errors();
    let one = |index: usize, message: &str| {
        let mut status = all.clone();
        status.errors = vec![all.errors[index].clone()];
        message.clone_into(&mut status.errors[0].message);
        shown(status)
    };
    let sender = watch::Sender::new(one(0, "first"));
    let mut client = client(&sender, "problem");
    assert_eq!(client.next().await.unwrap().len(), 1);
    sender.send_replace(one(0, "the same, again"));
    assert!(client.changes().is_empty());
    sender.send_replace(one(1, "another"));
    assert_eq!(client.next().await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_wrong_with_the_controller_is_told_to_who_did_not_choose_an_environment() {
    let mut shown = StatusDocuments::default();
    shown.controller.errors = full_of_errors().errors;
    let sender = watch::Sender::new(Arc::new(shown));
    let mut everything = client(&sender, "problem");
    assert_eq!(everything.snapshot().len(), Code::ALL.len());
    let mut of_one = client(&sender, "problem");
    of_one.wanted.environments.insert("shop".to_owned());
    assert!(of_one.snapshot().is_empty());
}
