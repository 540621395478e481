//! Random trees and random paths: Argus mounts, builds and reads only what is in the project or in an allowed directory.
//!
//! The law is checked with `canonicalize` and directory listings, not with the functions of the product.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use argus_backend::host_path::folder::{self, Folder};
use argus_backend::host_path::resolve_without_links;
use argus_backend::host_path::sockets::Sockets;
use argus_backend::sim::Rng;
use argus_core::desired::{Desired, Image, Mount};
use argus_core::time::Timestamp;
use argus_crds::Diagnostic;
use argus_reconciler::specs::admission::SpecAdmitter;
use argus_reconciler::specs::build_context::OwnImageContext;
use argus_reconciler::specs::location::HostAccess;
use argus_reconciler::specs::registry::{FileEntry, SpecRegistry};
use argus_reconciler::specs::source::SpecSource;
use argus_reconciler::specs::{PersistedSpecs, SpecLoader, SpecLoaderSettings};
use argus_tests::fuzz::{Seeds, below, one_of};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

/// Number of seeds of a run without a time.
const SEEDS: u64 = 150;
/// Content of the files that no environment may read.
const OUTSIDE: &str = "OUTSIDE-c0ffee";
const NAMES: [&str; 13] = [
    "a",
    "b",
    "data",
    "Dockerfile",
    ".dockerignore",
    "api.yaml",
    ".env",
    ".git",
    ".argus",
    "with space",
    "größe",
    "$HOME",
    "recordings",
];

const ODD_NAMES: [&str; 11] = [
    "",
    ".",
    "\0",
    "x\ny",
    "\u{202e}",
    "{{env.KEY}}",
    "specs",
    "project",
    "outside",
    "run",
    "engine.sock",
];

/// A random tree below one directory.
struct Site {
    root: PathBuf,
    /// Socket of the engine. It may be absent, as of a stopped engine.
    engine: PathBuf,
    allow: Option<PathBuf>,
    state: PathBuf,
    /// Folder in the project that no container may have.
    private: PathBuf,
    /// Directory that the spec files may use.
    project: PathBuf,
    folders: Vec<PathBuf>,
    _listener: Option<UnixListener>,
}

impl Site {
    fn create(random: &mut Rng, root: &Path) -> Self {
        let folders = [
            "project",
            "project/specs",
            "outside",
            "allowed",
            "run",
            "project/home/private",
        ];
        let folders = folders.map(|name| root.join(name));
        for folder in &folders {
            fs::create_dir_all(folder).unwrap();
        }
        let engine = match below(random, 4) {
            0 => root.join("project/engine.sock"),
            1 => root.join("project/run/engine.sock"),
            _ => root.join("run/engine.sock"),
        };
        fs::create_dir_all(engine.parent().unwrap()).unwrap();
        let listener = random.percent(80).then(|| UnixListener::bind(&engine).unwrap());
        if random.percent(70) {
            fs::create_dir(root.join("project/.git")).unwrap();
        }
        fs::write(root.join("project/specs/Dockerfile"), "FROM scratch\n").unwrap();
        fs::write(root.join("outside/secret"), OUTSIDE).unwrap();
        let mut site = Self {
            root: root.to_owned(),
            engine,
            allow: random.percent(30).then(|| root.join("allowed")),
            state: root.join(one_of(random, &["project/.argus", "state"])),
            private: folders[5].clone(),
            project: root.join("project"),
            folders: folders.to_vec(),
            _listener: listener,
        };
        for _ in 0..4 + below(random, 16) {
            site.add_entry(random);
        }
        let is_worktree = |folder: &&PathBuf| {
            let git = folder.join(".git").symlink_metadata();
            git.is_ok_and(|meta| meta.is_dir() || meta.is_file())
        };
        let worktree = [&folders[1], &folders[0]].into_iter().find(is_worktree);
        let default = if site.state.starts_with(&folders[0]) {
            &folders[0]
        } else {
            &folders[1]
        };
        worktree.unwrap_or(default).clone_into(&mut site.project);
        site
    }

    /// Adds an entry with a random type, unless one with its name exists.
    fn add_entry(&mut self, random: &mut Rng) {
        let path = one_of(random, &self.folders).join(one_of(random, &NAMES));
        if path.symlink_metadata().is_ok() {
            return;
        }
        match below(random, 10) {
            0..=2 => {
                fs::create_dir(&path).unwrap();
                self.folders.push(path);
            }
            3 | 4 => fs::write(&path, self.content(random, &path)).unwrap(),
            5 if self.engine.exists() => drop(fs::hard_link(&self.engine, &path)),
            6 => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
            _ => {
                let target = self.link_target(random, &path);
                // A name can be too long, or contain a zero byte.
                drop(symlink(target, &path));
            }
        }
    }

    fn content(&self, random: &mut Rng, path: &Path) -> String {
        if !self.is_allowed(path) {
            return format!("KEY={OUTSIDE}\nopenapi: {OUTSIDE}\n");
        }
        let texts = [
            "",
            "FROM scratch\n",
            "KEY=value\n",
            "*\n!a\n",
            "openapi: 3.1.0\npaths: {}\n",
            "\0\u{1}",
        ];
        (*one_of(random, &texts)).to_owned()
    }

    fn link_target(&self, random: &mut Rng, path: &Path) -> PathBuf {
        match below(random, 8) {
            0 => path.to_owned(),
            1 => PathBuf::from(*one_of(
                random,
                &[
                    "/dev/zero",
                    "/proc/self/root",
                    "/proc/self/fd/0",
                    "/",
                    "/var/run",
                    "nowhere",
                ],
            )),
            2 => self.engine.clone(),
            3 => self.engine.parent().unwrap().to_owned(),
            4 => one_of(random, &self.folders).join(one_of(random, &NAMES)),
            5 => one_of(random, &self.folders).clone(),
            _ => PathBuf::from(relative_path(random)),
        }
    }

    /// A path as in a spec file.
    fn written_path(&self, random: &mut Rng) -> String {
        let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
        match below(random, 20) {
            0 => text(&self.engine),
            1 => text(one_of(random, &self.folders)),
            2 => format!(
                "{}/{}",
                text(one_of(random, &self.folders)),
                relative_path(random)
            ),
            3 => (*one_of(
                random,
                &[
                    "/",
                    "//",
                    "/var/run/docker.sock",
                    "/dev/zero",
                    "/proc/self/root",
                    "~",
                    "~/x",
                    ".",
                    "..",
                    "",
                ],
            ))
            .to_owned(),
            4 => format!("./{}", "x/".repeat(1 << below(random, 12))),
            5..=12 => format!("./{}", one_of(random, &NAMES)),
            _ => format!(
                "{}{}",
                one_of(random, &["", "./", "../", "/", ".//./", "../../"]),
                relative_path(random)
            ),
        }
    }

    /// The file of one environment.
    fn spec(&self, random: &mut Rng, number: usize) -> String {
        let quoted = |text: String| serde_json::to_string(&text).unwrap();
        let mut text = format!(
            "project: {{name: e{number}}}\nservices:\n  - name: s{number}\n    image: a:1\n    container:\n      name: c{number}\n      volumes:\n"
        );
        for target in 0..=below(random, 2) {
            let ending = one_of(random, &["", ":ro", ":rw"]);
            let volume = quoted(format!("{}:/m{target}{ending}", self.written_path(random)));
            writeln!(text, "        - {volume}").unwrap();
        }
        if random.percent(30) {
            let context = quoted(self.written_path(random));
            write!(text, "  - name: b{number}\n    container: {{name: cb{number}}}\n    build:\n      context: {context}\n").unwrap();
            if random.percent(60) {
                writeln!(text, "      dockerfile: {}", quoted(self.written_path(random))).unwrap();
            }
        }
        if random.percent(30) {
            let (document, recordings) = (
                quoted(self.written_path(random)),
                quoted(self.written_path(random)),
            );
            let mode = one_of(random, &["record", "replay"]);
            let settings = match below(random, 3) {
                0 => format!("openapi: {document}"),
                1 => format!("mode: {mode}, target: 'http://a:1', recordingsDir: {recordings}"),
                _ => format!(
                    "image: m:1, volumes: [{}]",
                    quoted(format!("{}:/r", self.written_path(random)))
                ),
            };
            writeln!(text, "mocks:\n  m{number}: {{port: 8{number}, {settings}}}").unwrap();
        }
        text
    }

    /// Reports whether a path without links is in the project or in the allowed directory.
    fn is_allowed(&self, path: &Path) -> bool {
        path.starts_with(&self.project) || self.allow.as_ref().is_some_and(|allow| path.starts_with(allow))
    }

    fn read_specs(&self) -> SpecRegistry {
        let folder = self.root.join("project/specs");
        let state = self.state.clone();
        let allow_mounts = self.allow.iter().map(|path| path.display().to_string()).collect();
        let settings = SpecLoaderSettings {
            source: SpecSource::new(&folder, &state),
            strict: false,
            env_allow: Vec::new(),
            process_env: BTreeMap::new(),
            controller: "C".to_owned(),
            translate: None,
            admitter: SpecAdmitter {
                access: HostAccess {
                    allow_mounts,
                    allowed: None,
                    allow_external: Vec::new(),
                    git_writable: false,
                    private: vec![self.private.clone()],
                    state,
                    engine: Some(self.engine.clone()),
                },
                own_image: OwnImageContext {
                    folder: self.root.join("own-image"),
                    write_context: None,
                },
                ..SpecAdmitter::default()
            },
        };
        let mut loader = SpecLoader::new(settings, PersistedSpecs::default());
        let mut now = Timestamp(1_763_000_000_000);
        while !loader.registry().scanned {
            loader.scan_once(now);
            now = now + Duration::from_secs(1);
        }
        loader.registry().clone()
    }

    /// Checks a bind source or a build context that Argus accepted: a path without links, in a directory that the file may use.
    fn check_source(&self, source: &Path) {
        let shown = source.display();
        let existing = source
            .ancestors()
            .find(|path| path.symlink_metadata().is_ok())
            .unwrap();
        assert_eq!(existing.canonicalize().unwrap(), existing, "{shown} has a link");
        assert!(
            !source.components().any(|part| part.as_os_str() == ".."),
            "{shown}"
        );
        assert!(self.is_allowed(source), "{shown} is outside");
        assert!(!source.starts_with(&self.state), "{shown} is state");
        assert!(!source.starts_with(&self.private), "{shown} is private");
        self.check_no_socket(source);
    }

    fn check_no_socket(&self, source: &Path) {
        let shown = source.display();
        let folder = self.engine.parent().unwrap().canonicalize().unwrap();
        assert!(
            !folder.starts_with(source),
            "{shown} contains the socket's directory"
        );
        let object = |path: &Path| path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()));
        assert!(
            object(&self.engine).is_none() || object(source) != object(&self.engine),
            "{shown} is the socket"
        );
    }

    fn check_desired(&self, desired: &Desired) {
        for service in desired.services.values() {
            for mount in service.mounts.iter().chain(&service.covers) {
                if let Mount::Bind { source, .. } = mount {
                    self.check_source(Path::new(source));
                    assert!(
                        !self.private.starts_with(source),
                        "{source} is around a private folder"
                    );
                }
            }
            if let Image::Built(build) = &service.image
                && service.injected_file.is_none()
            {
                let context = Path::new(&build.context);
                self.check_source(context);
                let dockerfile = context.join(&build.dockerfile).canonicalize();
                assert!(dockerfile.is_ok_and(|path| self.is_allowed(&path)), "{build:?}");
            }
        }
    }

    /// Accesses files below the project at random paths, while entries are exchanged. Nothing outside is read or changed. Returns
    /// the number of accesses that succeeded.
    fn check_files(&self, random: &mut Rng) -> usize {
        let project = &self.project;
        let outside = ["outside", "allowed", "run"].map(|name| self.root.join(name));
        let before = outside.each_ref().map(|folder| tree(folder));
        let mut done = 0;
        for _ in 0..4 + below(random, 12) {
            self.exchange(random);
            let path = relative_path(random);
            let opened = Folder::open(project).and_then(|root| root.open_below(Path::new(&path)));
            if let Ok(mut file) = opened {
                let mut text = String::new();
                assert!(file.metadata().unwrap().is_file(), "{path}");
                drop(file.read_to_string(&mut text));
                assert!(!text.contains(OUTSIDE), "{path} leads out");
                done += 1;
            }
            let path = project.join(&path);
            let is_plain = path.starts_with(project)
                && path != *project
                && path.components().all(|part| part != Component::ParentDir);
            done += usize::from(is_plain && access(random, &path));
        }
        let after = outside.each_ref().map(|folder| tree(folder));
        assert_eq!(after, before, "an access changed something outside");
        done
    }

    /// Exchanges two entries of the project, as a container with a writable mount can. Returns false if that is impossible.
    fn exchange(&self, random: &mut Rng) -> bool {
        let project = &self.project;
        let mut entry = || one_of(random, &self.folders).join(one_of(random, &NAMES));
        let entries = [entry(), entry()];
        let is_inside = |path: &PathBuf| {
            let folder = path.parent().unwrap();
            folder.starts_with(project) && folder.canonicalize().is_ok_and(|real| real == folder)
        };
        // A folder cannot take the place of one that contains it.
        entries.iter().all(is_inside)
            && renameat_with(CWD, &entries[0], CWD, &entries[1], RenameFlags::EXCHANGE).is_ok()
    }

    /// Compares the last check before a create with the tree, which may be another one than at the admission.
    fn check_before_create(&self, source: &Path) -> bool {
        let sockets = Sockets::find(Some(&self.engine));
        if !resolve_without_links(source).is_ok_and(|found| sockets.check(&found).is_ok()) {
            return false;
        }
        assert_eq!(source.canonicalize().unwrap(), *source, "a link");
        self.check_no_socket(source);
        true
    }
}

/// One to four components, of which some exist.
fn relative_path(random: &mut Rng) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for _ in 0..=below(random, 4) {
        parts.push(match below(random, 8) {
            0 | 1 => "..",
            2 => *one_of(random, &ODD_NAMES),
            _ => *one_of(random, &NAMES),
        });
    }
    parts.join("/")
}

/// Accesses a file in one random way. A success means that no link was passed.
fn access(random: &mut Rng, path: &Path) -> bool {
    let Some(name) = path.file_name() else {
        return false;
    };
    let parent = path.parent().unwrap();
    let is_real = parent.canonicalize().is_ok_and(|real| real == parent);
    let in_folder =
        |act: &dyn Fn(&Folder) -> std::io::Result<()>| Folder::open(parent).and_then(|found| act(&found));
    let done = match below(random, 7) {
        0 => folder::read(path, 1 << 20).map(|bytes| {
            assert!(
                !String::from_utf8_lossy(&bytes).contains(OUTSIDE),
                "{}",
                path.display()
            );
        }),
        1 => folder::write(path, b"written", 0o600),
        2 => folder::open_or_create(path, 0o600).and_then(|file| file.set_len(1)),
        3 => in_folder(&|found| found.set_mode(name, 0o640)),
        4 => in_folder(&|found| found.rename(name, OsStr::new("renamed"))),
        5 => in_folder(&|found| found.remove(name)),
        _ => Folder::create(&path.join("made"), 0o755).and_then(|made| {
            let path = path.join("made");
            assert_eq!(path.canonicalize().unwrap(), path);
            made.set_own_mode(0o700)
        }),
    };
    assert!(
        done.is_err() || is_real || path.join("made").exists(),
        "{} passes a link",
        path.display()
    );
    done.is_ok()
}

/// Everything in a directory, with modes, contents and targets.
fn tree(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let content = if meta.is_dir() {
            all.extend(tree(&path));
            String::new()
        } else if meta.is_file() {
            fs::read_to_string(&path).unwrap()
        } else {
            format!("{:?}", fs::read_link(&path).ok())
        };
        all.insert(path, format!("{:o} {content}", meta.mode()));
    }
    all
}

/// Checks that no container can replace a source: no directory above it is mounted writable.
fn check_parents(sources: &[(PathBuf, bool)]) {
    for (writable, _) in sources.iter().filter(|(_, read_only)| !read_only) {
        for (source, _) in sources {
            let is_below = source != writable && source.starts_with(writable);
            assert!(!is_below, "{} is below {}", source.display(), writable.display());
        }
    }
}

/// Sources of all bind mounts of all accepted environments, and true for each that is read-only.
fn bind_sources(registry: &SpecRegistry) -> Vec<(PathBuf, bool)> {
    let services = registry
        .environments
        .values()
        .flat_map(|accepted| accepted.desired.services.values());
    let mounts = services.flat_map(|service| &service.mounts);
    let sources = mounts.filter_map(|mount| match mount {
        Mount::Bind {
            source, read_only, ..
        } => Some((PathBuf::from(source), *read_only)),
        Mount::Volume { .. } => None,
    });
    sources.collect()
}

fn is_explained(entry: &FileEntry) -> bool {
    entry.accepted.is_some() || entry.diagnostics.iter().any(Diagnostic::is_error)
}

#[test]
fn random_paths_stay_inside_the_project() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (mut accepted, mut mounted, mut checked, mut accessed) = (0, 0, 0, 0);
    for seed in Seeds::new("paths", SEEDS) {
        let random = &mut Rng::new(seed);
        let root = base.join("t");
        let mut site = Site::create(random, &root);
        for number in 0..3 {
            let path = root.join(format!("project/specs/{number}.e2e.yaml"));
            fs::write(path, site.spec(random, number)).unwrap();
        }
        let registry = site.read_specs();
        for (path, entry) in &registry.files {
            assert!(
                is_explained(entry),
                "seed {seed}: {} without a diagnostic",
                path.display()
            );
        }
        let shown = format!("{registry:?}");
        assert!(
            !shown.contains(OUTSIDE),
            "seed {seed}: content from outside in {shown}"
        );
        for environment in registry.environments.values() {
            site.check_desired(&environment.desired);
            accepted += 1;
        }
        // The tree changes between the admission and the start.
        for _ in 0..below(random, 8) {
            site.add_entry(random);
        }
        let sources = bind_sources(&registry);
        check_parents(&sources);
        mounted += sources.len();
        let mut sources: Vec<PathBuf> = sources.into_iter().map(|(source, _)| source).collect();
        for _ in 0..below(random, 4) {
            let path = one_of(random, &site.folders).join(relative_path(random));
            // The paths of an engine contain no `..`.
            if path.components().all(|part| part != Component::ParentDir) {
                sources.push(path.components().collect());
            }
        }
        checked += sources
            .iter()
            .filter(|source| site.check_before_create(source))
            .count();
        accessed += site.check_files(random);
        fs::remove_dir_all(&root).unwrap();
    }
    println!(
        "paths: {accepted} environments and {mounted} mounts accepted, {checked} sources passed the check before a create, {accessed} \
         accesses to files below the project"
    );
    assert!(accepted > 0 && mounted > 0 && checked > 0 && accessed > 0);
}
