//! Covers of admitted files, and the refusals of mounts that no cover can protect.

use super::*;
use crate::desired::admit::{Admission, admit};
use crate::desired::conflict::Candidate;
use crate::desired::host::GitPaths;
use crate::desired::key_lines::KeyLines;
use crate::desired::{Accepted, Desired, nested_mounts};
use crate::ident::PortMap;
use crate::plan::{ControllerIdentity, render};
use crate::time::Timestamp;

/// Context of a file in `/w/p`, the worktree of which is `/w`.
fn context(git: &[&str]) -> SpecContext {
    let mut context = SpecContext {
        directory: "/w/p".to_owned(),
        ..SpecContext::default()
    };
    context.host.project = "/w".to_owned();
    context.host.git = Some(GitPaths {
        paths: git.iter().map(|path| (*path).to_owned()).collect(),
        ..GitPaths::default()
    });
    context
}

fn admission(env: &str, volumes: &[&str], tmpfs: &[&str], context: &SpecContext) -> Admission {
    let text = format!(
        "project: {{ name: {env} }}\nservices:\n  one: {{ image: a:1, tmpfs: {tmpfs:?}, container: {{ name: {env}-1, volumes: {volumes:?} }} }}\n"
    );
    let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    admit(&spec, context)
}

fn admitted(volumes: &[&str], tmpfs: &[&str], context: &SpecContext) -> Desired {
    let admission = admission("shop", volumes, tmpfs, context);
    admission
        .desired
        .unwrap_or_else(|| panic!("{:#?}", admission.diagnostics))
}

fn covers_of(desired: &Desired) -> Vec<String> {
    let covers = desired.services.values().flat_map(|service| &service.covers);
    let text = |mount: &Mount| {
        let ending = if mount.writable_source().is_some() {
            ""
        } else {
            ":ro"
        };
        format!("{}:{}{ending}", mount.source().unwrap(), mount.target())
    };
    covers.map(text).collect()
}

#[test]
fn git_below_a_writable_mount_is_mounted_read_only() {
    let top = &["/w/.git"][..];
    let submodules = &["/w/.git", "/w/libs/a/.git", "/w/libs/b/.git"][..];
    for (volumes, git, expected) in [
        (&["..:/app"][..], top, &["/w/.git:/app/.git:ro"][..]),
        (
            &["..:/app", "..:/b/"],
            top,
            &["/w/.git:/app/.git:ro", "/w/.git:/b/.git:ro"],
        ),
        (&["..:/app:ro"], top, &[]),
        (&[".:/app"], top, &[]),
        (&["data:/app"], top, &[]),
        (&["..:/app"], &[], &[]),
        // The file hides it already.
        (&["..:/app", "data:/app/.git"], top, &[]),
        (
            &["..:/app", "data:/app/.git/hooks"],
            top,
            &["/w/.git:/app/.git:ro"],
        ),
        (
            &["..:/app"],
            submodules,
            &[
                "/w/.git:/app/.git:ro",
                "/w/libs:/app/libs",
                "/w/libs/a:/app/libs/a",
                "/w/libs/a/.git:/app/libs/a/.git:ro",
                "/w/libs/b:/app/libs/b",
                "/w/libs/b/.git:/app/libs/b/.git:ro",
            ],
        ),
        (&["../libs/a:/lib"], submodules, &["/w/libs/a/.git:/lib/.git:ro"]),
        (
            &["..:/app", "data:/app/libs/a"],
            submodules,
            &[
                "/w/.git:/app/.git:ro",
                "/w/libs:/app/libs",
                "/w/libs/b:/app/libs/b",
                "/w/libs/b/.git:/app/libs/b/.git:ro",
            ],
        ),
    ] {
        assert_eq!(
            covers_of(&admitted(volumes, &[], &context(git))),
            expected,
            "{volumes:?}"
        );
    }
    let hidden = admitted(&["..:/app"], &["/app/.git/"], &context(top));
    assert_eq!(covers_of(&hidden), [""; 0]);
}

#[test]
fn permission_of_a_person_ends_the_covers() {
    let mut context = context(&["/w/.git"]);
    context.host.state_dir = "/w/.argus".to_owned();
    let facts = |context: &SpecContext| {
        let desired = admitted(&["..:/app"], &[], context);
        let tmpfs = desired.services["one"].tmpfs.clone();
        (covers_of(&desired).len(), tmpfs.len())
    };
    assert_eq!(facts(&context), (1, 1));
    context.host.git = None;
    assert_eq!(facts(&context), (0, 1), "the flag is about git only");
    context.host.allowed = true;
    assert_eq!(facts(&context), (0, 0));
}

#[test]
fn state_directory_is_hidden_below_writable_mounts() {
    let hidden = &["/app/.argus:ro,mode=0555"][..];
    for (volumes, state, expected) in [
        (&["..:/app"][..], "/w/.argus", hidden),
        (&["..:/app"], "/w/run/state", &["/app/run/state:ro,mode=0555"]),
        (&["..:/app", "..:/b:ro"], "/w/.argus", hidden),
        (&["..:/app:ro"], "/w/.argus", &[]),
        (&["..:/app", "data:/app/.argus"], "/w/.argus", &[]),
        (&["..:/app", "data:/app/run"], "/w/run/state", &[]),
        (&[".:/app"], "/w/.argus", &[]),
        (&["..:/app"], "", &[]),
        (&["..:/app"], "/w/a:b", &[]),
    ] {
        let mut context = context(&[]);
        context.host.state_dir = state.to_owned();
        let desired = admitted(volumes, &[], &context);
        assert_eq!(desired.services["one"].tmpfs, expected, "{volumes:?} {state}");
    }
}

#[test]
fn mount_with_covers_below_another_mount_is_refused() {
    let git = &["/w/.git", "/w/libs/a/.git"][..];
    for (volumes, refused) in [
        (&["data:/v", "..:/v/l"][..], true),
        (&["..:/v/a/l", "data:/v"], true),
        (&["data:/v:ro", "..:/v/l"], true),
        (&["..:/app", "..:/app/copy"], true),
        (&["data:/v", "../libs:/v/l"], true),
        // A mount of the file in the place of a cover can lead elsewhere as well.
        (&["data:/v", "..:/v/l", "x:/v/l/.git", "y:/v/l/libs"], true),
        (&["data:/v", "..:/v/l:ro"], false),
        (&["data:/v", "../src:/v/l"], false),
        (&["data:/v", "..:/vl"], false),
        // A mount below the project hides a part of it, and its covers with it.
        (&["..:/app", "node_modules:/app/node_modules"], false),
        (&["..:/app", "data:/app/libs"], false),
        // A link in a volume leads the next mount to the place of the project, which then lands elsewhere.
        (&["..:/app", "data:/app/libs", "data2:/app/libs/a/x"], true),
        (&["v1:/k", "v3:/k/m", "..:/p/x", "v2:/k/l"], true),
        (&["v1:/k", "v4:/k/l:ro", "..:/p/x"], true),
        (&["v1:/k", "v3:/k/m", "../src:/p/x"], false),
        (&["v1:/k", "v3:/k/m", "..:/p/x:ro"], false),
        (&["..:/app", "data:/data", "more:/data2"], false),
    ] {
        let mut facts = context(git);
        let errors = |context: &SpecContext| {
            let found = admission("shop", volumes, &[], context).diagnostics;
            found.into_iter().filter(Diagnostic::is_error).collect::<Vec<_>>()
        };
        let found = errors(&facts);
        assert_eq!(!found.is_empty(), refused, "{volumes:?} {found:#?}");
        for error in found {
            let index = |text: &str| volumes.iter().position(|volume| *volume == text).unwrap();
            let quoted: Vec<&str> = error.message.split('`').collect();
            let (nested, around) = (index(quoted[1]), index(quoted[3]));
            assert_eq!(error.path, format!("services[0].container.volumes[{nested}]"));
            assert!(nested != around);
            let hint = error.hint.unwrap();
            assert!(
                hint.starts_with("POLICY_VIOLATION: ") && hint.contains("`argus allow`"),
                "{hint}"
            );
        }
        facts.host.git = None;
        assert_eq!(errors(&facts), [], "{volumes:?}");
        // The same holds for the state directory.
        facts.host.state_dir = "/w/libs/state".to_owned();
        assert_eq!(!errors(&facts).is_empty(), refused, "{volumes:?}");
        facts.host.allowed = true;
        assert_eq!(errors(&facts), [], "{volumes:?}");
    }
}

#[test]
fn writable_mount_with_too_many_submodules_is_refused() {
    let mut facts = context(&["/w/.git"]);
    facts.host.git.as_mut().unwrap().excess = Some("/w/libs/z/.git".to_owned());
    for (volume, refused) in [("..:/app", true), ("..:/app:ro", false), ("../src:/app", false)] {
        let found = admission("shop", &[volume], &[], &facts).diagnostics;
        let refusal = found
            .iter()
            .find(|it| it.message.contains("can protect, such as `/w/libs/z/.git`"));
        assert_eq!(refusal.is_some(), refused, "{found:#?}");
    }
}

#[test]
fn writable_mount_in_a_git_directory_is_refused() {
    let mut facts = context(&["/w/.git", "/w/.bare"]);
    facts.host.git.as_mut().unwrap().link = Some("/w/p/.git".to_owned());
    let inside = "`SOURCE` is part of a git directory, and the mount is writable";
    let state = "`SOURCE` is part of a state directory, and the mount is writable";
    let link =
        "`SOURCE` contains the link `/w/p/.git`, which a container can replace, and the mount is writable";
    for (source, expected) in [
        ("../.git", inside),
        ("../.git/hooks", inside),
        ("../.bare/hooks", inside),
        ("../other/.git/x", inside),
        ("../other/.argus/environments", state),
        ("..", link),
        (".", link),
        ("./src", ""),
        ("../.github", ""),
    ] {
        let admit = |ending: &str, context: &SpecContext| {
            let admission = admission("shop", &[&format!("{source}:/x{ending}")], &[], context);
            let errors = admission.diagnostics.into_iter().filter(Diagnostic::is_error);
            errors.map(|error| error.message).collect::<Vec<_>>()
        };
        let expected = Some(expected.replace("SOURCE", source)).filter(|message| !message.is_empty());
        assert_eq!(
            admit("", &facts),
            expected.into_iter().collect::<Vec<_>>(),
            "{source}"
        );
        assert_eq!(admit(":ro", &facts), [""; 0], "{source}");
        let mut permitted = facts.clone();
        permitted.host.git = None;
        assert_eq!(admit("", &permitted), [""; 0], "{source}");
    }
}

#[test]
fn recordings_in_a_git_directory_are_refused() {
    let text = "project: { name: shop }\nmocks:\n  pay: { port: 80, mode: record, target: \"http://x\", recordingsDir: .git/x }\n";
    let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    let refused = admit(&spec, &context(&[])).diagnostics;
    assert!(
        refused
            .iter()
            .any(|it| it.path == "mocks.pay.recordingsDir" && it.message.contains("git directory")),
        "{refused:#?}"
    );
}

#[test]
fn covers_are_part_of_the_container_and_of_its_hash() {
    let identity = ControllerIdentity {
        controller: "c".to_owned(),
        run: "r".to_owned(),
        publish_address: [127, 0, 0, 1].into(),
    };
    let rendered = |git: &[&str]| {
        let desired = admitted(&["..:/app"], &[], &context(git));
        let all = render::render_all(&desired, &PortMap::new(), &identity);
        let (spec, hash) = all.into_values().next().unwrap();
        (spec.mounts, hash, desired.revision)
    };
    let (covered, plain) = (rendered(&["/w/.git"]), rendered(&[]));
    assert_eq!(
        covered,
        rendered(&["/w/.git"]),
        "a restart of the controller changes nothing"
    );
    assert_eq!((covered.0.len(), plain.0.len()), (2, 1));
    assert!(covered.1 != plain.1 && covered.2 != plain.2);
}

/// Conflicts of a file with an accepted one. `None` for the paths of git: a person allowed its project.
fn between(held: (&[&str], Option<&[&str]>), new: (&[&str], Option<&[&str]>)) -> Vec<Diagnostic> {
    let admit = |env: &str, volumes: &[&str], git: Option<&[&str]>| {
        let mut context = context(git.unwrap_or_default());
        context.host.allowed = git.is_none();
        admission(env, volumes, &[], &context)
    };
    let held_admission = admit("held", held.0, held.1);
    let held = Accepted {
        desired: held_admission.desired.unwrap(),
        spec_path: "held.e2e.yaml".to_owned(),
        lines: KeyLines::default(),
        accepted_at: Timestamp::default(),
        has_pending_edit: false,
        allowed: held.1.is_none(),
        is_ending: false,
        file_hash: None,
        mounted_files: std::collections::BTreeMap::new(),
    };
    let admission = admit("shop", new.0, new.1);
    let desired = admission.desired.unwrap();
    let candidate = Candidate::new(&desired, "new.e2e.yaml", &admission.mounts, new.1.is_none());
    nested_mounts::conflicts(&held, &candidate)
}

#[test]
fn container_without_covers_conflicts_with_one_that_has_them() {
    let git = Some(&["/w/.git", "/w/libs/a/.git"][..]);
    let covered = (&["data:/d", "..:/app"][..], git);
    for (volumes, has_conflict) in [
        (&["..:/app"][..], true),
        (&["..:/app", "v:/app/.git", "w:/app/libs"], false),
        (&["..:/app:ro"], false),
    ] {
        let allowed = (volumes, None);
        let above = between(covered, allowed);
        let below = between(allowed, covered);
        for (found, index) in [(above, 0), (below, 1)] {
            assert_eq!(!found.is_empty(), has_conflict, "{volumes:?}");
            for conflict in found {
                let hint = conflict.hint.unwrap();
                assert_eq!(conflict.path, format!("services[0].container.volumes[{index}]"));
                let fix = "SPEC_CONFLICT: add `:ro` to `/w:/app`";
                assert!(hint.starts_with(fix), "{hint}");
            }
        }
    }
}

#[test]
fn file_from_before_a_cover_never_refuses_its_successor() {
    let volumes = &["..:/app"][..];
    let [before, after] = [&["/w/.git"][..], &["/w/.git", "/w/libs/a/.git"]].map(Some);
    for (held, new) in [(before, after), (after, before), (Some(&[][..]), after)] {
        assert_eq!(between((volumes, held), (volumes, new)), []);
    }
}
