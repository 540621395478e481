//! Projects, worktrees and links on a real file system.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use argus_core::desired::Image;
use argus_core::desired::excluded::ContextEntry;
use argus_core::desired::namespace::NamespaceFrom;
use argus_core::time::Timestamp;

use super::*;
use crate::specs::SpecLoaderSettings;
use crate::specs::admission::SpecAdmitter;
use crate::specs::evaluation::{BuildContexts, Evaluation};
use crate::specs::registry::Admission;
use crate::specs::scan::Text;
use crate::specs::source::SpecSource;

fn tree(directories: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for directory in directories {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    (dir, root)
}

fn of(file: &Path, access: &HostAccess) -> SpecLocation {
    SpecLocation::of(real(file), access)
}

fn leads(location: &mut SpecLocation, path: &Path) -> Result<String, String> {
    let path = path.to_str().unwrap().to_owned();
    location.resolve(&BTreeSet::from([path.clone()]));
    location.host.resolved.remove(&path).unwrap()
}

/// Admits contents with all facts of the disk.
fn admit(file: &Path, text: &str) -> Admission {
    admit_with(SpecAdmitter::default(), file, text)
}

fn admit_with(admitter: SpecAdmitter, file: &Path, text: &str) -> Admission {
    let settings = SpecLoaderSettings {
        source: SpecSource::new(Path::new("/nowhere"), Path::new("/nowhere")),
        strict: false,
        env_allow: Vec::new(),
        process_env: BTreeMap::new(),
        controller: String::new(),
        admitter,
        translate: None,
    };
    let (mut evaluation, now) = (Evaluation::default(), Timestamp::default());
    evaluation.update(
        &settings,
        (Path::new("e2e.yaml"), &real(file)),
        &Text::new(text.as_bytes().to_vec()),
        &mut BuildContexts::default(),
        (now, now),
    );
    evaluation.take_admission().unwrap().0
}

#[test]
fn project_is_worktree_else_parent_of_state_else_itself() {
    let (_dir, root) = tree(&[
        "repo/.git",
        "repo/deploy/env",
        "plain/env",
        "plain/.argus",
        "alone",
    ]);
    let access = |state: &str| HostAccess {
        state: root.join(state),
        ..HostAccess::default()
    };
    for (file, state, project) in [
        ("repo/deploy/env/e2e.yaml", "state", "repo"),
        ("plain/env/e2e.yaml", "plain/.argus", "plain"),
        ("plain/env/e2e.yaml", "plain/state", "plain/env"),
        ("alone/e2e.yaml", "plain/.argus", "alone"),
    ] {
        let found = of(&root.join(file), &access(state)).host.project;
        assert_eq!(found, root.join(project).to_str().unwrap(), "{file} {state}");
    }
}

#[test]
fn linked_worktree_is_read_and_names_its_environment() {
    let (_dir, root) = tree(&["shop/.git/worktrees/fix", "fix/env", "plain"]);
    let text = "project: { name: shop }\nisolation: { namespace: auto }\nservice: { image: x, container: { name: a } }\n";
    let name = |file: &str| admit(&root.join(file), text).env.map(String::from);
    assert_eq!(name("shop/e2e.yaml").as_deref(), Some("shop"));
    let git = root.join("shop/.git/worktrees/fix");
    fs::write(root.join("fix/.git"), format!("gitdir: {}\n", git.display())).unwrap();
    assert_eq!(name("fix/env/e2e.yaml").as_deref(), Some("fix"));
    // A link to the file of a worktree leads to that worktree.
    symlink(root.join("fix/env/e2e.yaml"), root.join("plain/e2e.yaml")).unwrap();
    fs::write(root.join("fix/env/e2e.yaml"), text).unwrap();
    assert_eq!(name("plain/e2e.yaml").as_deref(), Some("fix"));
    fs::write(root.join("fix/.git"), "not of git").unwrap();
    assert_eq!(name("fix/env/e2e.yaml"), None);
}

#[test]
fn branch_is_read_from_the_git_directory_of_the_worktree() {
    let (_dir, root) = tree(&["shop/.git/worktrees/fix", "fix"]);
    let git = root.join("shop/.git/worktrees/fix");
    fs::write(root.join("fix/.git"), "gitdir: ../shop/.git/worktrees/fix\n").unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/topic\n").unwrap();
    let admitter = SpecAdmitter {
        namespace_from: NamespaceFrom::Branch,
        ..SpecAdmitter::default()
    };
    let head = || {
        admitter
            .locate(&root.join("fix/e2e.yaml"))
            .host
            .worktree
            .unwrap()
            .head
    };
    assert_eq!(head().as_deref(), Some("ref: refs/heads/topic\n"));
    fs::remove_file(git.join("HEAD")).unwrap();
    symlink(root.join("fix/.git"), git.join("HEAD")).unwrap();
    assert_eq!(head(), None, "a link is not followed");
}

#[test]
fn worktrees_of_a_repository_find_each_other() {
    let (_dir, root) = tree(&[
        "shop/.git/worktrees/b",
        "shop/.git/worktrees/a",
        "a/env",
        "b",
        "plain",
    ]);
    for name in ["a", "b"] {
        let git = root.join("shop/.git/worktrees").join(name);
        let git_file = root.join(name).join(".git");
        fs::write(&git_file, format!("gitdir: {}\n", git.display())).unwrap();
        fs::write(git.join("gitdir"), format!("{}\n", git_file.display())).unwrap();
    }
    let expected = |names: [&str; 3]| names.map(|name| root.join(name));
    assert_eq!(worktrees_of(&root.join("shop")), expected(["shop", "a", "b"]));
    assert_eq!(worktrees_of(&root.join("a/env")), expected(["a", "shop", "b"]));
    // Git can record the path of the repository with links.
    symlink(root.join("shop"), root.join("link")).unwrap();
    fs::write(root.join("a/.git"), "gitdir: ../link/.git/worktrees/a\n").unwrap();
    assert_eq!(worktrees_of(&root.join("a")), expected(["a", "shop", "b"]));
    assert!(worktrees_of(&root.join("plain")).is_empty());
}

#[test]
fn worktree_that_its_repository_does_not_know_is_alone() {
    let (_dir, root) = tree(&["mine/.git/worktrees/x", "x", "planted"]);
    let git = root.join("mine/.git/worktrees/x");
    let link = format!("gitdir: {}\n", git.display());
    fs::write(root.join("planted/.git"), &link).unwrap();
    fs::write(git.join("gitdir"), format!("{}\n", root.join("x/.git").display())).unwrap();
    fs::write(root.join("x/.git"), &link).unwrap();
    let alone = |planted: &str| assert_eq!(worktrees_of(&root.join("planted")), [root.join(planted)]);
    alone("planted");
    let main = format!("gitdir: {}\n", root.join("mine/.git").display());
    fs::write(root.join("planted/.git"), main).unwrap();
    alone("planted");
    // A repository in the checkout names the folders of others as its worktrees.
    fs::remove_file(root.join("planted/.git")).unwrap();
    for other in ["mine", "x"] {
        let entry = root.join("planted/.git/worktrees").join(other);
        fs::create_dir_all(&entry).unwrap();
        let named = format!("{}\n", root.join(other).join(".git").display());
        fs::write(entry.join("gitdir"), named).unwrap();
    }
    alone("planted");
    assert_eq!(worktrees_of(&root.join("x")), [root.join("x"), root.join("mine")]);
    assert_eq!(
        worktrees_of(&root.join("mine")),
        [root.join("mine"), root.join("x")]
    );
}

#[test]
fn worktree_that_another_user_made_is_no_project() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (_dir, root) = tree(&["outer/.git", "outer/repo/.git", "outer/repo/env", "outer/.argus"]);
    // A container can change the owner of the directory that it mounts.
    for changed in ["outer/repo/.git", "outer/repo"] {
        std::os::unix::fs::chown(root.join(changed), Some(4321), None).unwrap();
        let access = HostAccess {
            state: root.join("outer/.argus"),
            ..HostAccess::default()
        };
        let found = of(&root.join("outer/repo/env/e2e.yaml"), &access).host.project;
        assert_eq!(found, root.join("outer/repo/env").to_str().unwrap());
        std::os::unix::fs::chown(root.join(changed), Some(0), None).unwrap();
    }
}

#[test]
fn mounts_of_private_folders_are_refused_and_contexts_omit_them() {
    let (_dir, root) = tree(&["p/home/argus/shop", "p/home/other", "p/data"]);
    fs::write(root.join("p/Dockerfile"), "FROM scratch").unwrap();
    let admitter = SpecAdmitter {
        access: HostAccess {
            // It does not exist yet.
            private: vec![root.join("p/home/argus"), root.join("p/home/settings")],
            ..HostAccess::default()
        },
        ..SpecAdmitter::default()
    };
    let admit = |service: &str| {
        let text = format!("project: {{name: x}}\nservice:\n  {service}\n");
        admit_with(admitter.clone(), &root.join("p/e2e.yaml"), &text)
    };
    for (source, accepted) in [
        (".", false),
        ("./home", false),
        ("./home/argus", false),
        ("./home/argus/shop-2", false),
        ("./home/settings", false),
        ("./home/other", true),
        ("./data", true),
    ] {
        let judged = admit(&format!(
            "image: i\n  container: {{name: a, volumes: ['{source}:/x:ro']}}"
        ));
        assert_eq!(
            judged.desired.is_some(),
            accepted,
            "{source}: {:#?}",
            judged.diagnostics
        );
    }
    let judged = admit("build: {context: .}\n  container: {name: a}");
    let desired = judged.desired.expect("a build of a folder with private state");
    let Image::Built(build) = &desired.services.values().next().unwrap().image else {
        panic!("a build")
    };
    for left_out in ["home/argus/shop/token", "home/settings/argus.toml"] {
        let mut parents = Path::new(left_out).ancestors().skip(1);
        assert!(
            parents.any(|parent| build.excluded.classify(parent) == ContextEntry::DirectoryOnly),
            "{left_out}: {:?}",
            build.excluded
        );
    }
}

#[test]
fn foreign_git_directory_makes_no_worktree() {
    // Only root can create files of other users.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (_dir, root) = tree(&["shared/.git", "shared/bob", "shared/alice"]);
    for (directory, owner) in [
        ("shared/.git", 4321),
        ("shared/bob", 4321),
        ("shared/alice", 1234),
    ] {
        std::os::unix::fs::chown(root.join(directory), Some(owner), None).unwrap();
    }
    let mut location = of(&root.join("shared/bob/e2e.yaml"), &HostAccess::default());
    assert_eq!(location.host.project, root.join("shared/bob").to_str().unwrap());
    assert!(leads(&mut location, &root.join("shared/alice")).is_err());
    // Neither does a directory of a user who is not trusted.
    std::os::unix::fs::chown(root.join("shared"), Some(4321), None).unwrap();
    let location = of(&root.join("shared/alice/e2e.yaml"), &HostAccess::default());
    assert_eq!(location.host.project, root.join("shared/alice").to_str().unwrap());
}

#[test]
fn file_in_a_system_directory_has_no_project() {
    let mut location = of(Path::new("/tmp/e2e.yaml"), &HostAccess::default());
    let (_dir, root) = tree(&["data"]);
    assert!(leads(&mut location, &root.join("data")).is_err());
}

#[test]
fn link_swapped_in_after_the_scan_is_not_followed() {
    let (_dir, root) = tree(&["specs/own/data", "victim/data"]);
    let file = root.join("specs/own/e2e.yaml");
    fs::write(&file, "").unwrap();
    let checked = real(&file);
    fs::rename(root.join("specs/own"), root.join("specs/away")).unwrap();
    symlink(root.join("victim"), root.join("specs/own")).unwrap();
    let mut location = SpecLocation::of(checked, &HostAccess::default());
    assert!(leads(&mut location, &root.join("specs/own/data")).is_err());
    assert!(leads(&mut location, &root.join("victim/data")).is_err());
}

#[test]
fn linked_project_directory_counts_where_it_really_is() {
    let (_dir, root) = tree(&["specs", "repo/data"]);
    fs::write(root.join("repo/e2e.yaml"), "").unwrap();
    symlink(root.join("repo"), root.join("specs/shop")).unwrap();
    let location = of(&root.join("specs/shop/e2e.yaml"), &HostAccess::default());
    assert_eq!(location.file, root.join("repo/e2e.yaml"));
    assert_eq!(location.host.project, root.join("repo").to_str().unwrap());
}

#[test]
fn private_folders_are_compared_without_links() {
    let (_dir, root) = tree(&["real", "mine"]);
    symlink("real", root.join("link")).unwrap();
    let access = HostAccess {
        private: vec![root.join("link/argus")],
        ..HostAccess::default()
    };
    let location = of(&root.join("mine/e2e.yaml"), &access);
    let expected = root.join("real/argus").display().to_string();
    assert_eq!(location.host.private_dirs, [expected]);
}

#[test]
fn permission_covers_files_of_its_folder_only() {
    let (_dir, root) = tree(&["mine/deep", "mine/clone/.git", "mine-2", "other"]);
    symlink("../other", root.join("mine/linked")).unwrap();
    let access = HostAccess {
        allowed: Some(root.join("mine")),
        ..HostAccess::default()
    };
    for (folder, allowed) in [
        ("mine", true),
        ("mine/deep", true),
        ("mine/clone", false),
        ("mine-2", false),
        ("other", false),
        ("mine/linked", false),
    ] {
        let location = of(&root.join(folder).join("e2e.yaml"), &access);
        assert_eq!(location.host.allowed, allowed, "{folder}");
    }
}

#[test]
fn volume_and_home_folder_are_no_project() {
    let (_dir, root) = tree(&["data/volumes/shop_data/_data/p/sub", "data/volumes/plain/p/sub"]);
    for (folder, is_project) in [
        ("data/volumes/shop_data/_data/p", false),
        ("data/volumes/plain/p", true),
    ] {
        let mut location = of(&root.join(folder).join("e2e.yaml"), &HostAccess::default());
        let found = leads(&mut location, &root.join(folder).join("sub"));
        assert_eq!(found.is_ok(), is_project, "{folder}: {found:?}");
    }
    let home = real(&std::env::home_dir().unwrap());
    assert!(contains_home(&home) && contains_home(home.parent().unwrap()));
    assert!(!contains_home(&home.join("project")));
}

#[test]
fn home_folder_behind_a_link_is_found() {
    let (_dir, root) = tree(&["data/home/me/project", "x"]);
    symlink("data/home", root.join("home")).unwrap();
    for home in ["data/home/me", "home/me", "x/../home/me/", "home/me/project/.."] {
        let home = root.join(home);
        for (directory, contains) in [
            ("data/home/me", true),
            ("data/home", true),
            ("data", true),
            ("data/home/me/project", false),
            ("x", false),
        ] {
            assert_eq!(
                leads_into(&home, &root.join(directory)),
                contains,
                "{} {directory}",
                home.display()
            );
        }
    }
    assert!(!leads_into(Path::new(""), Path::new("/data")));
}

#[test]
fn link_out_of_the_project_is_refused() {
    let (_dir, root) = tree(&["p/data", "allowed/in", "out"]);
    for (link, target) in [
        ("p/host", "/"),
        ("p/up", "../out"),
        ("p/in", "data"),
        ("p/granted", "../allowed/in"),
        ("allowed/leak", "/etc"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    let access = HostAccess {
        allow_mounts: vec![root.join("allowed").display().to_string()],
        ..HostAccess::default()
    };
    let mut location = of(&root.join("p/e2e.yaml"), &access);
    for (path, real) in [
        ("p/in", "p/data"),
        ("p/granted", "allowed/in"),
        ("p/new/x", "p/new/x"),
    ] {
        let expected = root.join(real).display().to_string();
        assert_eq!(leads(&mut location, &root.join(path)), Ok(expected), "{path}");
    }
    for path in [
        "p/host",
        "p/up",
        "p/host/etc/passwd",
        "allowed/leak",
        "out",
        "p/up/none",
    ] {
        let refused = leads(&mut location, &root.join(path));
        assert!(refused.is_err_and(|why| why.contains("outside")), "{path}");
    }
}

#[test]
fn engine_socket_is_refused_whatever_is_allowed() {
    let (_dir, root) = tree(&["p", "run/engine"]);
    let socket = root.join("run/engine/e.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    symlink(&socket, root.join("p/innocent")).unwrap();
    let access = HostAccess {
        allow_mounts: vec![root.display().to_string(), "/".to_owned()],
        engine: Some(socket),
        ..HostAccess::default()
    };
    let mut location = of(&root.join("p/e2e.yaml"), &access);
    for path in ["p/innocent", "run", "run/engine", "run/engine/e.sock"] {
        let refused = leads(&mut location, &root.join(path));
        assert!(refused.is_err_and(|why| why.contains("socket")), "{path}");
    }
}

#[test]
fn file_is_read_inside_the_project_only() {
    let (_dir, root) = tree(&["p", "out"]);
    fs::write(root.join("out/secret"), "secret").unwrap();
    fs::write(root.join("p/real"), "A=1").unwrap();
    symlink("../out/secret", root.join("p/.env")).unwrap();
    symlink("real", root.join("p/linked")).unwrap();
    let location = of(&root.join("p/e2e.yaml"), &HostAccess::default());
    assert!(location.read(&root.join("p/.env"), 100).is_err());
    assert_eq!(
        location.read(&root.join("p/linked"), 100).unwrap(),
        Some(b"A=1".to_vec())
    );
    assert_eq!(location.read(&root.join("p/linked"), 2).unwrap(), None);
    let missing = location.read(&root.join("p/none"), 100).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[test]
fn every_path_of_a_file_is_confined() {
    let (_dir, root) = tree(&["p/app", "out/context"]);
    fs::write(root.join("out/file"), "FROM scratch").unwrap();
    for (link, target) in [
        ("p/mount", "/"),
        ("p/context", "../out/context"),
        ("p/Linked", "../out/file"),
        ("p/app/Dockerfile", "../../out/file"),
        ("p/recordings", "../out"),
        ("p/api.yaml", "../out/file"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    let text = "project: {name: x}\nservices:\n  \
        a: {image: i, container: {name: a, volumes: [\"./mount:/x\"]}}\n  \
        b: {build: {context: ./context}, container: {name: b}}\n  \
        c: {build: {context: ., dockerfile: Linked}, container: {name: c}}\n  \
        d: {build: {context: ./app}, container: {name: d}}\n\
        mocks:\n  m: {port: 80, mode: replay, recordingsDir: ./recordings}\n  n: {port: 81, openapi: ./api.yaml}\n";
    let judged = admit(&root.join("p/e2e.yaml"), text);
    assert_eq!(judged.desired, None);
    let all = judged.diagnostics.iter().filter(|one| {
        one.hint
            .as_ref()
            .is_some_and(|hint| hint.starts_with("POLICY_VIOLATION"))
    });
    let mut refused: Vec<_> = all.map(|one| one.path.as_str()).collect();
    refused.sort_unstable();
    assert_eq!(
        refused,
        [
            "mocks.m.recordingsDir",
            "mocks.n.openapi",
            "services[0].container.volumes[0]",
            "services[1].build.context",
            "services[2].build.dockerfile",
            "services[3].build.dockerfile",
        ],
        "{:#?}",
        judged.diagnostics
    );
}

#[test]
fn missing_dockerfile_is_reported_with_all_tried_paths() {
    let (_dir, root) = tree(&["p/.git", "p/deploy/app"]);
    let text = "project: {name: x}\nservice:\n  build:\n    context: ./app\n    dockerfile: docker/File\n  container: {name: a}\n";
    let shown = |path: &str| root.join(path).display().to_string();
    let places = ["p/deploy/docker", "p/deploy/app/docker", "p/docker"];
    let judged = admit(&root.join("p/deploy/e2e.yaml"), text);
    assert_eq!(judged.desired, None);
    let [diagnostic] = &judged.diagnostics[..] else {
        panic!("{:#?}", judged.diagnostics)
    };
    assert_eq!(diagnostic.location.unwrap().line, 5);
    assert!(
        diagnostic
            .message
            .contains("the Dockerfile `docker/File` does not exist")
    );
    assert!(diagnostic.hint.is_some());
    for place in places {
        let tried = format!("`{}/File`", shown(place));
        assert!(
            diagnostic.message.contains(&tried),
            "{tried}: {}",
            diagnostic.message
        );
    }
    // The first that exists counts, so the last is created first.
    for (place, used) in [
        ("p/docker", shown("p/docker/File")),
        ("p/deploy/app/docker", "docker/File".to_owned()),
        ("p/deploy/docker", shown("p/deploy/docker/File")),
    ] {
        fs::create_dir(root.join(place)).unwrap();
        fs::write(root.join(place).join("File"), "FROM scratch").unwrap();
        let judged = admit(&root.join("p/deploy/e2e.yaml"), text);
        let desired = judged.desired.expect(place);
        let Image::Built(build) = &desired.services.values().next().unwrap().image else {
            panic!("a build")
        };
        assert_eq!(build.dockerfile, used);
    }
}

#[test]
fn missing_build_context_and_default_dockerfile_are_reported() {
    let (_dir, root) = tree(&["p/app"]);
    let context =
        "project: {name: x}\nservices:\n  a:\n    build:\n      context: ./none\n    container: {name: a}\n";
    let dockerfile = context.replace("./none", "./app");
    for (text, line, tried) in [(context, 5, "p/none"), (&dockerfile, 4, "p/app/Dockerfile")] {
        let judged = admit(&root.join("p/e2e.yaml"), text);
        let [diagnostic] = &judged.diagnostics[..] else {
            panic!("{:#?}", judged.diagnostics)
        };
        assert_eq!(diagnostic.location.unwrap().line, line, "{diagnostic:?}");
        let tried = format!("does not exist; Argus tried `{}`", root.join(tried).display());
        assert!(diagnostic.message.contains(&tried), "{diagnostic:?}");
    }
}

#[test]
fn missing_files_are_reported_together_with_similar_names() {
    let (_dir, root) = tree(&["p/app", "p/apis", "p/initdb"]);
    fs::write(root.join("p/app/Dockerfile.dev"), "FROM scratch").unwrap();
    fs::write(root.join("p/apis/payments.yaml"), "{}").unwrap();
    let text = "project: {name: x}\nservices:\n  a:\n    build:\n      context: ./app\n      dockerfile: Dockerfile.dv\n    container: {name: a}\n  \
                b:\n    image: i\n    container: {name: b, volumes: [\"./initbd/sql:/x\", \"./nothing:/y\"]}\n\
                mocks:\n  m: {port: 80, openapi: apis/payment.yaml}\n";
    let judged = admit(&root.join("p/e2e.yaml"), text);
    let hints: Vec<_> = judged
        .diagnostics
        .iter()
        .map(|diagnostic| {
            (
                diagnostic.path.as_str(),
                diagnostic.hint.as_deref().unwrap_or_default(),
            )
        })
        .collect();
    let similar = |path: &str| format!("there is `{}`", root.join(path).display());
    for (path, hint) in [
        ("services[0].build.dockerfile", similar("p/app/Dockerfile.dev")),
        ("services[1].container.volumes[0]", similar("p/initdb")),
        (
            "services[1].container.volumes[1]",
            "create it, or fix the path".to_owned(),
        ),
        ("mocks.m.openapi", similar("p/apis/payments.yaml")),
    ] {
        assert!(hints.contains(&(path, hint.as_str())), "{path}: {hints:#?}");
    }
    let corrections: Vec<_> = judged
        .diagnostics
        .iter()
        .filter_map(|diagnostic| {
            let correction = diagnostic.correction.as_ref()?;
            Some((correction.now.as_deref()?, correction.suggest.as_deref()?))
        })
        .collect();
    for corrected in [
        ("Dockerfile.dv", "Dockerfile.dev"),
        ("./initbd/sql", "./initdb/sql"),
        ("apis/payment.yaml", "apis/payments.yaml"),
    ] {
        assert!(corrections.contains(&corrected), "{corrections:#?}");
    }
}
