//! Images built from files of the machine: no registry, no network.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use crate::{PrivateEngine, binary};

/// The applets that tests use; each is a link to the one static binary.
const APPLETS: [&str; 24] = [
    "sh", "cat", "echo", "sleep", "true", "false", "ls", "ps", "kill", "env", "head", "tail", "dd", "nc",
    "wget", "httpd", "nslookup", "ping", "ip", "mkdir", "rm", "touch", "date", "test",
];

impl PrivateEngine {
    /// Makes an image from Debian's static busybox. It sleeps forever unless `changes` (Dockerfile lines such as `CMD
    /// ["httpd", "-f"]`) set another command.
    pub fn make_busybox_image(&self, tag: &str, changes: &[&str]) {
        let mut all = vec!["ENV PATH=/bin", r#"CMD ["sleep", "1000000"]"#];
        all.extend_from_slice(changes);
        self.import(tag, &busybox().done(), &all);
    }

    /// Makes an image that serves `page` at `/` and `/healthz`, on port 8080.
    pub fn make_web_image(&self, tag: &str, page: &str) {
        let mut tree = busybox();
        tree.bytes("www/index.html", page.as_bytes(), 0o644);
        tree.bytes("www/healthz", b"ok", 0o644);
        self.import(
            tag,
            &tree.done(),
            &[
                "ENV PATH=/bin",
                r#"CMD ["httpd", "-f", "-p", "8080", "-h", "/www"]"#,
            ],
        );
    }

    /// Makes an image with this build's `argus` as its entrypoint, so that `command: [demo-service, …]` runs in it.
    pub fn load_argus_image(&self, tag: &str) {
        let program = binary::argus();
        let mut tree = Tree::new();
        tree.file("argus", &program);
        for library in binary::libraries(&program) {
            tree.file(&library.to_string_lossy()[1..], &library);
        }
        tree.folder("tmp");
        // An instrumented binary writes its profile to the working directory, and nothing reads that of a container.
        let changes = [
            r#"ENTRYPOINT ["/argus"]"#,
            "ENV LLVM_PROFILE_FILE=/dev/null",
            "WORKDIR /tmp",
        ];
        self.import(tag, &tree.done(), &changes);
    }

    /// Imports the tar of a file tree as the image `tag`, unless the tag has this content already.
    pub fn import(&self, tag: &str, tar: &[u8], changes: &[&str]) {
        let mut hasher = DefaultHasher::new();
        (tar, changes).hash(&mut hasher);
        self.import_once(tag, hasher.finish(), || self.import_again(tag, tar, changes));
    }

    fn import_again(&self, tag: &str, tar: &[u8], changes: &[&str]) {
        let (repo, tag) = tag.rsplit_once(':').unwrap_or((tag, "latest"));
        let mut path = format!(
            "/images/create?fromSrc=-&repo={}&tag={}",
            percent(repo),
            percent(tag)
        );
        for change in changes {
            path.push_str("&changes=");
            path.push_str(&percent(change));
        }
        let answer = self.upload("POST", &path, "application/x-tar", tar);
        let failed = !answer.ok() || String::from_utf8_lossy(&answer.body).contains("errorDetail");
        assert!(!failed, "import of {repo}:{tag}: {answer:?}");
    }
}

fn busybox() -> Tree {
    let busybox = binary::find("busybox").expect("busybox-static; hint: ./scripts/setup");
    let mut tree = Tree::new();
    tree.file("bin/busybox", &busybox);
    for applet in APPLETS {
        tree.link(&format!("bin/{applet}"), "busybox");
    }
    tree.folder("tmp");
    tree
}

/// A file tree, written as a tar in memory.
pub struct Tree {
    tar: tar::Builder<Vec<u8>>,
    folders: BTreeSet<String>,
}

impl Default for Tree {
    fn default() -> Self {
        Self::new()
    }
}

impl Tree {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tar: tar::Builder::new(Vec::new()),
            folders: BTreeSet::new(),
        }
    }

    /// Adds the content of a file of this machine, executable.
    pub fn file(&mut self, path: &str, source: &Path) {
        let bytes = fs::read(source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        self.bytes(path, &bytes, 0o755);
    }

    /// Adds a file with this content.
    pub fn bytes(&mut self, path: &str, bytes: &[u8], mode: u32) {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
        let mut header = header(tar::EntryType::Regular, mode);
        header.set_size(bytes.len() as u64);
        self.tar
            .append_data(&mut header, path, bytes)
            .expect("a tar in memory");
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        let mut header = header(tar::EntryType::Symlink, 0o777);
        self.tar
            .append_link(&mut header, path, target)
            .expect("a tar in memory");
    }

    /// Adds a directory and its parents, once.
    pub fn folder(&mut self, path: &str) {
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        if self.folders.insert(path.to_owned()) {
            let mut header = header(tar::EntryType::Directory, 0o755);
            self.tar
                .append_data(&mut header, path, std::io::empty())
                .expect("a tar in memory");
        }
    }

    /// The tar.
    #[must_use]
    pub fn done(self) -> Vec<u8> {
        self.tar.into_inner().expect("a tar in memory")
    }
}

fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(0);
    header
}

fn percent(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a string succeeds");
        }
    }
    out
}
