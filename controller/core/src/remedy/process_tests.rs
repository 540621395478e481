//! Settings of the process, from the messages of programs.

use crate::remedy::test_environment::TestEnvironment;

fn web(keys: &str, container: &str, line: &str) -> TestEnvironment {
    let text =
        format!("  web: {{ image: \"shop/web:1\", {keys} container: {{ name: web, {container} }} }}\n");
    TestEnvironment::new(&text).wrote(line)
}

#[test]
fn missing_project_file_is_below_the_mounted_folder() {
    let volumes = "volumes: [\"./api:/srv/api\"]";
    let line = "npm error enoent Could not read package.json: Error: ENOENT: no such file or directory, open '/package.json'";
    web("command: [npm, start],", volumes, line).assert_edit("web.workingDir", "/srv/api");
    let line = "python: can't open file '/manage.py': [Errno 2] No such file or directory";
    web("command: [python, manage.py],", volumes, line).assert_edit("web.workingDir", "/srv/api");
    // An absolute path does not depend on the folder.
    let line = "Error: Cannot find module '/app/server.js': no such file";
    let text = web("command: [node, /app/server.js],", volumes, line).text();
    assert!(!text.contains("workingDir"), "{text}");
}

#[test]
fn missing_module_is_below_the_mounted_folder() {
    let volumes = "volumes: [\"./api:/srv/api\"]";
    let line = "Unable to load celery application. Error: The module shop was not found.";
    web("command: [celery, -A, shop, worker],", volumes, line).assert_edit("web.workingDir", "/srv/api");
    let text = web("command: [celery, -A, other, worker],", volumes, line).text();
    assert!(!text.contains("workingDir"), "{text}");
}

#[test]
fn denied_operation_is_a_removed_capability() {
    let line = "chown: changing ownership of '/data': Operation not permitted";
    web("capDrop: [ALL],", "", line).assert_edit("web.capDrop", "[]");
}

#[test]
fn missing_table_needs_the_job_that_creates_it() {
    let job = "  migrate: { image: \"shop/migrate:1\", oneShot: true, container: { name: migrate } }\n";
    let text = format!("{job}  web: {{ image: \"shop/web:1\", container: {{ name: web }} }}\n");
    TestEnvironment::new(&text)
        .wrote("ERROR: relation \"orders\" does not exist")
        .assert_edit("web.dependsOn", "[migrate]");
}

#[test]
fn image_without_a_command_that_continues_has_one() {
    let ended = |image: &str, keys: &str| {
        let text = format!("  web: {{ image: \"{image}\", {keys} container: {{ name: web }} }}\n");
        let mut environment = TestEnvironment::new(&text).wrote("NAME: web");
        environment.run.exit_code = 0;
        environment
    };
    ended("minio/minio:latest", "").assert_edit("web.command", "[\"server\", \"/data\"]");
    ended("node:20-alpine", "").assert_edit("web.command", "[\"sleep\", \"infinity\"]");
    assert_eq!(ended("node:20", "command: [node, job.js],").text(), "none");
    assert_eq!(ended("shop/web:1", "").text(), "none");
}

#[test]
fn renamed_program_of_a_command_has_its_present_name() {
    let run = |image: &str| {
        let text = format!(
            "  web: {{ image: \"{image}\", command: [kafka-topics.sh, --list], container: {{ name: web }} }}\n"
        );
        let mut environment = TestEnvironment::new(&text).wrote("bash: kafka-topics.sh: command not found");
        environment.run.exit_code = 127;
        environment.text()
    };
    let text = run("confluentinc/cp-kafka:7.6.0");
    assert!(
        text.contains("from `kafka-topics.sh` to `kafka-topics`"),
        "{text}"
    );
    let text = run("shop/web:1");
    assert!(!text.contains("to `kafka-topics`"), "{text}");
}

#[test]
fn shell_in_a_folder_is_the_usual_one() {
    let mut environment = web(
        "command: [/bin/bash, -c, run],",
        "",
        "exec: line 61: /bin/bash: not found",
    );
    environment.run.exit_code = 127;
    environment.assert_edit("web.command", "from `/bin/bash` to `/bin/sh`");
}

#[test]
fn option_and_its_value_are_two_elements() {
    let line = "Error: unknown flag: --config /etc/app.yml";
    web("command: [serve, \"--config /etc/app.yml\"],", "", line)
        .assert_edit("web.command", "[\"serve\", \"--config\", \"/etc/app.yml\"]");
    let text = web("command: [sh, -c, \"serve --config /etc/app.yml\"],", "", line).text();
    assert!(!text.contains("one argument"), "{text}");
}

#[test]
fn job_that_completes_is_awaited_as_completed() {
    let services = "  web: { image: \"shop/job:1\", command: [migrate], container: { name: web } }
  api:
    image: \"shop/api:1\"
    dependsOn: [{ service: web, condition: healthy }]
    container: { name: api }\n";
    let run = |mut environment: TestEnvironment, code: i64| {
        environment.run.exit_code = code;
        environment
    };
    let compose = run(TestEnvironment::compose(services).wrote("applied 1.sql"), 0);
    let edit = compose.edit().unwrap();
    assert_eq!(
        edit.suggest.as_deref(),
        Some("service_completed_successfully"),
        "{edit}"
    );
    assert!(edit.key.starts_with("services.api.depends_on"), "{edit:?}");
    run(TestEnvironment::new(services), 0).assert_edit("web.oneShot", "set `oneShot: true`");
    assert_eq!(run(TestEnvironment::new(services), 1).text(), "none");
    let started = services.replace("healthy", "started");
    assert_eq!(run(TestEnvironment::new(&started), 0).text(), "none");
}

#[test]
fn folder_of_a_built_image_belongs_to_its_user() {
    let built = |more: &str, line: &str| {
        let text = format!("  web: {{ build: {{ context: ./api }}, {more} container: {{ name: web }} }}\n");
        TestEnvironment::new(&text).wrote(line)
    };
    let line = "mkdir: can't create directory '/data/': Permission denied";
    let edit = built("", line).edit().unwrap();
    assert!(
        edit.file.ends_with("api/Dockerfile") && edit.key.is_empty(),
        "{edit:?}"
    );
    assert!(
        edit.to_string()
            .contains("create `/data` for this user before `USER`"),
        "{edit}"
    );
    let read = built("", "open /data/x: Permission denied");
    assert_eq!(read.text(), "none");
    let named = web("", "", line).text();
    assert!(!named.contains("USER"), "{named}");
}
