//! Kinds of causes: inputs of each rule with their first edit, and similar inputs without one.

use serde::Deserialize;

use super::*;
use crate::outcome::HostFile;
use crate::remedy::test_environment::TestEnvironment;

/// A failed run of `web`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Rule of the edit, and of the similar inputs without one.
    kind: String,
    code: i64,
    /// Lines of the siblings in the file.
    #[serde(default)]
    others: String,
    #[serde(default = "image")]
    image: String,
    /// Keys of the service.
    #[serde(default)]
    keys: String,
    /// Keys of its container.
    #[serde(default)]
    container: String,
    /// Lines on stderr.
    #[serde(default)]
    lines: Vec<String>,
    /// Result of the health check.
    probe: Option<String>,
    #[serde(default)]
    listening: Vec<String>,
    /// Key or file of the edit; `None` if the files are not known to be the cause.
    place: Option<String>,
    #[serde(default)]
    text: String,
}

fn image() -> String {
    "web:1".to_owned()
}

impl Input {
    fn test(&self) -> TestEnvironment {
        let comma = if self.keys.is_empty() { "" } else { "," };
        let services = format!(
            "{}\n  web: {{ image: \"{}\", {}{comma} container: {{ name: shop-web, {} }} }}\n",
            self.others, self.image, self.keys, self.container
        );
        let mut test = TestEnvironment::new(&services);
        test.run.exit_code = self.code;
        if let Some(output) = &self.probe {
            let listening: Vec<&str> = self.listening.iter().map(String::as_str).collect();
            test = test.unhealthy(output, &listening);
        }
        test.evidence().stderr.clone_from(&self.lines);
        test
    }

    /// Difference between the first edit and the expected one.
    fn difference(&self) -> Option<String> {
        let edit = self.test().edit();
        let is_expected = match (&edit, &self.place) {
            (None, None) => true,
            (Some(edit), Some(place)) => {
                let found = if edit.key.is_empty() {
                    edit.file.as_str()
                } else {
                    edit.key.trim_start_matches("services.")
                };
                found == place.as_str() && edit.to_string().contains(&self.text)
            }
            (None, Some(_)) | (Some(_), None) => false,
        };
        let text = edit.map(|edit| format!("{}: {edit}", edit.key));
        (!is_expected).then(|| format!("{}: {:?}: {text:?}", self.kind, self.lines))
    }
}

fn inputs() -> Vec<Input> {
    serde_json::from_str(include_str!("kinds.json")).unwrap()
}

#[test]
fn kinds_have_their_edit_and_similar_inputs_have_none() {
    let found: Vec<String> = inputs().iter().filter_map(Input::difference).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn kinds_are_names_of_rules() {
    for input in inputs() {
        assert!(RULES.iter().any(|rule| rule.name == input.kind), "{}", input.kind);
    }
}

/// The mode of a mounted folder explains a denied write, although no line names the folder.
#[test]
fn closed_folder_of_a_mount_is_named() {
    let services = "  web: { image: web:1, container: { name: web, volumes: [\"./data:/data\"] } }\n";
    for (mode, expected) in [(0o040_755, Some("data")), (0o040_777, None)] {
        let mut test = TestEnvironment::new(services).wrote("open /data/queries: permission denied");
        let folder = HostFile {
            mode: Some(mode),
            ..HostFile::default()
        };
        let facts = [("/data/queries", HostFile::default()), ("/data", folder)];
        test.evidence().host_files = facts.map(|(path, facts)| (path.to_owned(), facts)).into();
        assert_eq!(test.edit().map(|edit| edit.file).as_deref(), expected);
    }
}

/// A folder of a variable moves to the volume, but no file, no home and no folder of a volume in use.
#[test]
fn only_a_folder_outside_of_the_volume_moves() {
    let denied = "Error: EACCES: permission denied, mkdir '/var/lib/app'";
    for (variables, expected) in [
        ("DATA_DIR: /var/lib/app", "`/var/lib/app` to `/app/data`"),
        ("HOME: /var/lib/app", "none"),
        ("DATA_FILE: /var/lib/app.db", "none"),
        ("DATA_DIR: /var/lib/app, CACHE: /app/data/cache", "none"),
    ] {
        let services = format!(
            "  web: {{ image: web:1, container: {{ name: web, environment: {{ {variables} }}, volumes: [\"data:/app/data\"] }} }}\n"
        );
        let text = TestEnvironment::new(&services).wrote(denied).text();
        assert!(text.contains(expected), "{variables}: {text}");
    }
}

/// A listener that is only advertised gets the port of its address in the container, if that is free.
#[test]
fn advertised_listener_is_defined() {
    let line = "requirement failed: advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found PLAINTEXT,HOST.";
    for (address, expected) in [
        (
            "HOST://localhost:9094",
            "KAFKA_CFG_LISTENERS: change `KAFKA_CFG_LISTENERS` from `PLAINTEXT://:9092` to `PLAINTEXT://:9092,HOST://:9094`",
        ),
        ("HOST://localhost:29094", "PLAINTEXT://:9092,HOST://:9095`"),
        ("HOST://localhost:9092", "KAFKA_CFG_ADVERTISED_LISTENERS"),
    ] {
        let services = format!(
            "  web:\n    image: bitnami/kafka:3.4\n    container:\n      name: web\n      ports: [\"29094:9095\"]\n      environment:\n        \
             KAFKA_CFG_LISTENERS: PLAINTEXT://:9092\n        KAFKA_CFG_ADVERTISED_LISTENERS: \"PLAINTEXT://web:9092,{address}\"\n"
        );
        let text = TestEnvironment::new(&services).wrote(line).text();
        assert!(text.contains(expected), "{address}: {text}");
    }
}

/// A replica set with users gets a key file where the words of the command are known, and else loses its user.
#[test]
fn key_file_wraps_only_plain_commands() {
    let line = "BadValue: security.keyFile is required when authorization is enabled with replica sets";
    for (more, expected) in [
        (
            "command: [mongod, --replSet, rs0]",
            "exec docker-entrypoint.sh mongod --replSet rs0 --keyFile /etc/mongo.key",
        ),
        (
            "command: [bash, -c, mongod --replSet rs0]",
            "MONGO_INITDB_ROOT_USERNAME",
        ),
        (
            "user: mongodb, command: [mongod, --replSet, rs0]",
            "MONGO_INITDB_ROOT_USERNAME",
        ),
    ] {
        let services = format!(
            "  web: {{ image: \"mongo:5.0\", {more}, container: {{ name: web, environment: {{ MONGO_INITDB_ROOT_USERNAME: root }} }} }}\n"
        );
        let text = TestEnvironment::new(&services).wrote(line).text();
        assert!(text.contains(expected), "{more}: {text}");
    }
}

/// The only word of a command is unknown to the program of the image if the message quotes both.
#[test]
fn only_word_of_a_command_can_be_removed() {
    let services = "  web: { image: airflow:3, command: [worker], container: { name: web } }\n";
    for (line, expected) in [
        (
            "Command `airflow worker` has been removed. Please use `airflow celery`, see help above.",
            "command: change `command` from `worker` to `celery`",
        ),
        ("worker: ERR unknown command 'JSON.SET'", "none"),
    ] {
        let text = TestEnvironment::new(services).wrote(line).text();
        assert!(text.contains(expected), "{line}: {text}");
    }
}
