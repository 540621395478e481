//! Mounted configurations that a program cannot read.

use crate::remedy::test_environment::TestEnvironment;

/// File of the edit for these lines of a service with one mount, and the number of its line.
fn place(image: &str, volume: &str, lines: &[&str]) -> Option<(String, Option<usize>)> {
    let text =
        format!("  web: {{ image: \"{image}\", container: {{ name: web, volumes: [\"{volume}\"] }} }}\n");
    let mut environment = TestEnvironment::new(&text);
    environment.evidence().stderr = lines.iter().map(ToString::to_string).collect();
    environment.edit().map(|edit| (edit.file, edit.line))
}

#[test]
fn configuration_of_an_image_is_below_a_folder() {
    let line = "Unable to parse config: yaml: line 5: did not find expected key";
    let folder = "./promtail:/etc/promtail";
    assert_eq!(
        place("grafana/promtail:3.0.0", folder, &[line]),
        Some(("promtail/config.yml".to_owned(), Some(5)))
    );
    // Another image has other files.
    assert_eq!(place("shop/web:1", folder, &[line]), None);
    assert_eq!(
        place("grafana/promtail:3.0.0", "./data:/var/lib/promtail", &[line]),
        None
    );
}

#[test]
fn configuration_at_a_path_is_the_mounted_file() {
    let line = "error loading config from /etc/app/app.toml: bad table";
    assert_eq!(
        place("shop/web:1", "./app.toml:/etc/app/app.toml", &[line]),
        Some(("app.toml".to_owned(), None))
    );
    assert_eq!(place("shop/web:1", "./app.toml:/srv/app.toml", &[line]), None);
}

#[test]
fn number_of_the_line_is_in_the_next_line() {
    let mount = "./tempo.yaml:/etc/tempo.yaml";
    let line = "failed parsing config: failed to parse configFile /etc/tempo.yaml: yaml: unmarshal errors:";
    let next = "  line 18: field ingester not found in type app.Config";
    assert_eq!(
        place("grafana/tempo:2.4.1", mount, &[line, next]),
        Some(("tempo.yaml".to_owned(), Some(18)))
    );
    assert_eq!(
        place("grafana/tempo:2.4.1", mount, &[line, "closing"]),
        Some(("tempo.yaml".to_owned(), None))
    );
}

#[test]
fn secret_is_longer_than_its_message_requires() {
    let web = |secret: &str| {
        let text = format!(
            "  web: {{ image: \"shop/web:1\", container: {{ name: web, environment: {{ APP_SECRET: {secret} }} }} }}\n"
        );
        TestEnvironment::new(&text)
            .wrote("APP_SECRET must be longer than or equal to 32 characters")
            .text()
    };
    assert!(
        web("short").contains("environment.APP_SECRET"),
        "{}",
        web("short")
    );
    assert!(
        !web("0123456789abcdef0123456789abcdef").contains("shorter"),
        "{}",
        web("0123456789abcdef0123456789abcdef")
    );
}
