//! Spec files of commands, with settings of the shell.

use super::*;
use crate::api::validate::report::create_report;
use crate::settings::{Options, SpecOptions};

#[test]
fn shell_counts_in_a_compose_file_only_after_an_allow() {
    // Cargo sets this variable for each test.
    let (name, value) = ("CARGO_PKG_NAME", std::env::var("CARGO_PKG_NAME").unwrap());
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    let options = Options {
        state: Some(dir.path().join("state")),
        ..Options::default()
    };
    let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
    let allowed = Settings {
        allowed: Some(real.clone()),
        ..settings.clone()
    };
    let never = CancellationToken::new();
    let translate = |settings: &Settings, service: &str| {
        let text = format!("services: {{ a: {{ {service} }} }}\n");
        let found = parse_text(settings, &real.join("compose.yaml"), text.as_bytes(), &never);
        let errors = found.diagnostics.into_iter().filter(Diagnostic::is_error);
        let errors: Vec<String> = errors.map(|error| error.message).collect();
        match found.desired {
            Some(desired) => Ok(format!("{:?}", desired.services["a"])),
            None => Err(errors.join("; ")),
        }
    };
    std::fs::create_dir_all(real.join(&value)).unwrap();
    for (service, expected) in [
        (
            format!("image: x, environment: {{ A: '${{{name}}}' }}"),
            format!("{{\"A\": \"{value}\"}}"),
        ),
        (
            format!("image: x, environment: [ {name} ]"),
            format!("{{\"{name}\": \"{value}\"}}"),
        ),
        (format!("image: 'x:${{{name}:-d}}'"), format!("x:{value}")),
        (
            format!("image: x, volumes: [ './${{{name}}}:/x' ]"),
            format!("{}/{value}\"", real.display()),
        ),
        (
            format!("image: x, volumes: [ {{ type: bind, source: '${{PWD}}/${name}', target: /x }} ]"),
            format!("{}/{value}\"", real.display()),
        ),
    ] {
        let found = translate(&allowed, &service).unwrap();
        assert!(found.contains(&expected), "{service}: {found}");
        match translate(&settings, &service) {
            Ok(found) => assert!(!found.contains(&expected), "{service}: {found}"),
            Err(error) => assert!(error.contains(name), "{service}: {error}"),
        }
    }
    for service in [
        format!("image: x, volumes: [ '${{{name}}}/x:/x' ]"),
        format!("build: '${{{name}}}'"),
        format!("build: {{ context: ., dockerfile: '${{{name}}}' }}"),
    ] {
        let error = translate(&settings, &service).unwrap_err();
        assert!(
            error.contains(&format!("a path needs the variable `{name}`")),
            "{error}"
        );
    }
    let given = std::fs::read_dir(&real).unwrap().count();
    assert_eq!(given, 1, "no folder has the name of a variable");
}

#[test]
fn resolved_file_has_values_and_no_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        state: Some(dir.path().join("state")),
        ..Options::default()
    };
    let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
    let dotenv =
        "TAG=1.25\nDB_PASSWORD=hunter2hunter2\nDATABASE_URL=postgres://u:${DB_PASSWORD}@db/x\nHOST=\n";
    std::fs::write(dir.path().join(".env"), dotenv).unwrap();
    let text = "x-base: &base { image: \"web:${TAG}\" }\nservices:\n  web: { <<: *base, environment: { API_TOKEN: s3cr3ts3cr3t, \
                WORD: \"the ${DB_PASSWORD}\", AT: \"${HOST}/${UNSET}\", URL: \"${DATABASE_URL}\", PIN_PASSWORD: 87654321 } }\n  debug: { image: x, profiles: [debug] }\n";
    let path = dir.path().join("compose.yaml");
    let file = parse_text(&settings, &path, text.as_bytes(), &CancellationToken::new());
    let resolved = format_resolved(&settings, &file).unwrap();
    for part in [
        "image: web:1.25",
        "API_TOKEN: \"[redacted]\"",
        "{{env.DB_PASSWORD}}",
        "{{env.HOST}}/{{env.UNSET}}",
    ] {
        assert!(resolved.contains(part), "{part}: {resolved}");
    }
    for part in ["hunter2", "s3cr3t", "87654321", "debug"] {
        assert!(!resolved.contains(part), "{part}: {resolved}");
    }
}

#[test]
fn name_with_a_line_break_is_shown_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        state: Some(dir.path().join("state")),
        ..Options::default()
    };
    let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
    let path = dir.path().join("a\nshop.e2e.yaml: ok");
    std::fs::write(&path, "project: { name: shop }\n").unwrap();
    let file = read_file(&settings, &path, &CancellationToken::new());
    assert_eq!(file.diagnostics[0].message, BAD_NAME);
    let report = create_report(vec![file], Vec::new());
    assert!(!report.accepted);
    assert!(report.files[0].spec_path.ends_with("/a\\u{a}shop.e2e.yaml: ok"));
}

#[test]
fn edit_of_an_included_compose_file_is_an_edit() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        state: Some(dir.path().join("state")),
        ..Options::default()
    };
    let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let read = || {
        let (file, never) = (dir.path().join("compose.yaml"), CancellationToken::new());
        let registry = read_folder(&settings, &file, "C", PersistedSpecs::default(), &never);
        let accepted = registry.environments.values().next().unwrap();
        (accepted.desired.revision.clone(), accepted.file_hash.clone())
    };
    let text = "name: shop\ninclude: [b.yaml]\nservices: { a: { image: x, env_file: a.env } }\n";
    write("compose.yaml", text);
    write("b.yaml", "services: { b: { image: y } }\n");
    write("a.env", "A=1\n");
    let before = read();
    assert!(before.1.is_some());
    write("a.env", "A=2\n");
    let changed = read();
    assert_ne!(changed.0, before.0);
    assert_eq!(changed.1, before.1);
    write("b.yaml", "services: { b: { image: y } } # edited\n");
    let edited = read();
    assert_eq!(edited.0, changed.0);
    assert_ne!(edited.1, before.1);
    write("compose.yaml", &format!("{text}# edited\n"));
    assert_ne!(read().1, edited.1);
}

fn resolve_settings(state: &Path) -> Settings {
    let options = Options {
        state: Some(state.to_owned()),
        ..Options::default()
    };
    Settings::resolve(&options, &SpecOptions::default()).unwrap()
}

#[test]
fn suite_of_a_client_is_below_its_spec_file() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for folder in [".git", "env"] {
        std::fs::create_dir(root.join(folder)).unwrap();
    }
    std::fs::write(root.join("outer.yaml"), "a").unwrap();
    std::fs::write(root.join("env/inner.yaml"), "b").unwrap();
    let settings = resolve_settings(&root.join("state"));
    let read = |file: &str, own_folder_only: bool| {
        let found = read_suite_file(&settings, &root.join("env/e2e.yaml"), file, own_folder_only);
        found.map_err(|error| error.to_string())
    };
    for own_folder_only in [false, true] {
        assert_eq!(read("inner.yaml", own_folder_only), Ok(Some(b"b".to_vec())));
    }
    assert_eq!(read("../outer.yaml", false), Ok(Some(b"a".to_vec())));
    let refused = |scope: &str| Err(format!("it is outside the {scope} of the spec file"));
    assert_eq!(read("../outer.yaml", true), refused("folder"));
    assert_eq!(read("/etc/passwd", true), refused("folder"));
    assert_eq!(read("/etc/passwd", false), refused("project"));
}

#[test]
fn file_above_the_ceiling_of_the_settings_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let settings = resolve_settings(&dir.path().join("state"));
    let low = Settings {
        ceiling: argus_core::desired::ceiling::Ceiling {
            max_pids: Some(100),
            ..settings.ceiling
        },
        ..settings.clone()
    };
    let text = "project: { name: shop }\nservice: { image: x, container: { name: web } }\nargus: { policy: { pidsLimit: 101 } }\n";
    let accepts = |settings: &Settings| {
        let file = dir.path().join("e2e.yaml");
        let read = parse_text(settings, &file, text.as_bytes(), &CancellationToken::new());
        read.desired.is_some()
    };
    assert!(accepts(&settings) && !accepts(&low));
}
