//! What is picked up from a real folder, and when.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::*;
use crate::supervise::{Importance, Supervisor};

/// No pickup takes longer, the grace of a removed file included.
const LIMIT: Duration = Duration::from_secs(20);

struct House {
    _dir: tempfile::TempDir,
    specs: PathBuf,
    books: watch::Receiver<Arc<SpecRegistry>>,
    stop: CancellationToken,
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl House {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let specs = dir.path().join("specs");
        fs::create_dir(&specs).unwrap();
        let rules = Rules {
            own_image: crate::specs::admitter::OwnImage {
                folder: "/nowhere".into(),
                fill: None,
            },
            folder: specs.clone(),
            strict: false,
            env_allow: Vec::new(),
            process_env: std::collections::BTreeMap::new(),
            controller: "C".to_owned(),
            admitter: Arc::new(admission::SpecAdmitter::default()),
        };
        let stop = CancellationToken::new();
        let (sender, books) = watch::channel(Arc::new(SpecRegistry::default()));
        let (kept, _) = watch::channel(StartingPoint::default());
        let supervisor = Supervisor::new(Clock::system(), stop.clone());
        supervisor.spawn_once(
            "specs",
            Importance::Critical,
            run(
                rules,
                kept,
                sender,
                sync_barrier::sides().1,
                Clock::system(),
                stop.clone(),
            ),
        );
        Self {
            _dir: dir,
            specs,
            books,
            stop,
        }
    }

    async fn until(&mut self, what: &str, is: impl Fn(&SpecRegistry) -> bool) -> Arc<SpecRegistry> {
        let waited = tokio::time::timeout(LIMIT, self.books.wait_for(|book| is(book))).await;
        let found = waited.map(|found| found.unwrap().clone());
        found.unwrap_or_else(|_| panic!("{what}: {:#?}", self.names()))
    }

    async fn until_names(&mut self, names: &[&str]) -> Arc<SpecRegistry> {
        let line = format!("waiting for {names:?}");
        self.until(&line, |book| book.scanned && names_of(book) == names)
            .await
    }

    fn names(&self) -> Vec<String> {
        names_of(&self.books.borrow())
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.specs.join(path), text).unwrap();
    }
}

fn names_of(book: &SpecRegistry) -> Vec<String> {
    book.environments.keys().map(ToString::to_string).collect()
}

fn spec(project: &str, tag: &str) -> String {
    format!(
        "version: \"1.0\"\nproject:\n  name: {project}\nservices:\n  - name: api\n    image: nginx:{tag}\n    container:\n      name: {project}-api\n"
    )
}

fn image(book: &SpecRegistry) -> String {
    let accepted = book.environments.values().next().unwrap();
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
async fn files_come_change_and_go() {
    let mut house = House::start();
    house.until("first scan", |book| book.scanned).await;
    house.write(".hidden.e2e.yaml", &spec("hidden", "1"));
    fs::create_dir_all(house.specs.join("one/two")).unwrap();
    house.write("one/two/e2e.yaml", &spec("nested", "1"));
    house.write("one/e2e.yaml", &spec("below", "1"));
    house.write("e2e.yaml", &spec("shop", "1"));
    house.until_names(&["below", "shop"]).await;
    fs::remove_file(house.specs.join("one/e2e.yaml")).unwrap();
    let book = house.until_names(&["shop"]).await;
    assert_eq!(image(&book), "nginx:1");
    // An editor writes beside and renames over.
    house.write("e2e.yaml.swp", &spec("shop", "2"));
    fs::rename(house.specs.join("e2e.yaml.swp"), house.specs.join("e2e.yaml")).unwrap();
    house.until("renamed over", |book| image(book) == "nginx:2").await;
    // A bad edit changes nothing but the complaints.
    house.write("e2e.yaml", "project: [");
    let bad = |book: &SpecRegistry| book.files[Path::new("e2e.yaml")].state == FileState::Rejected;
    assert_eq!(image(&*house.until("rejected", bad).await), "nginx:2");
    house.write("e2e.yaml", "# nothing\n");
    let commented = |book: &SpecRegistry| {
        let entry = &book.files[Path::new("e2e.yaml")];
        entry
            .text
            .as_ref()
            .is_some_and(|text| text.bytes.starts_with(b"#"))
            && entry.state == FileState::Rejected
    };
    assert_eq!(image(&*house.until("only a comment", commented).await), "nginx:2");
    house.write("e2e.yaml", &"#".repeat(10 * 1024 * 1024));
    let long = |book: &SpecRegistry| book.files[Path::new("e2e.yaml")].text.is_none();
    let book = house.until("too long", long).await;
    assert!(
        book.files[Path::new("e2e.yaml")].diagnostics[0]
            .message
            .contains("10485760 bytes")
    );
    assert_eq!(image(&book), "nginx:2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_writer_is_waited_for() {
    let mut house = House::start();
    house.write("e2e.yaml", &spec("shop", "1"));
    house.until_names(&["shop"]).await;
    let whole = format!(
        "{}  - name: web\n    image: nginx:2\n    container:\n      name: shop-web\n",
        spec("shop", "1")
    );
    let path = house.specs.join("e2e.yaml");
    let writer = tokio::task::spawn_blocking(move || {
        let mut file = fs::File::create(path).unwrap();
        let pause = std::sync::mpsc::channel::<()>();
        for piece in whole.as_bytes().chunks(24) {
            file.write_all(piece).unwrap();
            // The pace of the writer is the case under test, nothing is waited for with it.
            let _paced = pause.1.recv_timeout(Duration::from_millis(40));
        }
    });
    loop {
        let book = house.books.borrow_and_update().clone();
        let services = book.environments.values().next().unwrap().desired.services.len();
        assert!(services >= 1 && names_of(&book) == ["shop"]);
        assert!(
            book.files
                .values()
                .all(|entry| entry.state == FileState::Accepted),
            "a prefix was judged"
        );
        if services == 2 {
            break;
        }
        tokio::time::timeout(LIMIT, house.books.changed())
            .await
            .unwrap()
            .unwrap();
    }
    writer.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mounted_config_map_is_swapped() {
    let mut house = House::start();
    let version = |n: u32| {
        let data = house.specs.join(format!("..2026_{n}"));
        fs::create_dir(&data).unwrap();
        fs::write(data.join("e2e.yaml"), spec("shop", &n.to_string())).unwrap();
        std::os::unix::fs::symlink(format!("..2026_{n}"), house.specs.join("..data_tmp")).unwrap();
        fs::rename(house.specs.join("..data_tmp"), house.specs.join("..data")).unwrap();
    };
    version(1);
    std::os::unix::fs::symlink("..data/e2e.yaml", house.specs.join("e2e.yaml")).unwrap();
    version(2);
    let specs = house.specs.clone();
    house
        .until("second version", |book| {
            names_of(book) == ["shop"] && image(book) == "nginx:2"
        })
        .await;
    fs::remove_dir_all(specs.join("..2026_1")).unwrap();
    let data = specs.join("..2026_3");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("e2e.yaml"), spec("shop", "3")).unwrap();
    std::os::unix::fs::symlink("..2026_3", specs.join("..data_tmp")).unwrap();
    fs::rename(specs.join("..data_tmp"), specs.join("..data")).unwrap();
    house
        .until("third version", |book| {
            names_of(book) == ["shop"] && image(book) == "nginx:3"
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_vanishes_takes_nothing_along() {
    let mut house = House::start();
    house.write("e2e.yaml", &spec("shop", "1"));
    house.until_names(&["shop"]).await;
    let away = house.specs.with_file_name("away");
    fs::rename(&house.specs, &away).unwrap();
    let book = house.until("frozen", |book| book.unavailable.is_some()).await;
    assert_eq!(names_of(&book), ["shop"]);
    fs::rename(&away, &house.specs).unwrap();
    house.until("thawed", |book| book.unavailable.is_none()).await;
    fs::remove_dir_all(&house.specs).unwrap();
    house.until("frozen", |book| book.unavailable.is_some()).await;
    fs::create_dir(&house.specs).unwrap();
    house.write("e2e.yaml", &spec("shop", "2"));
    let book = house
        .until("the new folder is read", |book| image(book) == "nginx:2")
        .await;
    assert!(book.unavailable.is_none());
    house.write("e2e.yaml", &spec("shop", "3"));
    house.until("and watched", |book| image(book) == "nginx:3").await;
}

/// The digest of the build of `shop`'s service `api`.
fn digest(book: &SpecRegistry) -> Option<String> {
    let shop = book
        .environments
        .get(&argus_core::ident::EnvName::new("shop").unwrap())?;
    let mut services = shop.desired.services.values();
    match &services.find(|service| service.name.as_str() == "api")?.image {
        argus_core::desired::Image::Built(build) => Some(build.digest.to_string()),
        argus_core::desired::Image::Named(_) => None,
    }
}

#[tokio::test]
async fn what_is_built_is_looked_at_in_a_file_with_variables_too() {
    let mut house = House::start();
    fs::create_dir(house.specs.join("app")).unwrap();
    house.write("app/Dockerfile", "FROM scratch\nLABEL one=1\n");
    house.write(".env", "TAG=1\n");
    house.write(
        "e2e.yaml",
        "project: { name: shop }\nservices:\n  - { name: db, image: \"db:{{env.TAG}}\", container: { name: db } }\n  \
         - { name: api, build: { context: ./app }, container: { name: api } }\n",
    );
    let book = house.until("it is taken", |book| digest(book).is_some()).await;
    let first = digest(&book);
    house.write("app/Dockerfile", "FROM scratch\nLABEL one=2\n");
    house
        .until("another content is another build", |book| {
            digest(book).is_some_and(|now| Some(now) != first)
        })
        .await;
}
