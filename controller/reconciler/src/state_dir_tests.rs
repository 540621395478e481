//! State directory: modes of its folders, and paths that are refused.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::private_folder::resolve_fixed;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_user_reads_status_and_private_files() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("a/state"), &dir.path().join("specs")).unwrap();
    assert_eq!(mode(state.root()), 0o755);
    assert_eq!(mode(&state.environments()), 0o755);
    assert_eq!(mode(&state.private()), 0o700);
    write_private(&state.state_json(), b"{}").unwrap();
    std::fs::write(state.controller_json(), "{}").unwrap();
    std::fs::set_permissions(state.controller_json(), std::fs::Permissions::from_mode(0o644)).unwrap();
    state
        .write_status(&state.controller_json(), b"{\"a\":1}")
        .unwrap();
    assert_eq!(mode(&state.state_json()), 0o600);
    assert_eq!(mode(&state.controller_json()), 0o600);
    assert_eq!(std::fs::read(state.controller_json()).unwrap(), b"{\"a\":1}");
}

#[test]
fn reader_never_sees_a_part_of_a_status_file() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
    let path = state.environments().join("shop.json");
    let contents = ["short".to_owned(), "long".repeat(100_000)];
    let write = |number: usize| {
        let content = &contents[number % 2];
        state.write_status(&path, content.as_bytes()).unwrap();
    };
    write(0);
    let mut reads = [0, 0];
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..=100).for_each(write));
        while !writer.is_finished() {
            let found = std::fs::read_to_string(&path).unwrap();
            let whole = contents.iter().position(|content| *content == found);
            reads[whole.unwrap_or_else(|| panic!("a part of {} bytes", found.len()))] += 1;
        }
    });
    assert!(reads.iter().all(|count| *count > 0), "{reads:?}");
    assert_eq!(folder::list(&state.environments()).unwrap(), ["shop.json"]);
}

#[test]
fn state_around_the_specs_is_refused_through_links_and_dots() {
    let dir = tempfile::tempdir().unwrap();
    let specs = dir.path().join("specs");
    std::fs::create_dir(&specs).unwrap();
    std::fs::write(specs.join("shop.yaml"), "").unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&specs, &link).unwrap();
    for state in [
        specs.clone(),
        link.clone(),
        dir.path().join("none/../specs"),
        dir.path().to_owned(),
    ] {
        for specs in [&specs, &specs.join("shop.yaml")] {
            let refused = StateDir::prepare(&state, specs);
            assert!(
                matches!(refused, Err(StateError::ContainsSpecs { .. })),
                "{}",
                state.display()
            );
        }
    }
    for state in [
        specs.join(".argus"),
        link.join("x/y"),
        dir.path().join("specs-state"),
    ] {
        StateDir::prepare(&state, &specs).unwrap();
    }
}

#[test]
fn outer_private_state_is_refused_if_linked_or_foreign() {
    let dir = tempfile::tempdir().unwrap();
    let (specs, own) = (dir.path().join("specs"), dir.path().join("home/argus/shop"));
    let state = StateDir::with_private(dir.path().join(".argus"), &own);
    state.check_private().unwrap();
    let state = state.create(&specs).unwrap();
    assert_eq!((state.private(), mode(&own)), (own.clone(), 0o700));
    assert_eq!(mode(&state.incidents()), 0o700);
    assert_eq!(state.locked_folder(), own);
    assert_eq!(
        state.incidents(),
        own.join("incidents"),
        "a repository contains none"
    );
    assert!(!state.root().join("private").exists());
    // A wrong mode is corrected, because the owner is this user.
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
    state.create_private().unwrap();
    assert_eq!(mode(&own), 0o700);

    let refused = |private: &Path| {
        let state = StateDir::with_private(dir.path().join(".argus"), private);
        let created = state.create(&specs).map(drop);
        assert!(created.is_err(), "{}", private.display());
        assert!(state.check_private().is_err(), "{}", private.display());
    };
    let link = dir.path().join("home/argus/link");
    std::os::unix::fs::symlink(&own, &link).unwrap();
    refused(&link);
    let file = dir.path().join("home/argus/file");
    std::fs::write(&file, "").unwrap();
    refused(&file);
    let linked_parent = dir.path().join("elsewhere");
    std::os::unix::fs::symlink(dir.path().join("home/argus"), &linked_parent).unwrap();
    refused(&linked_parent.join("shop"));
    let parent = dir.path().join("home/argus");
    set_mode(&parent, 0o777);
    refused(&own);
    set_mode(&parent, 0o700);
    // Only root can give a folder to another user.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&own, Some(1234), None).unwrap();
        refused(&own);
        std::os::unix::fs::chown(&own, Some(0), None).unwrap();
        std::os::unix::fs::chown(dir.path().join("home/argus"), Some(1234), None).unwrap();
        refused(&own);
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn private_state_below_a_shared_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (shared, specs) = (dir.path().join("shared"), dir.path().join("specs"));
    std::fs::create_dir(&shared).unwrap();
    let outer = StateDir::with_private(dir.path().join(".argus"), shared.join("home/argus/shop"));
    let given = StateDir::at(shared.join("team/state"));
    let check = |accepted: bool, why: &str| {
        for state in [&outer, &given] {
            assert_eq!(state.check_private().is_ok(), accepted, "{why}: {state:?}");
        }
    };
    for (mode, accepted) in [(0o777, false), (0o1777, true), (0o755, true), (0o700, true)] {
        set_mode(&shared, mode);
        check(accepted, &format!("{mode:o}"));
    }
    set_mode(&shared, 0o777);
    for state in [&outer, &given] {
        let refused = state.create(&specs);
        assert!(
            matches!(refused, Err(StateError::Untrusted { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(std::fs::read_dir(&shared).unwrap().count(), 0);
    // Others can exchange a link in the shared directory, but not one outside of it.
    std::os::unix::fs::symlink(dir.path(), shared.join("link")).unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();
    assert!(StateDir::at(shared.join("link/state")).check_private().is_err());
    StateDir::at(dir.path().join("link/state"))
        .check_private()
        .unwrap();
    // A path that is resolved for later accesses keeps the link that a check refuses.
    let unchanged = shared.join("link/state");
    assert_eq!(resolve_fixed(&unchanged), unchanged);
    let real = dir.path().canonicalize().unwrap();
    assert_eq!(resolve_fixed(&dir.path().join("link/state")), real.join("state"));
    // Only root can give a folder to another user or group.
    if rustix::process::geteuid().is_root() {
        for (user, group, mode, accepted) in [
            (1234, 0, 0o755, false),
            (0, 1234, 0o775, false),
            (0, 1234, 0o755, true),
            (0, 0, 0o775, true),
        ] {
            std::os::unix::fs::chown(&shared, Some(user), Some(group)).unwrap();
            set_mode(&shared, mode);
            check(accepted, &format!("{user} {group} {mode:o}"));
        }
        // The owner of a link can exchange it, and so can the owner of its directory.
        set_mode(&shared, 0o755);
        let accepts = |path: &str| StateDir::at(dir.path().join(path)).check_private().is_ok();
        for (path, changed) in [
            ("link/state", dir.path().join("link")),
            ("shared/link/state", shared),
        ] {
            assert!(accepts(path), "{path}");
            std::os::unix::fs::lchown(changed, Some(1234), None).unwrap();
            assert!(!accepts(path), "{path}");
        }
    }
}

#[test]
fn linked_state_of_a_project_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (root, elsewhere) = (dir.path().join(".argus"), dir.path().join("elsewhere"));
    std::fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &root).unwrap();
    let state = StateDir::with_private(&root, dir.path().join("home/argus/shop"));
    assert!(state.create(&dir.path().join("specs")).is_err());
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn given_state_of_another_user_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let (root, specs) = (dir.path().join("state"), dir.path().join("specs"));
    let private = root.join("private");
    std::fs::create_dir_all(&private).unwrap();
    set_mode(&root, 0o700);
    let state = StateDir::at(&root);
    state.create(&specs).unwrap();
    assert_eq!(mode(&root), 0o700, "the folder of a user keeps its mode");
    let refused = || {
        assert!(matches!(
            state.create(&specs),
            Err(StateError::Untrusted { is_given: true, .. })
        ));
        assert!(state.check_private().is_err());
    };
    set_mode(&root, 0o777);
    refused();
    set_mode(&root, 0o755);
    if rustix::process::geteuid().is_root() {
        for foreign in [&root, &private] {
            set_mode(foreign, 0o750);
            std::os::unix::fs::chown(foreign, Some(1234), None).unwrap();
            refused();
            assert_eq!(mode(foreign), 0o750);
            std::os::unix::fs::chown(foreign, Some(0), None).unwrap();
        }
    }
    std::fs::remove_dir_all(&private).unwrap();
    std::fs::write(&private, "").unwrap();
    state.check_private().unwrap();
    std::fs::remove_file(&private).unwrap();
    std::os::unix::fs::symlink(dir.path(), &private).unwrap();
    state.check_private().unwrap();
    let created = state.create(&specs);
    assert!(matches!(
        created,
        Err(StateError::Untrusted { is_given: true, .. })
    ));
    // A start moves only a link to nowhere away.
    std::fs::remove_file(&private).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", &private).unwrap();
    assert_eq!(state.quarantine_misplaced(Timestamp(0)).len(), 1);
    state.create(&specs).unwrap();
    assert!(private.symlink_metadata().unwrap().is_dir());
}

#[test]
fn given_state_that_git_tracks_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let git = |words: &[&str]| {
        let run = std::process::Command::new("git")
            .current_dir(&root)
            .args(words)
            .output();
        assert!(run.unwrap().status.success(), "{words:?}");
    };
    git(&["init", "-q"]);
    let (specs, state) = (root.join("specs"), StateDir::at(root.join("made")));
    std::fs::create_dir_all(state.private()).unwrap();
    std::fs::write(state.private().join("token"), "known").unwrap();
    state.check_private().unwrap();
    git(&["add", "made"]);
    for refused in [state.check_private(), state.create(&specs).map(drop)] {
        let Err(StateError::Untrusted {
            is_given: true,
            source,
            ..
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert!(
            source
                .to_string()
                .starts_with("git tracks files of the state in `"),
            "{source}"
        );
    }
}

#[test]
fn group_of_others_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str, group: u32| {
        let state = StateDir::at(dir.path().join(name)).with_status_group(Some(group));
        state.create(&dir.path().join("specs"))
    };
    let own = rustix::process::getegid().as_raw();
    let state = at("own", own).unwrap();
    assert_eq!((state.status_group(), state.status_mode()), (Some(own), 0o640));
    // Root can give a file to any group.
    if !rustix::process::geteuid().is_root() {
        let refused = at("other", 0).unwrap_err();
        assert!(matches!(refused, StateError::Group { group: 0, .. }), "{refused}");
    }
}

#[test]
fn clean_stop_marker_is_taken_once() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
    assert!(!state.remove_clean_shutdown().unwrap());
    write_private(&state.clean_shutdown(), b"").unwrap();
    assert!(state.remove_clean_shutdown().unwrap());
    assert!(!state.remove_clean_shutdown().unwrap());
}
