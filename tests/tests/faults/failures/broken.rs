//! Broken environments: the first remedy names the fix, and a program that only applies first remedies repairs them.

mod agent;
mod doubles;
mod engine_faults;
mod files;
mod host_files;
mod names;
mod probes;
mod programs;
mod specs;

use std::collections::BTreeSet;
use std::fs;

use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, RunOptions, wait};
use serde_json::Value;

/// Actions that touch objects of others, end the hold of another person, or repeat an operation without a change.
const NEVER_FIRST: [&str; 8] = [
    "free_networks",
    "free_port",
    "resolve_name_conflict",
    "resume",
    "retry",
    "pull_image",
    "stop_other_controller",
    "resume_controller",
];

/// A broken environment with its expected first remedy. Its file is `NAME.e2e.yaml`.
pub(super) struct Broken {
    name: &'static str,
    /// The file after the name of the project.
    text: String,
    code: &'static str,
    action: &'static str,
    /// File of the edit; empty for the spec file.
    file: &'static str,
    /// Key of the edit; empty for the whole file, and for an action without an edit.
    key: &'static str,
    suggest: Suggest,
}

pub(super) enum Suggest {
    Nothing,
    Exactly(&'static str),
    /// A value that depends on a measurement.
    Any,
}

impl Broken {
    /// An environment whose first remedy is a change of its file.
    fn edit(
        name: &'static str,
        text: String,
        code: &'static str,
        key: &'static str,
        suggest: Suggest,
    ) -> Self {
        Self {
            name,
            text,
            code,
            action: "fix_spec",
            file: "",
            key,
            suggest,
        }
    }

    /// An environment whose first remedy is another action.
    fn action(name: &'static str, text: String, code: &'static str, action: &'static str) -> Self {
        let edit = Self::edit(name, text, code, "", Suggest::Nothing);
        Self { action, ..edit }
    }

    fn spec(&self) -> String {
        format!(
            "version: \"1\"\nproject: {{ name: {} }}\n{}",
            self.name, self.text
        )
    }

    fn spec_file(&self) -> String {
        format!("{}.e2e.yaml", self.name)
    }

    /// Writes the file. The server of the environment listens once the file has the patience to wait for it.
    fn write(&self, argus: &Controller<'_>, text: &str) {
        let is_patient = if text.contains("condition:") {
            text.contains("condition: healthy")
        } else {
            text != self.spec()
        };
        let gate = argus.specs.join("gate");
        fs::create_dir_all(&gate).expect("a directory");
        if is_patient {
            fs::write(gate.join(self.name), "").expect("a file");
        }
        argus.write_spec(&self.spec_file(), text);
    }

    fn described(&self, argus: &Controller<'_>) -> Value {
        // A file that was never accepted has no status file.
        let output = argus.cli(&["describe", self.name, "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    fn is_first(&self, remedy: &Value) -> bool {
        let suggest = remedy["suggest"].as_str();
        let is_suggested = match self.suggest {
            Suggest::Nothing => suggest.is_none(),
            Suggest::Exactly(value) => suggest == Some(value),
            Suggest::Any => suggest.is_some(),
        };
        let key = remedy["key"].as_str().unwrap_or_default();
        remedy["action"] == self.action && key == self.key && is_suggested
    }

    /// Asserts that the error, `argus why` and `argus_why` give the expected remedy first.
    fn assert_first_remedy(&self, argus: &Controller<'_>) {
        let mut last = String::new();
        // During a retry there is no error.
        let found = wait::poll(LIMIT, || {
            self.check_surfaces(argus).map_err(|why| last = why).ok()
        });
        found.unwrap_or_else(|| panic!("`{}` suggests {} {}: {last}", self.name, self.action, self.key));
    }

    /// Compares the first remedies of all surfaces. Returns the difference.
    fn check_surfaces(&self, argus: &Controller<'_>) -> Result<(), String> {
        let check = |is_met: bool, what: String| if is_met { Ok(()) } else { Err(what) };
        let status = self.described(argus);
        let error = &status["errors"][0];
        let remedy = first_remedy(&status);
        check(self.is_first(&remedy), format!("{:#}", status["errors"]))?;
        // Its restarts may be spent already.
        let codes = [self.code, "CONTAINER_RESTART_EXHAUSTED"];
        check(
            codes.contains(&text(&error["code"]).as_str()),
            format!("{error:#}"),
        )?;
        check(error["suggestedActions"][0] == self.action, format!("{error:#}"))?;
        assert_never_first(error);
        let expected = if self.action == "fix_spec" {
            let file = match self.file {
                "" => self.spec_file(),
                // A build has an absolute path.
                file if file.ends_with("Dockerfile") => argus.specs.join(file).display().to_string(),
                file => file.to_owned(),
            };
            let is_placed = remedy["file"] == file && remedy["line"].is_u64();
            check(is_placed, format!("{remedy:#}"))?;
            format!("{file}:{}", remedy["line"])
        } else {
            text(&remedy["summary"])
        };
        let why = argus.cli(&["why", self.name]);
        let why = String::from_utf8_lossy(&why.stdout).into_owned();
        // The crash report comes before remedies that change no file.
        let is_hint = |line: &&str| line.trim_start().starts_with("hint:") && !line.contains("crash report");
        let hint = why.lines().find(is_hint).unwrap_or_default();
        check(hint.contains(&expected), format!("{expected}: {why}"))?;
        let answer = agent::why(argus, self.name)["structuredContent"].clone();
        let steps = answer["nextSteps"].as_array().cloned().unwrap_or_default();
        let mut remedies = steps.iter().filter(|step| step["why"] != "evidence of this run");
        let work = |step: &Value| text(step.get("first").unwrap_or(&step["why"]));
        let first = remedies.next().map(work).unwrap_or_default();
        check(first.contains(&expected), format!("{answer:#}"))?;
        let call = |step: &Value| format!("{} {}", step["tool"], step["arguments"]);
        let calls: BTreeSet<String> = steps.iter().map(call).collect();
        check(
            calls.len() == steps.len(),
            format!("a call is a next step twice: {answer:#}"),
        )
    }

    /// True if the first remedy has a value to write, or is to wait.
    fn is_repairable(&self) -> bool {
        !matches!(self.suggest, Suggest::Nothing) || self.action == "wait"
    }
}

fn assert_never_first(error: &Value) {
    let first = text(&error["remedies"][0]["action"]);
    assert!(!NEVER_FIRST.contains(&first.as_str()), "{error:#}");
}

fn first_error(status: &Value) -> String {
    text(&status["errors"][0]["code"])
}

fn first_remedy(status: &Value) -> Value {
    status["errors"][0]["remedies"][0].clone()
}

/// Environments with one controller.
struct Group {
    argus: Controller<'static>,
    all: Vec<Broken>,
}

impl Group {
    fn of(all: Vec<Broken>) -> Self {
        Self::with(RunOptions::default(), all)
    }

    /// Environments whose controller has these options.
    fn with(options: RunOptions, all: Vec<Broken>) -> Self {
        let argus = Controller::start(engine(), options);
        Self { argus, all }
    }

    /// Adds a file that the environments name.
    fn add_file(&self, path: &str, text: &str) {
        let path = self.argus.specs.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Breaks all environments, and asserts their first remedies. Returns the answers that an agent gets.
    fn assert_first_remedies(&self) -> Vec<agent::Answer> {
        for one in &self.all {
            one.write(&self.argus, &one.spec());
        }
        let asserted = self.all.iter().map(|one| {
            one.assert_first_remedy(&self.argus);
            agent::Answer::of(one, &self.argus)
        });
        asserted.collect()
    }

    /// Repairs all environments whose remedy has a value. Prints and returns the effort of the agent.
    fn repair(&self, mut answers: Vec<agent::Answer>) -> Vec<agent::Answer> {
        std::thread::scope(|scope| {
            for (one, answer) in self.all.iter().zip(&mut answers) {
                if one.is_repairable() {
                    scope.spawn(|| answer.repair(one, &self.argus));
                }
            }
        });
        agent::print_table(&answers);
        answers
    }

    /// Waits until an environment has spent its restarts, and asserts the size of the answer about all its runs.
    fn assert_earlier_runs_are_short(&self, name: &str) {
        let one = self.all.iter().find(|one| one.name == name).expect("its name");
        let is_spent = || first_error(&self.argus.status(name)) == "CONTAINER_RESTART_EXHAUSTED";
        wait::poll(LIMIT, || is_spent().then_some(())).expect("its restarts are spent");
        agent::print_table(&[agent::Answer::of(one, &self.argus)]);
        let answer = agent::why(&self.argus, name);
        let chains = answer["structuredContent"]["chains"]
            .as_array()
            .into_iter()
            .flatten();
        let mut links = chains.flat_map(|chain| chain["links"].as_array().into_iter().flatten());
        let before = links.find_map(|link| link["before"].as_array());
        let ends = before.unwrap_or_else(|| panic!("earlier runs: {answer:#}"));
        assert_eq!(ends.len(), 1, "the same end: {ends:?}");
        assert_eq!(ends[0]["count"], 3, "all earlier runs: {ends:?}");
    }

    /// Holds an environment as another person, after its container was removed.
    fn hold(&self, target: &str) {
        let argus = &self.argus;
        let hold = argus.cli(&["hold", target, "--holder", "ann", "--reason", "inspection"]);
        assert!(hold.status.success(), "{hold:?}");
        let environment = target.split('/').next().expect("a name");
        engine().docker_ok(&["rm", "-f", &format!("{environment}-bad")]);
    }
}
