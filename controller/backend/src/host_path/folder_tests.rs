//! Access below a root: links at every component, objects that are no files, and exchanges during the access.

use std::fs;
use std::io::Seek as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A root, and a folder next to it with a key that stays as it is.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["root/in", "keys"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let site = Self { dir };
        fs::write(site.path("keys/id"), "secret").unwrap();
        fs::set_permissions(site.path("keys/id"), fs::Permissions::from_mode(0o600)).unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn check_keys(&self) {
        let names: Vec<_> = list(&self.path("keys")).unwrap();
        let mode = fs::metadata(self.path("keys/id")).unwrap().permissions().mode() & 0o777;
        assert_eq!((names, mode), (vec![OsString::from("id")], 0o600));
        assert_eq!(fs::read(self.path("keys/id")).unwrap(), b"secret");
        let folder = fs::metadata(self.path("keys")).unwrap().permissions().mode() & 0o777;
        assert_ne!(folder, 0o711, "only the root has this mode");
    }
}

/// Every access to one path. Returns what was read.
fn access(path: &Path) -> Vec<io::Result<Vec<u8>>> {
    let name = path.file_name().unwrap();
    let parent = Folder::parent_of(path).map(|(folder, _)| folder);
    let parent = parent.as_ref().ok();
    let nothing = |result: io::Result<()>| result.map(|()| Vec::new());
    let mut all = vec![
        read(path, 100),
        write(path, b"new", 0o644).map(|()| Vec::new()),
        Folder::create(&path.join("made"), 0o755).and_then(|made| nothing(made.set_own_mode(0o711))),
        list(path).map(|names| names.join(OsStr::new("")).as_bytes().to_vec()),
        remove(&path.join("id")).map(|_| Vec::new()),
    ];
    if let Some(folder) = parent {
        all.push(nothing(folder.set_mode(name, 0o644)));
        all.push(nothing(folder.rename(name, OsStr::new("moved"))));
    }
    all
}

#[test]
fn file_below_is_opened_without_links_only() {
    let site = Site::new();
    fs::write(site.path("root/in/f"), "in").unwrap();
    symlink("in", site.path("root/l")).unwrap();
    let root = Folder::open(&site.path("root")).unwrap();
    assert!(root.open_below(Path::new("in/f")).is_ok());
    for refused in ["l/f", "in", "in/../in/f", "/etc/passwd", "none", ""] {
        assert!(root.open_below(Path::new(refused)).is_err(), "{refused}");
    }
    let linked = Folder::open(&site.path("root/l")).unwrap_err();
    assert_eq!(linked.kind(), ErrorKind::NotADirectory);
    assert_eq!(linked.to_string(), "`l` is a link or not a folder");
    assert_eq!(read(&site.path("root/in/../in/./f"), 2).unwrap(), b"in");
    let entered = root.below(Path::new("in")).unwrap();
    let names: io::Result<Vec<_>> = entered.list().unwrap().collect();
    assert_eq!(names.unwrap(), ["f"]);
}

#[test]
fn links_devices_and_long_files_are_refused() {
    let site = Site::new();
    let path = site.path("root/state.json");
    fs::write(&path, "12345").unwrap();
    assert_eq!(read(&path, 5).unwrap(), b"12345");
    let long = read(&path, 4).unwrap_err().to_string();
    assert!(long.contains("more than 4 bytes"), "{long}");
    let link = site.path("root/link");
    for target in ["/dev/zero", "state.json", "nowhere"] {
        symlink(target, &link).unwrap();
        assert_eq!(
            read(&link, 5).unwrap_err().to_string(),
            "it is a link",
            "{target}"
        );
        assert!(open_or_create(&link, 0o600).is_err(), "{target}");
        fs::remove_file(&link).unwrap();
    }
    let (fifo, socket) = (site.path("root/fifo"), site.path("root/socket"));
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, MODE, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for special in [Path::new("/dev/zero"), &fifo, &socket, &site.path("root/in")] {
        let error = read(special, 5).unwrap_err().to_string();
        assert_eq!(error, "it is not a file", "{}", special.display());
        assert!(open_or_create(special, 0o600).is_err(), "{}", special.display());
    }
}

#[test]
fn read_ends_after_the_limit() {
    let site = Site::new();
    fs::write(site.path("root/f"), "1234567890").unwrap();
    let mut file = open(&site.path("root/f")).unwrap();
    assert!(read_opened(file.try_clone().unwrap(), 4).is_err());
    assert_eq!(file.stream_position().unwrap(), 5);
}

#[test]
fn new_file_replaces_nothing() {
    let site = Site::new();
    let folder = Folder::open(&site.path("root")).unwrap();
    symlink(site.path("keys/new"), site.path("root/link")).unwrap();
    folder.create_file(OsStr::new("new"), 0o600).unwrap();
    for name in ["new", "link", "in"] {
        let error = folder.create_file(OsStr::new(name), 0o600).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{name}");
    }
    // No other process can predict the name of a temporary file.
    let names = [0, 1].map(|_| folder.create_temporary(0o600).unwrap().0);
    assert_ne!(names[0], names[1]);
    site.check_keys();
}

#[test]
fn file_is_replaced_as_a_whole_with_its_mode() {
    let site = Site::new();
    let path = site.path("root/in/f");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    for (content, wanted) in [("one", 0o600), ("two", 0o664)] {
        write(&path, content.as_bytes(), wanted).unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), mode()),
            (content, wanted)
        );
    }
    // A link at the name is replaced itself.
    fs::remove_file(&path).unwrap();
    symlink(site.path("keys/id"), &path).unwrap();
    write(&path, b"three", 0o644).unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    // A failed write leaves nothing behind.
    assert!(write(&site.path("root/in"), b"", 0o644).is_err());
    assert_eq!(list(&site.path("root")).unwrap(), ["in"]);
    assert_eq!(list(&site.path("root/in")).unwrap(), ["f"]);
    assert!(remove(&path).unwrap() && !remove(&path).unwrap());
    assert!(list(&site.path("none")).unwrap().is_empty());
    site.check_keys();
}

#[test]
fn file_for_a_group_gets_group_and_mode_or_is_not_written() {
    let site = Site::new();
    let (folder, name) = Folder::parent_of(&site.path("root/in/f")).unwrap();
    let own = rustix::process::getegid().as_raw();
    let facts = || {
        let stat = folder.stat(&name).unwrap();
        (stat.st_mode & 0o777, stat.st_gid)
    };
    folder.write_for(Some(own), &name, b"one", 0o640).unwrap();
    assert_eq!(facts(), (0o640, own));
    // Only root can give a file to each group.
    let written = folder.write_for(Some(4_321), &name, b"two", 0o640);
    assert_eq!(written.is_ok(), rustix::process::geteuid().is_root());
    assert_eq!(
        facts(),
        (0o640, if written.is_ok() { 4_321 } else { own }),
        "a failed write changes nothing"
    );
    assert_eq!(list(&site.path("root/in")).unwrap(), ["f"]);
    // A link gets a group itself.
    symlink(site.path("keys/id"), site.path("root/in/link")).unwrap();
    folder.set_group(OsStr::new("link"), own).unwrap();
    site.check_keys();
}

#[test]
fn mode_is_set_without_a_permission_to_read() {
    let site = Site::new();
    let path = site.path("root/f");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let (folder, name) = Folder::parent_of(&path).unwrap();
    folder.set_mode(&name, 0o640).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    symlink(site.path("keys/id"), site.path("root/link")).unwrap();
    for other in ["in", "link"] {
        assert!(folder.set_mode(OsStr::new(other), 0o644).is_err(), "{other}");
    }
    site.check_keys();
}

#[test]
fn no_access_passes_a_link_at_any_component() {
    for link in ["root", "root/in", "root/in/deep"] {
        let site = Site::new();
        let at = site.path(link);
        if at.exists() {
            fs::remove_dir_all(&at).unwrap();
        }
        symlink(site.path("keys"), &at).unwrap();
        for below in ["", "id", "new", "deep/id"] {
            let path = at.join(below);
            for done in access(&path) {
                assert!(done.is_err() || below.is_empty(), "{} {done:?}", path.display());
                assert!(!done.is_ok_and(|read| read == b"secret" || read == b"id"));
            }
            site.check_keys();
            if below.is_empty() {
                // The link itself was replaced, which is allowed.
                drop(fs::remove_file(&at));
                drop(fs::remove_file(at.with_file_name("moved")));
                drop(fs::remove_dir_all(&at));
                symlink(site.path("keys"), &at).unwrap();
            }
        }
    }
}

/// A container that exchanges a folder and a link as fast as it can.
#[test]
fn no_access_leaves_the_root_during_exchanges() {
    let site = Site::new();
    let (inside, link) = (site.path("root/in"), site.path("root/link"));
    symlink(site.path("keys"), &link).unwrap();
    fs::write(inside.join("id"), "inside").unwrap();
    let is_over = AtomicBool::new(false);
    let exchanges = std::thread::scope(|scope| {
        let exchanger = scope.spawn(|| {
            let mut count = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                if rustix::fs::renameat_with(CWD, &inside, CWD, &link, flags).is_ok() {
                    count += 1;
                }
            }
            count
        });
        let (mut reads, mut refused) = (0, 0);
        for _ in 0..5_000 {
            match read(&inside.join("id"), 100) {
                Ok(bytes) => {
                    assert_eq!(bytes, b"inside");
                    reads += 1;
                }
                Err(_) => refused += 1,
            }
            let Ok((folder, name)) = Folder::parent_of(&inside.join("id")) else {
                continue;
            };
            folder.set_mode(&name, 0o644).unwrap();
            folder.write(OsStr::new("new"), b"x", 0o644).unwrap();
            folder.remove(OsStr::new("new")).unwrap();
            if reads > 50 && refused > 50 {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        exchanger.join().unwrap()
    });
    assert!(exchanges > 0);
    site.check_keys();
}
