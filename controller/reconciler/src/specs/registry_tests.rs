//! The book keeps what runs, whatever becomes of the files.

use argus_core::backoff::Growth;
use argus_core::desired::{PortPolicy, PortStrategy, RestartPolicy, SpentMode};
use argus_core::ident::{ResourceName, Revision};
use proptest::prelude::*;

use super::*;

fn desired(env: &str, revision: u32) -> Desired {
    Desired {
        env: EnvName::new(env).unwrap(),
        project: env.to_owned(),
        revision: Revision::new(format!("{revision:08x}")).unwrap(),
        network: ResourceName::new(format!("{env}-network")).unwrap(),
        volumes: Vec::new(),
        services: BTreeMap::new(),
        ports: PortPolicy {
            low: 9_000,
            high: 9_999,
            strategy: PortStrategy::Auto,
        },
        restart: RestartPolicy {
            enabled: true,
            max_restarts: 3,
            delay: Duration::from_secs(2),
            growth: Growth::Exponential,
            max_delay: Duration::from_secs(60),
            window: Duration::from_secs(300),
            reset_after: Duration::from_secs(60),
            mode: SpentMode::GiveUp,
        },
        preflight: argus_core::preflight::Policy::default(),
        delete_volumes: false,
        confinement: argus_core::desired::Confinement::default(),
        clean_orphans: true,
        verify_links: true,
        ttl: None,
        hold: false,
        rollback: None,
        breaker: Some(argus_core::state::breaker::BreakerSettings::default()),
        secrets: argus_core::secrets::Secrets::default(),
        notes: Vec::new(),
    }
}

fn good(env: &str, revision: u32) -> Admission {
    Admission {
        desired: Some(desired(env, revision)),
        diagnostics: Vec::new(),
    }
}

fn bad() -> Admission {
    Admission {
        desired: None,
        diagnostics: vec![Diagnostic::error("", "broken")],
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1_000)
}

fn revisions(book: &SpecRegistry) -> Vec<String> {
    let line = |a: &Arc<Accepted>| {
        let revision = u32::from_str_radix(a.desired.revision.as_str(), 16).unwrap();
        format!(
            "{}@{revision} {} {}",
            a.desired.env,
            a.spec_path,
            a.accepted_at.0 / 1_000
        )
    };
    book.environments.values().map(line).collect()
}

fn judge(book: &mut SpecRegistry, path: &str, judged: Admission, now: i64) {
    book.resume(at(now));
    book.on_admitted(Path::new(path), None, judged, at(now));
}

#[test]
fn a_rejected_edit_leaves_the_last_good_revision() {
    let mut book = SpecRegistry::default();
    judge(&mut book, "a", good("shop", 1), 1);
    judge(&mut book, "a", bad(), 2);
    assert_eq!(revisions(&book), ["shop@1 a 1"]);
    assert_eq!(book.files[Path::new("a")].state, FileState::Rejected);
    judge(&mut book, "a", good("shop", 2), 3);
    assert_eq!(revisions(&book), ["shop@2 a 3"]);
    let before = book.clone();
    judge(&mut book, "a", good("shop", 2), 9);
    assert_eq!(book, before, "the same again changes nothing");
}

#[test]
fn the_first_keeps_an_identity_and_the_other_gets_it_after_the_grace() {
    let mut book = SpecRegistry::default();
    judge(&mut book, "b", good("shop", 1), 1);
    judge(&mut book, "a", good("shop", 2), 2);
    assert_eq!(revisions(&book), ["shop@1 b 1"]);
    let entry = &book.files[Path::new("a")];
    assert_eq!(
        entry.state,
        FileState::Conflict {
            holder: PathBuf::from("b")
        }
    );
    assert_eq!(
        entry.diagnostics[0].message,
        "environment `shop` is already defined by `b`"
    );
    book.present(|path| path == Path::new("a"), at(3));
    book.expire(at(4));
    assert_eq!(revisions(&book), ["shop@2 a 4"], "the holder is gone");
    assert!(book.files[Path::new("a")].diagnostics.is_empty());
}

#[test]
fn a_renamed_file_takes_its_environment_along() {
    let mut book = SpecRegistry::default();
    judge(&mut book, "a", good("shop", 1), 1);
    book.present(|_| false, at(10));
    judge(&mut book, "b", good("shop", 1), 11);
    assert_eq!(revisions(&book), ["shop@1 b 1"]);
    book.present(|path| path == Path::new("b"), at(12));
    book.expire(at(100));
    assert_eq!(revisions(&book), ["shop@1 b 1"]);
}

#[test]
fn a_removed_file_is_let_go_after_its_grace() {
    let mut book = SpecRegistry::default();
    judge(&mut book, "a", good("shop", 1), 1);
    book.present(|_| false, at(10));
    book.expire(at(14));
    assert_eq!(revisions(&book), ["shop@1 a 1"]);
    assert_eq!(book.expires_at(), Some(at(15)));
    book.present(|_| true, at(14));
    book.expire(at(16));
    assert_eq!(revisions(&book), ["shop@1 a 1"], "it came back in time");
    book.present(|_| false, at(20));
    book.expire(at(25));
    assert!(book.environments.is_empty() && book.files.is_empty());
}

#[test]
fn another_identity_in_a_file_lets_the_old_one_go_after_the_grace() {
    let mut book = SpecRegistry::default();
    judge(&mut book, "a", good("shop", 1), 1);
    judge(&mut book, "a", good("sho", 2), 10);
    assert_eq!(revisions(&book), ["sho@2 a 10", "shop@1 a 1"]);
    judge(&mut book, "a", good("shop", 1), 12);
    assert_eq!(revisions(&book), ["sho@2 a 10", "shop@1 a 1"]);
    book.expire(at(17));
    assert_eq!(revisions(&book), ["shop@1 a 1"]);
}

#[test]
fn a_folder_out_of_reach_freezes_the_book() {
    let mut book = SpecRegistry::default();
    judge(&mut book, "a", good("shop", 1), 1);
    judge(&mut book, "b", good("old", 1), 1);
    judge(&mut book, "b", good("new", 1), 2);
    book.present(|_| false, at(3));
    book.pause("gone".to_owned());
    book.expire(at(1_000));
    assert_eq!(revisions(&book), ["new@1 b 2", "old@1 b 1", "shop@1 a 1"]);
    book.resume(at(1_001));
    book.present(|_| true, at(1_001));
    book.expire(at(1_007));
    assert_eq!(revisions(&book), ["new@1 b 2", "shop@1 a 1"]);
}

#[test]
fn what_counted_before_a_restart_counts_until_it_is_judged() {
    let mut book = SpecRegistry::default();
    judge(&mut book, "a", good("shop", 1), 1);
    let mut book = SpecRegistry::remembering(book.held());
    assert_eq!(revisions(&book), ["shop@1 a 1"]);
    judge(&mut book, "a", good("shop", 1), 40);
    assert_eq!(revisions(&book), ["shop@1 a 1"], "adopted, not accepted anew");
    judge(&mut book, "a", bad(), 50);
    assert_eq!(revisions(&book), ["shop@1 a 1"]);
    judge(&mut book, "a", good("shop", 1), 60);
    assert_eq!(
        revisions(&book),
        ["shop@1 a 60"],
        "what it removes is stable anew"
    );
}

#[derive(Debug, Clone)]
enum Event {
    Good(usize, usize, u32),
    Bad(usize),
    Present(Vec<bool>),
    Freeze,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..4_usize, 0..3_usize, 0..3_u32).prop_map(|(file, env, revision)| Event::Good(file, env, revision)),
        (0..4_usize).prop_map(Event::Bad),
        proptest::collection::vec(any::<bool>(), 4).prop_map(Event::Present),
        Just(Event::Freeze),
    ]
}

fn undisputed(all: &BTreeMap<EnvName, Arc<Accepted>>) -> Vec<Accepted> {
    all.values()
        .map(|accepted| Accepted {
            has_pending_edit: false,
            ..Accepted::clone(accepted)
        })
        .collect()
}

const FILES: [&str; 4] = ["a", "b", "c", "d"];
const ENVS: [&str; 3] = ["x", "y", "z"];

proptest! {
    #[test]
    fn no_rejection_and_no_frozen_folder_ever_changes_what_counts(
        events in proptest::collection::vec((event(), 0..4_i64), 0..60),
    ) {
        let mut book = SpecRegistry::default();
        let mut now = 1;
        for (event, passed) in events {
            now += passed;
            let before = book.environments.clone();
            match event {
                Event::Good(file, env, revision) => judge(&mut book, FILES[file], good(ENVS[env], revision), now),
                Event::Bad(file) => {
                    judge(&mut book, FILES[file], bad(), now);
                    // Only that nothing is removed on the word of what counts.
                    prop_assert_eq!(undisputed(&book.environments), undisputed(&before));
                    let held = book.files.get(Path::new(FILES[file])).and_then(|entry| entry.holds.as_ref());
                    prop_assert!(held.is_none_or(|held| held.has_pending_edit));
                }
                Event::Present(there) => {
                    book.resume(at(now));
                    let is_there = |path: &Path| FILES.iter().zip(&there).any(|(f, t)| *t && Path::new(f) == path);
                    book.present(is_there, at(now));
                    book.expire(at(now));
                }
                Event::Freeze => {
                    book.pause("gone".to_owned());
                    book.expire(at(now));
                    prop_assert_eq!(&book.environments, &before);
                }
            }
            // Whoever is in conflict names a file that is there and holds something.
            for entry in book.files.values() {
                if let FileState::Conflict { holder } = &entry.state
                    && book.unavailable.is_none()
                    && entry.gone_since.is_none()
                {
                    prop_assert!(entry.diagnostics.iter().any(Diagnostic::is_error));
                    prop_assert!(book.files.contains_key(holder));
                }
            }
            // No two files hold one environment.
            let mut held: Vec<_> = book.held().into_values().map(|a| a.desired.env).collect();
            held.sort();
            let all = held.len();
            held.dedup();
            prop_assert_eq!(held.len(), all);
            for entry in book.files.values().filter_map(|entry| entry.holds.as_ref()) {
                prop_assert_eq!(book.environments.get(&entry.desired.env), Some(entry));
            }
        }
    }
}
