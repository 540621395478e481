//! Tests of the lines of keys.

use super::*;

#[test]
fn keys_have_lines_in_every_form_of_a_file() {
    for (text, key, line) in [
        (
            "project: { name: p }\nservices:\n  web:\n    image: a:1\n    container: { name: w }\n",
            "services.web.image",
            4,
        ),
        (
            "project: { name: p }\nservices:\n  - name: web\n    image: a:1\n    container: { name: w }\n",
            "services.web.image",
            4,
        ),
        (
            "project: { name: web }\nservice:\n  image: a:1\n  container: { name: web }\n",
            "service.image",
            3,
        ),
    ] {
        let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
        let lines = KeyLines::from_spec(&read.spec.unwrap(), &read.source);
        let edit = lines.edit_service("e2e.yaml", "web", "image", "it is missing");
        assert_eq!(
            (edit.key.as_str(), edit.line, edit.now.as_deref()),
            (key, Some(line), Some("a:1")),
            "{text}"
        );
    }
}

#[test]
fn missing_key_has_the_line_of_its_parent() {
    let text = "project: { name: p }\nservices:\n  web:\n    image: a\n    container:\n      name: w\n      environment:\n        TOKEN: hidden\n";
    let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
    let lines = KeyLines::from_spec(&read.spec.unwrap(), &read.source);
    let edit = |key| lines.edit_service("e2e.yaml", "web", key, "x");
    assert_eq!((edit("memory").line, edit("memory").now), (Some(3), None));
    assert_eq!(edit("container.environment.NEW").line, Some(7));
    let secret = edit("container.environment.TOKEN");
    assert_eq!((secret.line, secret.now), (Some(8), None));
}

#[test]
fn keys_with_the_line_of_their_parent_are_not_stored() {
    let text = "project: { name: p }\nservices:\n  web:\n    image: a\n    container:\n      name: w\n      environment:\n        TOKEN: hidden\n";
    let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
    let lines = KeyLines::from_spec(&read.spec.unwrap(), &read.source);
    let stored: Vec<&str> = lines.services["web"].keys.keys().map(String::as_str).collect();
    assert_eq!(
        stored,
        [
            "",
            "container",
            "container.environment",
            "container.environment.TOKEN",
            "container.name",
            "image"
        ]
    );
}

#[test]
fn keys_of_a_compose_file_have_its_names() {
    let text = "version: \"1\"\nproject: { name: p }\nservices:\n  - name: web\n    image: a\n    memory: 1g\n    \
                dependsOn: [{ service: db, condition: started }]\n    container: { name: w }\n  - name: db\n    image: b\n    \
                container: { name: d }\n";
    let locate = |path: &str| {
        let line = match path {
            "services.web" => 3,
            "services.web.memory" => 7,
            "services.web.dependsOn[0].condition" => 9,
            _ => return None,
        };
        Some(argus_crds::Location {
            line,
            column: 1,
            length: 1,
        })
    };
    let read = argus_crds::yaml::read_translated("compose.yaml", text, &locate);
    assert_eq!(read.diagnostics, []);
    let lines = KeyLines::from_spec(&read.spec.unwrap(), &read.source);
    for (key, written, line, now) in [
        ("memory", "services.web.mem_limit", 7, Some("1g")),
        (
            "dependsOn[0].condition",
            "services.web.depends_on[0].condition",
            9,
            Some("service_started"),
        ),
        ("container.environment.A", "services.web.environment.A", 3, None),
        ("init", "services.web.init", 3, None),
        ("noNewPrivileges", "services.web.security_opt", 3, None),
        ("", "services.web", 3, None),
        (
            "container.healthcheck.startPeriod",
            "services.web.healthcheck.start_period",
            3,
            None,
        ),
    ] {
        let edit = lines.edit_service("compose.yaml", "web", key, "x");
        assert_eq!(
            (edit.key.as_str(), edit.line, edit.now.as_deref()),
            (written, Some(line), now)
        );
    }
    let replica = lines.edit_service("compose.yaml", "web-2", "memory", "x");
    assert_eq!(
        (replica.key.as_str(), replica.line),
        ("services.web.mem_limit", Some(7))
    );
    assert_eq!(
        lines.write_value("dependsOn[0].condition", "healthy"),
        "service_healthy"
    );
    assert_eq!(
        lines.write_value("noNewPrivileges", "false"),
        "[\"no-new-privileges:false\"]"
    );
    let edit = lines.edit("compose.yaml", "isolation.portRange", "no port is free");
    assert!(edit.reason.contains("`argus init`"), "{edit:?}");
}
