//! Packages and modules that a program does not find.

use crate::remedy::test_environment::TestEnvironment;

fn web(image: &str, command: &str, line: &str) -> TestEnvironment {
    let text = format!(
        "  web: {{ image: \"{image}\", command: {command}, workingDir: /app, container: {{ name: web, volumes: [\"./app:/app\"], \
         environment: {{ A: b }} }} }}\n"
    );
    TestEnvironment::new(&text).wrote(line)
}

#[test]
fn image_of_a_runtime_installs_the_packages_first() {
    let node = "Error: Cannot find module 'express'";
    let python = "ModuleNotFoundError: No module named 'flask'";
    for (image, command, line, meant) in [
        (
            "node:20",
            "[node, server.js]",
            node,
            "npm install && node server.js",
        ),
        ("node:20-alpine", "[yarn, dev]", node, "yarn install && yarn dev"),
        (
            "python:3.12-slim",
            "[python, main.py]",
            python,
            "pip install -r requirements.txt && python main.py",
        ),
        (
            "ruby:3.3",
            "[rails, server]",
            "Could not find gem 'puma' in locally installed gems. (Bundler::GemNotFound)",
            "bundle install && rails server",
        ),
    ] {
        web(image, command, line).assert_edit("web.command", meant);
    }
}

#[test]
fn mounted_script_needs_only_its_package() {
    let run = |image: &str, file: &str, line: &str| {
        let text = format!(
            "  web: {{ image: \"{image}\", command: [run, {file}], container: {{ name: web, volumes: [\"./{file}:/{file}\"] }} }}\n"
        );
        TestEnvironment::new(&text).wrote(line)
    };
    let python = "ModuleNotFoundError: No module named 'redis'";
    run("python:3.12", "job.py", python).assert_edit("web.command", "pip install redis && run job.py");
    let node = "Error: Cannot find module 'pg'";
    run("node:20", "job.js", node).assert_edit("web.command", "npm install pg && run job.js");
    assert_eq!(run("node:20", "job.yml", node).text(), "none");
}

#[test]
fn script_of_a_package_needs_the_packages() {
    let line = "sh: vite: not found";
    web("node:20", "[npm, run, dev]", line).assert_edit("web.command", "npm install && npm run dev");
    assert_eq!(web("node:20", "[start.sh]", line).text(), "none");
}

#[test]
fn own_image_has_its_packages() {
    let python = "ModuleNotFoundError: No module named 'flask'";
    assert_eq!(web("shop/web:1", "[python, main.py]", python).text(), "none");
    // They are hidden, or installed already.
    web(
        "shop/web:1",
        "[node, server.js]",
        "Error: Cannot find module 'express'",
    )
    .assert_edit("web.container.volumes", "web-modules:/app/node_modules");
    let installed = "[sh, -c, \"npm install && node server.js\"]";
    let line = "Error: Cannot find module 'express'";
    assert_eq!(web("node:20", installed, line).text(), "none");
}

#[test]
fn module_of_the_project_is_in_the_python_path() {
    let line = "ModuleNotFoundError: No module named 'app'";
    web("shop/web:1", "[alembic, upgrade, head]", line)
        .assert_edit("web.container.environment.PYTHONPATH", "/app");
    let other = "ModuleNotFoundError: No module named 'psutil'";
    assert_eq!(
        web("shop/web:1", "[alembic, upgrade, head]", other).text(),
        "none"
    );
}
