//! Removes the containers, networks and volumes of a test's controllers when the thread of the test ends, so that they use no time of later tests
//! on the same engine.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::http;

const CALL_LIMIT: Duration = Duration::from_secs(30);
/// The list, the path and the options of a removal, for each kind of object.
const KINDS: [(&str, &str, &str); 3] = [
    ("/containers/json?all=1&", "containers", "?force=1&v=1"),
    ("/networks?", "networks", ""),
    ("/volumes?", "volumes", "?force=1"),
];

thread_local! {
    static OWNERS: RefCell<Owners> = const { RefCell::new(Owners(BTreeSet::new())) };
}

/// Controllers that this thread started, by the engine's socket and the identity file.
struct Owners(BTreeSet<(PathBuf, PathBuf)>);

/// Registers a controller. An engine that is gone at the end of the thread is left alone.
pub(crate) fn at_end_of_thread(engine: PathBuf, identity: PathBuf) {
    OWNERS.with_borrow_mut(|owners| owners.0.insert((engine, identity)));
}

impl Drop for Owners {
    fn drop(&mut self) {
        let owners = std::mem::take(&mut self.0);
        // The test harness waits for the thread of a test before it starts the next test.
        std::thread::spawn(move || {
            let identity = |path| {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                text.split_ascii_whitespace().next().map(str::to_owned)
            };
            let owners = owners
                .into_iter()
                .filter_map(|(engine, path)| Some((engine, identity(path)?)));
            let owners = owners.collect::<Vec<_>>();
            // A network of one controller can have containers of another one.
            for kind in KINDS {
                for (engine, controller) in &owners {
                    let label = format!("%22argusai.controller%3D{controller}%22");
                    remove(
                        engine,
                        kind,
                        &format!("filters=%7B%22label%22%3A%5B{label}%5D%7D"),
                    );
                }
            }
        });
    }
}

/// Removes all containers, networks and volumes of an engine.
pub(crate) fn remove_all(engine: &Path) {
    for kind in KINDS {
        remove(engine, kind, "");
    }
}

/// Removes the objects of a kind. Those that the engine itself made stay.
fn remove(engine: &Path, (list, kind, options): (&str, &str, &str), filters: &str) {
    for id in list_ids(engine, list, filters) {
        call(engine, "DELETE", &format!("/{kind}/{id}{options}"));
    }
}

/// Ids of containers and networks, and names of volumes.
fn list_ids(engine: &Path, list: &str, filters: &str) -> Vec<String> {
    let found = call(engine, "GET", &format!("{list}{filters}"));
    let objects = found.as_array().or_else(|| found["Volumes"].as_array());
    let id = |object: &Value| {
        object["Id"]
            .as_str()
            .or_else(|| object["Name"].as_str())
            .map(str::to_owned)
    };
    objects.into_iter().flatten().filter_map(id).collect()
}

fn call(engine: &Path, method: &str, path: &str) -> Value {
    let answer = http::request(engine, method, path, "application/json", b"", CALL_LIMIT);
    answer.map_or(Value::Null, |answer| answer.json())
}
