//! State directory: modes of its folders, and paths that are refused.

use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn status_is_public_and_the_rest_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("a/state"), &dir.path().join("specs")).unwrap();
    assert_eq!(mode(state.root()), 0o755);
    assert_eq!(mode(&state.environments()), 0o755);
    assert_eq!(mode(&state.private()), 0o700);
    write_private(&state.state_json(), b"{}").unwrap();
    write_public(&state.controller_json(), b"{}").unwrap();
    write_public(&state.controller_json(), b"{\"a\":1}").unwrap();
    assert_eq!(mode(&state.state_json()), 0o600);
    assert_eq!(mode(&state.controller_json()), 0o644);
    assert_eq!(std::fs::read(state.controller_json()).unwrap(), b"{\"a\":1}");
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
    assert_eq!(state.locked_folder(), own);
    assert!(!state.root().join("private").exists());
    // A wrong mode is corrected, because the owner is this user.
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
    state.create(&specs).unwrap();
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
    // Only root can give a folder to another user.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&own, Some(1234), None).unwrap();
        refused(&own);
        std::os::unix::fs::chown(&own, Some(0), None).unwrap();
        std::os::unix::fs::chown(dir.path().join("home/argus"), Some(1234), None).unwrap();
        refused(&own);
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
