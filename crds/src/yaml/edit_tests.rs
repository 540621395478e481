//! Tests of changes of a text.

use super::*;
use crate::SpecEdit;

const BLOCK: &str = "\
# The shop.
project: { name: shop }
services:
  web:
    image: shop/web:1 # pinned
    memory: \"64m\"
    command:
      - sh
      - -c
      - run --port 80
    container:
      name: web
      ports: [\"8080:80\", '9000:90']
      volumes:
      - ./app:/app:ro
      - data:/data
      environment: { DB: \"postgres://localhost:5432/shop\", a.b: x }
      healthcheck:
        type: http
        timeout: 1s # short
  db:
    image: postgres:17
    container: {}
volumes: {data: {}}
";

fn edit(key: &str, now: Option<&str>, value: &str) -> SpecEdit {
    let edit = SpecEdit::new("e2e.yaml", key, "it is needed").suggest(value);
    match now {
        Some(now) => edit.now(now),
        None => edit,
    }
}

fn edited(text: &str, key: &str, now: Option<&str>, value: &str) -> Option<String> {
    text_edit(text, &edit(key, now, value)).map(|change| change.apply(text))
}

/// The changed and added lines.
fn new_lines(old: &str, new: &str) -> Vec<String> {
    let old: Vec<&str> = old.lines().collect();
    let new = new.lines().filter(|line| !old.contains(line));
    new.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn only_the_lines_of_the_change_differ() {
    for (key, now, value, line) in [
        (
            "services.web.image",
            Some("shop/web:1"),
            "shop/web:2",
            "image: shop/web:2 # pinned",
        ),
        ("services.web.memory", Some("64m"), "128m", "memory: \"128m\""),
        (
            "services.web.container.healthcheck.timeout",
            Some("1s"),
            "5s",
            "timeout: 5s # short",
        ),
        (
            "services.web.container.healthcheck.startPeriod",
            None,
            "30s",
            "startPeriod: 30s",
        ),
        ("services.web.dependsOn", None, "[db]", "dependsOn: [db]"),
        (
            "services.db.container.healthcheck.port",
            None,
            "80",
            "container: { healthcheck: { port: 80 } }",
        ),
        (
            "services.web.container.ports[1]",
            Some("9000:90"),
            "9001:90",
            "ports: [\"8080:80\", '9001:90']",
        ),
        (
            "services.web.container.volumes",
            Some("./app:/app:ro"),
            "./app:/app",
            "- ./app:/app",
        ),
        (
            "services.web.command",
            Some("--port 80"),
            "--port 8080",
            "- run --port 8080",
        ),
        (
            "services.web.command",
            None,
            "[\"sh\", \"-c\", \"run\"]",
            "command: [\"sh\", \"-c\", \"run\"]",
        ),
        (
            "argus.policy.pidsLimit",
            None,
            "512",
            "argus: { policy: { pidsLimit: 512 } }",
        ),
        ("project.name", Some("shop"), "store", "project: { name: store }"),
    ] {
        let new = edited(BLOCK, key, now, value).unwrap_or_else(|| panic!("{key} is refused"));
        assert_eq!(new_lines(BLOCK, &new), [line], "{key}");
    }
}

#[test]
fn variables_change_inside_values_and_keep_dots_in_names() {
    let key = "services.web.container.environment.DB";
    let new = edited(BLOCK, key, Some("localhost"), "db").unwrap();
    assert!(new.contains("DB: \"postgres://db:5432/shop\", a.b: x"), "{new}");
    let new = edited(BLOCK, "services.web.container.environment.c.d", None, "y").unwrap();
    assert!(new.contains("a.b: x, c.d: y }"), "{new}");
    let new = edited(
        BLOCK,
        "services.web.container.environment.DB",
        Some("DB"),
        "DATABASE_URL",
    )
    .unwrap();
    assert!(new.contains("{ DATABASE_URL: \"postgres://localhost"), "{new}");
}

#[test]
fn written_change_is_not_written_again() {
    for (key, now, value) in [
        ("services.web.command", "--port 80", "--port 8080"),
        ("services.web.memory", "64", "640"),
        (
            "services.web.container.environment.DB",
            "localhost",
            "db.localhost",
        ),
        ("services.web.container.volumes", "./app:/app", "../app:/app"),
    ] {
        let new = edited(BLOCK, key, Some(now), value).unwrap_or_else(|| panic!("{key} is refused"));
        assert_eq!(edited(&new, key, Some(now), value), None, "{key}");
    }
}

#[test]
fn values_have_their_meaning() {
    let text = "s:\n  command: [\"npm start\"]\n  entrypoint: \"npm run a && npm start\"\n  image: a:1\n  environment:\n    X: \"1\"\n    Y: 2\n";
    let list = "[\"sh\", \"-c\", \"npm start\"]";
    for (key, now, value, line) in [
        (
            "s.command",
            Some("npm start"),
            list,
            "command: [\"sh\", \"-c\", \"npm start\"]",
        ),
        (
            "s.entrypoint",
            Some("npm run a && npm start"),
            list,
            "entrypoint: [\"sh\", \"-c\", \"npm start\"]",
        ),
        ("s.image", Some("a:1"), "a #1", "image: \"a #1\""),
        ("s.image", Some("a:1"), "[1", "image: \"[1\""),
        ("s.image", Some("a:1"), "a\nx: y", "image: \"a\\nx: y\""),
        ("s.environment.X", None, "{\"a\":1}", "X: \"{\\\"a\\\":1}\""),
        ("s.environment.Y", None, "[a]", "Y: \"[a]\""),
        ("s.environment.Y", Some("2"), "3", "Y: 3"),
        ("s.environment.Z", None, "hello #1", "Z: \"hello #1\""),
    ] {
        let new = edited(text, key, now, value).unwrap_or_else(|| panic!("{key} is refused"));
        assert_eq!(new_lines(text, &new), [line], "{key}");
    }
    let block = "s:\n  command:\n  - npm start\n";
    let new = edited(block, "s.command", Some("npm start"), list).unwrap();
    assert_eq!(new, format!("s:\n  command: {list}\n"));
}

#[test]
fn list_of_services_line_ends_and_marks_stay() {
    let list = "\u{feff}project: {name: p}\r\nservices:\r\n- name: web\r\n  image: a:1\r\n- name: db\r\n";
    let new = edited(list, "services.web.image", Some("a:1"), "a:2").unwrap();
    assert_eq!(new, list.replace("a:1", "a:2"));
    let new = edited(list, "services.web.memory", None, "64m").unwrap();
    assert_eq!(new, list.replace("a:1\r\n", "a:1\r\n  memory: 64m\r\n"));
    let new = edited(list, "services.db.image", None, "b:1").unwrap();
    assert_eq!(new, list.replace("name: db\r\n", "name: db\r\n  image: b:1\r\n"));
}

#[test]
fn what_the_change_does_not_describe_is_refused() {
    let shared = "a: &a { m: 1 }\nb: *a\nc:\n  <<: *a\nd: &d 5\ne: *d\nf: |\n  x\n  y\n";
    for (text, key, now, value) in [
        // The file has another value by now.
        (BLOCK, "services.web.memory", Some("32m"), "64m"),
        (BLOCK, "services.none.memory", Some("32m"), "64m"),
        // Two items have this word.
        (BLOCK, "services.web.container.volumes", Some("data"), "x"),
        (BLOCK, "services.web.container.ports[7]", None, "x"),
        // A value that the change does not know.
        (BLOCK, "services.web.image", None, "a:2"),
        // Other keys would change too.
        (shared, "b.m", None, "2"),
        (shared, "d", Some("5"), "6"),
        // The comment would be lost.
        ("a:\n- b # why\n- c\n", "a", None, "[d]"),
        ("a: [", "a", None, "1"),
        ("", "a", None, "1"),
    ] {
        assert_eq!(edited(text, key, now, value), None, "{key}: {value}");
    }
    assert_eq!(
        text_edit(
            BLOCK,
            &SpecEdit::new("e2e.yaml", "services.web.image", "a reason")
        ),
        None
    );
    let own = edited(shared, "c.n", None, "2").unwrap();
    assert!(own.contains("  <<: *a\n  n: 2\n"), "{own}");
}

/// Each scalar of each example can change, and with it only its own line.
#[test]
fn scalars_of_all_examples_change_alone() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    let mut changes = 0;
    let mut folders = vec![std::path::PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
                changes += change_scalars(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    assert!(changes > 50, "{changes} changes");
}

fn change_scalars(text: &str) -> usize {
    let Ok(read) = document("", text.as_bytes()) else {
        return 0;
    };
    let mut changes = 0;
    for scalar in read.source.scalars() {
        let is_single = text.matches(scalar.text).count() == 1 && !scalar.text.contains('\n');
        if !is_single || scalar.text.is_empty() || read.source.scalar(&scalar.path) != Some(scalar.text) {
            continue;
        }
        let new = edited(text, &scalar.path, Some(scalar.text), "zzz");
        let new = new.unwrap_or_else(|| panic!("{} is refused in\n{text}", scalar.path));
        let differing = text
            .lines()
            .zip(new.lines())
            .filter(|(old, new)| old != new)
            .count();
        assert_eq!(
            (differing, new.lines().count()),
            (1, text.lines().count()),
            "{}",
            scalar.path
        );
        changes += 1;
    }
    changes
}
