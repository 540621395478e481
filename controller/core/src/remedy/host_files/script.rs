//! Scripts that the kernel did not run: of a mount, of `container.files`, or of the build context of the image.

use std::borrow::Cow;

use argus_crds::error::SpecEdit;

use crate::failed_run::{FailureKind, kind};
use crate::outcome::HostFile;
use crate::quoting::shell_path;
use crate::remedy::case::{Case, contains};
use crate::remedy::command::script_path;
use crate::remedy::shell::SHELLS;

/// Script that the kernel did not run, with the facts of its text.
struct Script<'a> {
    facts: Cow<'a, HostFile>,
    place: Place,
}

/// Place of the text of a script.
enum Place {
    /// File of the host below a mount.
    Mounted(String),
    /// File of a build context. An edit starts a build.
    Copied(String),
    /// Key of the file in the spec file.
    Written(String),
}

/// Script without the permission to run.
pub(in crate::remedy) fn script_mode(case: &Case<'_>) -> Option<SpecEdit> {
    let script = script(case)?;
    let mode = script.facts.file_mode()?;
    let reason = format!("its mode {:04o} does not let the process run it", mode & 0o7777);
    let edit = || script.edit(case, "mode", reason, "run `chmod +x FILE`", "write `mode: 0755`");
    (mode & 0o001 == 0 && case.run.exit_code == 126).then(edit)
}

/// Script whose lines end with CRLF. The name of its interpreter, or each line for a shell, ends with a carriage return.
pub(in crate::remedy) fn script_line_ends(case: &Case<'_>) -> Option<SpecEdit> {
    let (script, effect) = match script(case) {
        Some(script) => (script, "the kernel does not find its interpreter"),
        None => (
            shell_script(case)?,
            "the shell reads a carriage return in each line",
        ),
    };
    let reason = format!("its lines end with CRLF, so {effect}");
    let change = "run `sed -i 's/\\r$//' FILE`";
    let edit = || script.edit(case, "content", reason, change, "write it without `\\r`");
    script.facts.has_crlf.then(edit)
}

/// Script with an interpreter that the image does not have.
pub(in crate::remedy) fn script_interpreter(case: &Case<'_>) -> Option<SpecEdit> {
    let script = script(case).filter(|script| !script.facts.has_crlf)?;
    let interpreter = script.facts.interpreter.as_deref()?;
    let is_absent = case.run.exit_code == 127 || case.line_with(&["bad interpreter"]).is_some();
    let reason = format!("the image has no interpreter `{interpreter}`");
    let change = "name an interpreter of the image, such as `#!/bin/sh`";
    is_absent.then(|| script.edit(case, "content", reason, change, change))
}

impl Script<'_> {
    /// Change of the file, whose name for a shell replaces `FILE`, or of a key of the file in the spec file.
    fn edit(&self, case: &Case<'_>, key: &str, reason: String, of_file: &str, of_spec: &str) -> SpecEdit {
        let hint = |file: &String| of_file.replace("FILE", &shell_path(file));
        let line = (key == "content").then_some(1_usize);
        let context = &case.context;
        match &self.place {
            Place::Mounted(file) | Place::Copied(file) => {
                Case::host_edit(file.clone(), reason, hint(file)).line(line)
            }
            Place::Written(_) if context.accepted.lines.is_compose() => {
                let hint = format!("{of_spec} in its entry under `configs` or `secrets`");
                context.edit("container", reason).hint(hint)
            }
            Place::Written(entry) if key == "mode" => {
                context.edit(&format!("{entry}.mode"), reason).suggest("0755")
            }
            Place::Written(entry) => context.edit(&format!("{entry}.{key}"), reason).hint(of_spec),
        }
    }
}

/// The script of a mount, of `container.files` or of a build context that the kernel did not run.
fn script<'a>(case: &Case<'a>) -> Option<Script<'a>> {
    if kind(case.run) != FailureKind::NotRunnable {
        return None;
    }
    let evidence = case.run.evidence.as_ref()?;
    let mounted = script_path(case).and_then(|path| Some((path, case.host_file(path)?)));
    if let Some((path, file)) = mounted {
        let facts = case.host_facts(path).filter(|_| !has_run(case, path))?;
        let place = Place::Mounted(file);
        let facts = Cow::Borrowed(facts);
        return Some(Script { facts, place });
    }
    let files = case.context.service.process.files.iter().enumerate();
    let written = files.map(|(index, file)| {
        let facts = HostFile {
            mode: Some(0o100_000 | file.access.mode),
            ..HostFile::default()
        };
        let facts = Cow::Owned(facts.with_head(file.text.as_bytes()));
        (
            &file.path,
            facts,
            Place::Written(format!("container.files[{index}]")),
        )
    });
    let copied = evidence.host_files.iter().filter_map(|(path, facts)| {
        let place = Place::Copied(facts.copied_from.clone()?);
        Some((path, Cow::Borrowed(facts), place))
    });
    let mut all = written.chain(copied);
    let (_, facts, place) = all.find(|(path, facts, _)| is_blamed(case, path, facts))?;
    Some(Script { facts, place })
}

/// The script of a mount or of a build context that the shell of the command reads.
fn shell_script<'a>(case: &Case<'a>) -> Option<Script<'a>> {
    let is_shell = SHELLS.contains(&case.program()?) && case.run.exit_code != 0;
    case.words().filter(|_| is_shell).find_map(|word| {
        let facts = case.host_facts(word)?;
        let mounted = case.host_file(word).map(Place::Mounted);
        let place = mounted.or_else(|| facts.copied_from.clone().map(Place::Copied))?;
        let facts = Cow::Borrowed(facts);
        Some(Script { facts, place })
    })
}

/// Returns whether a line reports that a script could not run, by its name or by that of its interpreter.
fn is_blamed(case: &Case<'_>, path: &str, facts: &HostFile) -> bool {
    parts! {
        FAULTS: "permission denied" "no such file" "not found" "bad interpreter" "cannot run";
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    case.lines().any(|line| {
        let is_subject =
            |(before, rest): (&str, &str)| before.ends_with(['/', ' ', '"']) && !has_number(rest);
        let of_script = || line.rsplit_once(name).is_some_and(is_subject);
        let interpreter = facts.interpreter.as_deref();
        let of_env = || contains(line, &["env: "]) && interpreter.is_some_and(|name| line.contains(name));
        contains(line, FAULTS) && (of_script() || of_env())
    })
}

/// Returns whether the output has a message with the number of a line of the script, so that it ran.
fn has_run(case: &Case<'_>, path: &str) -> bool {
    let mut lines = case.lines().filter_map(|line| line.split_once(path));
    lines.any(|(_, rest)| has_number(rest))
}

/// Returns whether a text after the name of a script contains the number of a line, as `: exec: line 2: web: not found` does.
fn has_number(rest: &str) -> bool {
    let mut parts = rest
        .split(':')
        .map(|part| part.trim_start().trim_start_matches("line "));
    parts.any(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}
