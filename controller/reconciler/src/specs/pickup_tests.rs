//! Tests of the specs task on a real folder.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::*;
use crate::supervise::{Importance, Supervisor};

/// Maximum time of a pickup, with the grace period of a removed file.
const LIMIT: Duration = Duration::from_secs(20);

/// Interval of scans: longer than any test, so that only notifications cause further scans.
const INTERVAL: Duration = Duration::from_secs(3_600);

struct Fixture {
    _dir: tempfile::TempDir,
    specs: PathBuf,
    registries: watch::Receiver<Arc<SpecRegistry>>,
    stop: CancellationToken,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Fixture {
    fn start() -> Self {
        Self::start_at(Path::to_owned)
    }

    /// Watches what `prepare` returns for the specs folder.
    fn start_at(prepare: impl FnOnce(&Path) -> std::path::PathBuf) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let specs = dir.path().join("specs");
        fs::create_dir(&specs).unwrap();
        let rules = SpecLoaderSettings {
            source: source::SpecSource::new(&prepare(&specs), Path::new("/nowhere")),
            strict: false,
            env_allow: Vec::new(),
            process_env: std::collections::BTreeMap::new(),
            controller: "C".to_owned(),
            admitter: admission::SpecAdmitter::default(),
            translate: None,
        };
        let stop = CancellationToken::new();
        let (sender, registries) = watch::channel(Arc::new(SpecRegistry::default()));
        let (persisted_specs, _) = watch::channel(PersistedSpecs::default());
        let outputs = SpecOutputs::new(persisted_specs, sender);
        let supervisor = Supervisor::new(Clock::system(), stop.clone());
        supervisor.spawn_once(
            "specs",
            Importance::Critical,
            run(
                rules,
                outputs,
                sync_barrier::channel().1,
                INTERVAL,
                Clock::system(),
                stop.clone(),
            ),
        );
        Self {
            _dir: dir,
            specs,
            registries,
            stop,
        }
    }

    async fn until(&mut self, what: &str, is: impl Fn(&SpecRegistry) -> bool) -> Arc<SpecRegistry> {
        let waited = tokio::time::timeout(LIMIT, self.registries.wait_for(|registry| is(registry))).await;
        let found = waited.map(|found| found.unwrap().clone());
        found.unwrap_or_else(|_| panic!("{what}: {:#?}", self.names()))
    }

    async fn until_names(&mut self, names: &[&str]) -> Arc<SpecRegistry> {
        let line = format!("waiting for {names:?}");
        self.until(&line, |registry| registry.scanned && names_of(registry) == names)
            .await
    }

    fn names(&self) -> Vec<String> {
        names_of(&self.registries.borrow())
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.specs.join(path), text).unwrap();
    }
}

fn names_of(registry: &SpecRegistry) -> Vec<String> {
    registry.environments.keys().map(ToString::to_string).collect()
}

fn spec(project: &str, tag: &str) -> String {
    format!(
        "version: \"1.0\"\nproject:\n  name: {project}\nservices:\n  - name: api\n    image: nginx:{tag}\n    container:\n      name: {project}-api\n"
    )
}

fn image(registry: &SpecRegistry) -> String {
    let accepted = registry.environments.values().next().unwrap();
    accepted
        .desired
        .services
        .values()
        .next()
        .unwrap()
        .image
        .reference()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_creation_edits_and_removal_are_detected() {
    let mut fixture = Fixture::start();
    fixture.until("first scan", |registry| registry.scanned).await;
    fixture.write(".hidden.e2e.yaml", &spec("hidden", "1"));
    fs::create_dir_all(fixture.specs.join("one/two")).unwrap();
    fixture.write("one/two/e2e.yaml", &spec("nested", "1"));
    fixture.write("one/e2e.yaml", &spec("below", "1"));
    fixture.write("e2e.yaml", &spec("shop", "1"));
    fixture.until_names(&["below", "shop"]).await;
    fs::remove_file(fixture.specs.join("one/e2e.yaml")).unwrap();
    let registry = fixture.until_names(&["shop"]).await;
    assert_eq!(image(&registry), "nginx:1");
    // An editor writes another file and renames it over the original.
    fixture.write("e2e.yaml.swp", &spec("shop", "2"));
    fs::rename(fixture.specs.join("e2e.yaml.swp"), fixture.specs.join("e2e.yaml")).unwrap();
    fixture
        .until("renamed over", |registry| image(registry) == "nginx:2")
        .await;
    // A bad edit changes only the diagnostics.
    fixture.write("e2e.yaml", "project: [");
    let bad = |registry: &SpecRegistry| registry.files[Path::new("e2e.yaml")].state == FileState::Rejected;
    assert_eq!(image(&*fixture.until("rejected", bad).await), "nginx:2");
    fixture.write("e2e.yaml", "# nothing\n");
    let commented = |registry: &SpecRegistry| {
        let entry = &registry.files[Path::new("e2e.yaml")];
        entry
            .text
            .as_ref()
            .is_some_and(|text| text.bytes.starts_with(b"#"))
            && entry.state == FileState::Rejected
    };
    assert_eq!(
        image(&*fixture.until("only a comment", commented).await),
        "nginx:2"
    );
    fixture.write("e2e.yaml", &"#".repeat(10 * 1024 * 1024));
    let long = |registry: &SpecRegistry| registry.files[Path::new("e2e.yaml")].text.is_none();
    let registry = fixture.until("too long", long).await;
    assert!(
        registry.files[Path::new("e2e.yaml")].diagnostics[0]
            .message
            .contains("10485760 bytes")
    );
    assert_eq!(image(&registry), "nginx:2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_file_is_followed_through_renames() {
    let mut fixture = Fixture::start_at(|specs| {
        fs::write(specs.join("shop.yaml"), spec("shop", "1")).unwrap();
        fs::write(specs.join("e2e.yaml"), spec("other", "1")).unwrap();
        specs.join("shop.yaml")
    });
    fixture.until_names(&["shop"]).await;
    for tag in ["2", "3"] {
        fixture.write("shop.yaml~", &spec("shop", tag));
        fs::rename(fixture.specs.join("shop.yaml~"), fixture.specs.join("shop.yaml")).unwrap();
        let edited = |registry: &SpecRegistry| image(registry) == format!("nginx:{tag}");
        assert_eq!(names_of(&*fixture.until("renamed over", edited).await), ["shop"]);
    }
    fs::remove_file(fixture.specs.join("shop.yaml")).unwrap();
    fixture.until_names(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edit_of_a_linked_file_is_detected() {
    let mut fixture = Fixture::start_at(|specs| {
        let repo = specs.with_file_name("repo");
        fs::create_dir(&repo).unwrap();
        fs::write(repo.join("e2e.yaml"), spec("shop", "1")).unwrap();
        std::os::unix::fs::symlink(repo.join("e2e.yaml"), specs.join("shop.e2e.yaml")).unwrap();
        specs.to_owned()
    });
    fixture.until_names(&["shop"]).await;
    fixture.write("../repo/e2e.yaml", &spec("shop", "2"));
    fixture
        .until("edited", |registry| image(registry) == "nginx:2")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_writer_is_debounced() {
    let mut fixture = Fixture::start();
    fixture.write("e2e.yaml", &spec("shop", "1"));
    fixture.until_names(&["shop"]).await;
    let whole = format!(
        "{}  - name: web\n    image: nginx:2\n    container:\n      name: shop-web\n",
        spec("shop", "1")
    );
    let path = fixture.specs.join("e2e.yaml");
    let writer = tokio::task::spawn_blocking(move || {
        let mut file = fs::File::create(path).unwrap();
        let pause = std::sync::mpsc::channel::<()>();
        for piece in whole.as_bytes().chunks(24) {
            file.write_all(piece).unwrap();
            // The pace of the writer is the subject of the test, and not a wait.
            let _paced = pause.1.recv_timeout(Duration::from_millis(40));
        }
    });
    loop {
        let registry = fixture.registries.borrow_and_update().clone();
        let services = registry
            .environments
            .values()
            .next()
            .unwrap()
            .desired
            .services
            .len();
        assert!(services >= 1 && names_of(&registry) == ["shop"]);
        assert!(
            registry
                .files
                .values()
                .all(|entry| entry.state == FileState::Accepted),
            "a prefix was admitted"
        );
        if services == 2 {
            break;
        }
        tokio::time::timeout(LIMIT, fixture.registries.changed())
            .await
            .unwrap()
            .unwrap();
    }
    writer.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapped_config_map_is_detected() {
    let mut fixture = Fixture::start();
    let version = |n: u32| {
        let data = fixture.specs.join(format!("..2026_{n}"));
        fs::create_dir(&data).unwrap();
        fs::write(data.join("e2e.yaml"), spec("shop", &n.to_string())).unwrap();
        std::os::unix::fs::symlink(format!("..2026_{n}"), fixture.specs.join("..data_tmp")).unwrap();
        fs::rename(fixture.specs.join("..data_tmp"), fixture.specs.join("..data")).unwrap();
    };
    version(1);
    std::os::unix::fs::symlink("..data/e2e.yaml", fixture.specs.join("e2e.yaml")).unwrap();
    version(2);
    let specs = fixture.specs.clone();
    fixture
        .until("second version", |registry| {
            names_of(registry) == ["shop"] && image(registry) == "nginx:2"
        })
        .await;
    fs::remove_dir_all(specs.join("..2026_1")).unwrap();
    let data = specs.join("..2026_3");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("e2e.yaml"), spec("shop", "3")).unwrap();
    std::os::unix::fs::symlink("..2026_3", specs.join("..data_tmp")).unwrap();
    fs::rename(specs.join("..data_tmp"), specs.join("..data")).unwrap();
    fixture
        .until("third version", |registry| {
            names_of(registry) == ["shop"] && image(registry) == "nginx:3"
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vanished_folder_removes_no_environment() {
    let mut fixture = Fixture::start();
    fixture.write("e2e.yaml", &spec("shop", "1"));
    fixture.until_names(&["shop"]).await;
    let away = fixture.specs.with_file_name("away");
    fs::rename(&fixture.specs, &away).unwrap();
    let registry = fixture
        .until("paused", |registry| registry.unavailable.is_some())
        .await;
    assert_eq!(names_of(&registry), ["shop"]);
    fs::rename(&away, &fixture.specs).unwrap();
    fixture
        .until("resumed", |registry| registry.unavailable.is_none())
        .await;
    fs::remove_dir_all(&fixture.specs).unwrap();
    fixture
        .until("paused", |registry| registry.unavailable.is_some())
        .await;
    fs::create_dir(&fixture.specs).unwrap();
    fixture.write("e2e.yaml", &spec("shop", "2"));
    let registry = fixture
        .until("the new folder is read", |registry| image(registry) == "nginx:2")
        .await;
    assert!(registry.unavailable.is_none());
    fixture.write("e2e.yaml", &spec("shop", "3"));
    fixture
        .until("and watched", |registry| image(registry) == "nginx:3")
        .await;
}

/// Digest of the build of `shop`'s service `api`.
fn digest(registry: &SpecRegistry) -> Option<String> {
    let shop = registry
        .environments
        .get(&argus_core::ident::EnvName::new("shop").unwrap())?;
    let mut services = shop.desired.services.values();
    match &services.find(|service| service.name.as_str() == "api")?.image {
        argus_core::desired::Image::Built(build) => Some(build.digest.to_string()),
        argus_core::desired::Image::Named(_) => None,
    }
}

#[tokio::test]
async fn build_context_is_checked_in_a_spec_with_variables() {
    let mut fixture = Fixture::start();
    fs::create_dir(fixture.specs.join("app")).unwrap();
    fixture.write("app/Dockerfile", "FROM scratch\nLABEL one=1\n");
    fixture.write(".env", "TAG=1\n");
    fixture.write(
        "e2e.yaml",
        "project: { name: shop }\nservices:\n  - { name: db, image: \"db:{{env.TAG}}\", container: { name: db } }\n  \
         - { name: api, build: { context: ./app }, container: { name: api } }\n",
    );
    let registry = fixture
        .until("it is accepted", |registry| digest(registry).is_some())
        .await;
    let first = digest(&registry);
    fixture.write("app/Dockerfile", "FROM scratch\nLABEL one=2\n");
    fixture
        .until("another content is another build", |registry| {
            digest(registry).is_some_and(|now| Some(now) != first)
        })
        .await;
}

/// Writes a service with a build of `context`, relative to the folder of `path`, and returns the text.
fn built_spec(context: &str) -> String {
    format!(
        "project: {{ name: shop }}\nservices:\n  - {{ name: api, build: {{ context: {context} }}, container: {{ name: api }} }}\n"
    )
}

/// Waits until the digest of the build is another one, and returns it.
async fn next_digest(fixture: &mut Fixture, last: Option<&String>, what: &str) -> String {
    let differs = |registry: &SpecRegistry| digest(registry).is_some_and(|now| Some(&now) != last);
    digest(&*fixture.until(what, differs).await).unwrap()
}

#[tokio::test]
async fn every_edit_of_a_deep_context_is_noticed_without_a_scan() {
    let mut fixture = Fixture::start();
    let source = fixture.specs.join("shop/src/app/models");
    fs::create_dir_all(&source).unwrap();
    fs::write(fixture.specs.join("shop/Dockerfile"), "FROM scratch\n").unwrap();
    fs::write(source.join("user.py"), "one").unwrap();
    fixture.write("shop/e2e.yaml", &built_spec("."));
    let mut last = next_digest(&mut fixture, None, "accepted").await;
    for text in ["two", "three"] {
        fs::write(source.join("user.py"), text).unwrap();
        // Each round starts a new sequence of changes, because the third one in a row is delayed.
        last = next_digest(&mut fixture, Some(&last), "edited in place").await;
    }
    fs::write(source.join("new"), "four").unwrap();
    fs::rename(source.join("new"), source.join("user.py")).unwrap();
    last = next_digest(&mut fixture, Some(&last), "replaced by an editor").await;
    fs::create_dir_all(source.join("more/below")).unwrap();
    fs::write(source.join("more/below/file"), "five").unwrap();
    last = next_digest(&mut fixture, Some(&last), "file in a new folder").await;
    fs::remove_dir_all(source.join("more")).unwrap();
    last = next_digest(&mut fixture, Some(&last), "removed").await;
    fs::create_dir_all(source.join("more")).unwrap();
    last = next_digest(&mut fixture, Some(&last), "the folder is back").await;
    fs::write(source.join("more/file"), "six").unwrap();
    next_digest(&mut fixture, Some(&last), "and watched").await;
}

#[tokio::test]
async fn context_and_dockerfile_outside_the_specs_folder_are_watched() {
    let mut fixture = Fixture::start_at(|specs| {
        let root = specs.parent().unwrap();
        fs::create_dir_all(root.join("repo/src")).unwrap();
        fs::create_dir_all(root.join("docker")).unwrap();
        fs::write(root.join("repo/src/main.c"), "one").unwrap();
        fs::write(root.join("docker/Dockerfile"), "FROM scratch\n").unwrap();
        let text = built_spec("../repo, dockerfile: ../docker/Dockerfile");
        // The folder of the repository is the project of the spec file.
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(specs.join("e2e.yaml"), text).unwrap();
        specs.to_owned()
    });
    let first = next_digest(&mut fixture, None, "accepted").await;
    fixture.write("../repo/src/main.c", "two");
    let second = next_digest(&mut fixture, Some(&first), "edited source").await;
    fixture.write("../docker/Dockerfile", "FROM scratch\nLABEL two=2\n");
    next_digest(&mut fixture, Some(&second), "edited Dockerfile").await;
}

#[tokio::test]
async fn missing_context_is_accepted_once_it_exists() {
    let mut fixture = Fixture::start();
    fixture.write("e2e.yaml", &built_spec("./app/server"));
    let refused = |registry: &SpecRegistry| {
        let entry = registry.files.get(Path::new("e2e.yaml"));
        entry.is_some_and(|entry| entry.state == FileState::Rejected)
    };
    fixture.until("refused", refused).await;
    fs::create_dir_all(fixture.specs.join("app/server")).unwrap();
    fixture.write("app/server/Dockerfile", "FROM scratch\n");
    next_digest(&mut fixture, None, "accepted").await;
}

#[tokio::test]
async fn linked_env_file_is_watched() {
    let mut fixture = Fixture::start_at(|specs| {
        let root = specs.parent().unwrap();
        fs::create_dir_all(root.join("shared")).unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(root.join("shared/env"), "TAG=1\n").unwrap();
        std::os::unix::fs::symlink("../shared/env", specs.join(".env")).unwrap();
        fs::write(specs.join("e2e.yaml"), spec("shop", "{{env.TAG}}")).unwrap();
        specs.to_owned()
    });
    let has = |tag: &str| {
        let expected = format!("nginx:{tag}");
        move |registry: &SpecRegistry| names_of(registry) == ["shop"] && image(registry) == expected
    };
    fixture.until("accepted", has("1")).await;
    fixture.write("../shared/env", "TAG=2\n");
    fixture.until("edited", has("2")).await;
}

#[tokio::test]
async fn replaced_and_edited_mounted_files_are_noticed() {
    let mut fixture = Fixture::start();
    fs::create_dir(fixture.specs.join("conf")).unwrap();
    fixture.write("conf/app.conf", "one");
    let text = spec("shop", "1") + "      volumes: [\"./conf/app.conf:/app.conf:ro\"]\n";
    fixture.write("e2e.yaml", &text);
    let file = |registry: &SpecRegistry| {
        let accepted = registry.environments.values().next()?;
        accepted.mounted_files.values().next().copied()
    };
    let is_known = |registry: &SpecRegistry| file(registry).is_some();
    let first = file(&*fixture.until("known", is_known).await).unwrap();
    assert_eq!((first.replaced_at, first.noticed_at), (None, None));
    fixture.write("conf/app.conf", "three");
    let is_noticed = |registry: &SpecRegistry| file(registry).is_some_and(|it| it.noticed_at.is_some());
    let edited = file(&*fixture.until("edited", is_noticed).await).unwrap();
    assert_eq!((edited.replaced_at, edited.identity), (None, first.identity));
    fixture.write("conf/app.conf~", "four");
    fs::rename(
        fixture.specs.join("conf/app.conf~"),
        fixture.specs.join("conf/app.conf"),
    )
    .unwrap();
    let is_replaced = |registry: &SpecRegistry| file(registry).is_some_and(|it| it.replaced_at.is_some());
    let replaced = file(&*fixture.until("replaced", is_replaced).await).unwrap();
    assert_ne!(replaced.identity, first.identity);
}
