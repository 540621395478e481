//! Programs that do not fit the image, the processor or the platform.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_plain};
use super::command::script_path;
use super::cures::cure_of;
use super::headline::has_served;
use super::images::{is_named, repository, rows};
use crate::desired::Image;
use crate::failed_run::signal;

/// Image whose program an invalid instruction or memory access ended. A retry would end in the same way. A program that served before has
/// an error of its own.
pub(super) fn crash(case: &Case<'_>) -> Option<SpecEdit> {
    if case.run.evidence.as_ref().is_some_and(has_served) {
        return None;
    }
    let by = signal(case.run.exit_code).map_or_else(String::new, |name| format!(" ({name})"));
    let reason = format!("its program crashed{by}; no setting of this file causes that");
    let named = "use another version of the image, or one for the platform of the engine";
    let built = "fix the program, or build it for the platform of the engine";
    Some(image(case, reason, named, built))
}

/// Library of the system that the image does not have, or has in an earlier version.
pub(super) fn libraries(case: &Case<'_>) -> Option<SpecEdit> {
    const SHARED: [&str; 2] = ["loading shared libraries: ", "loading shared library "];
    // Some libraries are in another variant of the image.
    let mut about = case
        .lines()
        .filter(|line| contains(line, &["shared librar", "shared object", "version `glibc"]));
    if let Some(edit) = about.find_map(|line| cure_of(case, line)) {
        return Some(edit);
    }
    let in_line = |line: &'_ str| -> Option<String> {
        let rest = SHARED.iter().find_map(|part| line.split_once(part));
        let name = if let Some((_, rest)) = rest {
            rest.split(':').next()?
        } else {
            let (_, rest) = line.split_once("version `")?;
            rest.split('\'').next().filter(|name| name.starts_with("GLIBC"))?
        };
        is_plain(name).then(|| name.to_owned())
    };
    // The highest version is enough for all.
    let needed = case
        .lines()
        .filter_map(in_line)
        .max_by_key(|name| (name.len(), name.clone()))?;
    let reason = format!("the program needs `{needed}`, which the image does not have");
    let named = "use an image that has it, or build the program for this image";
    Some(image(
        case,
        reason,
        named,
        "install it in the image, or build the program for this image",
    ))
}

/// Mounted program for glibc in an image of Alpine, where the kernel does not find its loader. A script has an interpreter or an ending.
pub(super) fn loader(case: &Case<'_>) -> Option<SpecEdit> {
    let Image::Named(reference) = &case.context.service.image else {
        return None;
    };
    let path = script_path(case).filter(|_| case.run.exit_code == 127 && reference.contains("alpine"))?;
    case.line_with(&["no such file", "not found"])
        .filter(|line| !line.contains(": line "))?;
    let is_program = match case.host_facts(path) {
        Some(facts) => {
            let is_executable = facts.file_mode().is_some_and(|mode| mode & 0o111 != 0);
            is_executable && facts.interpreter.is_none() && !facts.has_crlf
        }
        None => false,
    };
    case.host_file(path).filter(|_| is_program)?;
    let repository = repository(reference);
    let tag = reference.get(repository.len() + 1..).unwrap_or_default();
    let of_tag = tag.split_once("-alpine");
    let meant = match of_tag {
        _ if repository.rsplit('/').next() == Some("alpine") => "debian:stable-slim".to_owned(),
        Some((version, _)) => format!("{repository}:{version}"),
        None => return None,
    };
    let reason = format!("`{path}` needs a loader that the image does not have, such as that of glibc");
    let edit = case.context.edit("image", reason).now(reference.as_str());
    Some(
        edit.suggest(meant)
            .hint("or build a static program, such as with `CGO_ENABLED=0`"),
    )
}

/// Program for instructions that the processor of the host does not have.
pub(super) fn processor(case: &Case<'_>) -> Option<SpecEdit> {
    let evidence = case.run.evidence.as_ref()?;
    let mut lines = evidence.stderr.iter().chain(&evidence.stdout);
    let line = lines.find(|line| {
        contains(
            line,
            &["requires a cpu with", "cpu does not support", "requires armv8"],
        )
    })?;
    let reason = "the processor of the host does not have the instructions of the program".to_owned();
    let hint = "use an earlier version of the image, or one for this processor";
    let edit = image(case, reason, hint, "build it for the processor of the host");
    // Some programs name the first version that needs them, such as `5.0+`.
    let version = line.split_whitespace().find_map(|word| word.strip_suffix('+'));
    let earlier = || {
        let major = version?.split('.').next()?.parse::<u32>().ok()?;
        let (repository, tag) = edit.now.as_deref()?.rsplit_once(':')?;
        let is_later = tag
            .split(['.', '-'])
            .next()?
            .parse()
            .is_ok_and(|tag: u32| tag >= major);
        // Its versions had two parts before that one.
        let earlier = if is_named(case.context.service, "mongo") && major == 5 {
            "4.4".to_owned()
        } else {
            major.saturating_sub(1).to_string()
        };
        is_later.then(|| format!("{repository}:{earlier}"))
    };
    Some(match earlier() {
        Some(earlier) => edit.suggest(earlier),
        None => edit,
    })
}

/// Image whose name contains another platform than that of the engine.
pub(super) fn architecture(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(&["exec format error"])?;
    let Image::Named(reference) = &case.context.service.image else {
        return None;
    };
    let mut known = rows(include_str!("facts/architectures.txt"));
    let [name, own] = known.find(|[name, _]: &[&str; 2]| reference.contains(name))?;
    let evidence = case.run.evidence.as_ref()?;
    if evidence.wrong_platform.is_some() {
        return None;
    }
    let mut lines = evidence.stderr.iter().chain(&evidence.stdout);
    let reported = lines.find_map(|line| {
        line.split_once("host platform (linux/")?
            .1
            .split(['/', ')'])
            .next()
    });
    let other = if own == "amd64" { "arm64" } else { "amd64" };
    let engine = reported.unwrap_or(other).to_owned();
    let reason = format!("the image is for `{name}`, and the engine for `{engine}`");
    let edit = case.context.edit("image", reason).now(reference.as_str());
    (engine != own).then(|| edit.suggest(reference.replacen(name, &engine, 1)))
}

/// Change of the image of the file, or of the context that Argus builds.
fn image(case: &Case<'_>, reason: String, of_image: &str, of_context: &str) -> SpecEdit {
    match &case.context.service.image {
        Image::Named(_) => case.context.edit("image", reason).hint(of_image),
        Image::Built(build) => Case::host_edit(build.context.clone(), reason, of_context),
    }
}
