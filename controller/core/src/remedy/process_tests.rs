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
