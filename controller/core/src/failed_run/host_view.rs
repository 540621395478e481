//! Files of the host that can explain a failed run: their paths, from the mounts and the output.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::desired::paths::to_absolute;
use crate::desired::{Accepted, Image, Mount, Service};
use crate::dockerfile::{self, Copies, Instruction};
use crate::outcome::Evidence;

/// Maximum number of paths per run.
const MAX_PATHS: usize = 8;
/// Lines at the end of each stream that can name a path.
const LINES: usize = 40;
/// Maximum length of a word of a container that an edit repeats, in bytes.
pub(crate) const LONGEST_WORD: usize = 200;

/// Bind mounts and paths of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostView {
    /// Bind mounts.
    pub mounts: Vec<Mount>,
    /// Words of the command that can be paths.
    pub words: Vec<String>,
    /// Folder of relative paths.
    pub working_dir: Option<String>,
    /// Folder of the spec file on the host, if a relative mount shows it.
    pub directory: Option<String>,
    /// Build of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildView>,
}

/// Dockerfile and context of a built image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BuildView {
    /// Absolute path of the context.
    pub context: String,
    /// Absolute path of the Dockerfile.
    pub dockerfile: String,
    /// Built stage; `None` for the last one.
    pub target: Option<String>,
    /// True if the spec file replaces its `CMD`.
    pub replaces_command: bool,
    /// True if the spec file replaces its `ENTRYPOINT`, and so its `CMD`.
    pub replaces_entrypoint: bool,
}

impl BuildView {
    /// The view of a service; `None` without a Dockerfile.
    fn of(service: &Service) -> Option<Self> {
        let Image::Built(build) = &service.image else {
            return None;
        };
        // An absolute path replaces the context.
        let path = Path::new(&build.context).join(&build.dockerfile);
        build.options.inline.is_none().then(|| Self {
            context: build.context.clone(),
            dockerfile: path.display().to_string(),
            target: build.target.clone(),
            replaces_command: service.command.is_some(),
            replaces_entrypoint: service.entrypoint.is_some(),
        })
    }

    /// Commands of the Dockerfile that the container runs.
    pub fn commands(&self, text: &str) -> Vec<Instruction> {
        let all = dockerfile::commands(text, self.target.as_deref()).into_iter();
        let is_replaced =
            |command: &Instruction| self.replaces_entrypoint || (self.replaces_command && command.is("CMD"));
        all.filter(|command| !is_replaced(command)).collect()
    }
}

impl HostView {
    /// The view of a service.
    pub fn of(accepted: &Accepted, service: &Service) -> Self {
        let is_bind = |mount: &&Mount| matches!(mount, Mount::Bind { .. });
        let words = [&service.entrypoint, &service.command]
            .into_iter()
            .flatten()
            .flatten();
        let words = words.filter(|word| is_file_name(word)).cloned();
        Self {
            mounts: service.mounts.iter().filter(is_bind).cloned().collect(),
            words: words.take(MAX_PATHS).collect(),
            working_dir: service.working_dir.clone(),
            directory: directory(accepted),
            build: BuildView::of(service),
        }
    }

    /// Paths in the container that its output or its command names, each with its path on the host. Below no mount, the path on the host
    /// is that of a file of the project with the same end.
    pub fn paths(&self, evidence: &Evidence) -> Vec<(String, String)> {
        let in_lines =
            last_lines(evidence).flat_map(|line| paths(line).map(str::to_owned).chain(self.relative(line)));
        let in_words = self.words.iter().map(|word| self.absolute(word));
        let mut found: Vec<(String, String)> = Vec::new();
        for path in in_lines.chain(in_words).flat_map(|path| self.with_target(path)) {
            if found.iter().all(|(known, _)| *known != path)
                && let Some(host) = self.host_path(&path)
            {
                found.push((path, host));
            }
            if found.len() == MAX_PATHS {
                break;
            }
        }
        found
    }

    /// Paths in the image that its output or its command names, each with the files of the context that it can be a copy of. `text` is
    /// that of the Dockerfile.
    pub fn copies(&self, evidence: &Evidence, text: &str) -> Vec<(String, Vec<(String, bool)>)> {
        let Some(build) = &self.build else {
            return Vec::new();
        };
        let copies = Copies::from_dockerfile(text, build.target.as_deref());
        let folder = self.working_dir.as_ref().unwrap_or(&copies.working_dir);
        let of_image = build.commands(text);
        let marks = |c: char| c.is_whitespace() || "\"'[],;&|".contains(c);
        let in_image = of_image.iter().flat_map(|command| command.text.split(marks));
        let words = self.words.iter().map(String::as_str).chain(in_image);
        let named = last_lines(evidence).flat_map(|line| paths(line)).chain(words);
        let named = named
            .filter(|name| is_file_name(name))
            .map(|name| to_absolute(folder, name));
        let of_image: BTreeSet<String> = named.filter(|path| self.innermost(path).is_none()).collect();
        let found = of_image.into_iter().map(|path| {
            let sources = copies.sources_of(&path);
            (path, sources)
        });
        found
            .filter(|(_, sources)| !sources.is_empty())
            .take(MAX_PATHS)
            .collect()
    }

    /// A path, and the target of its mount, whose mode can deny a write below it.
    fn with_target(&self, path: String) -> impl Iterator<Item = String> + use<> {
        let target = self.innermost(&path).map(|mount| mount.target().to_owned());
        std::iter::once(path).chain(target)
    }

    /// Innermost bind mount that contains a path.
    fn innermost(&self, path: &str) -> Option<&Mount> {
        let mounts = self.mounts.iter().filter(|mount| is_below(path, mount.target()));
        mounts.max_by_key(|mount| mount.target().len())
    }

    /// Path on the host below the innermost bind mount.
    fn host_path(&self, path: &str) -> Option<String> {
        match self.innermost(path) {
            Some(Mount::Bind { source, target, .. }) => {
                let rest = &path[target.trim_end_matches('/').len()..];
                Some(format!("{}{rest}", source.trim_end_matches('/')))
            }
            Some(Mount::Volume { .. }) => None,
            None => {
                let name = path.rsplit('/').next().filter(|name| name.contains('.'))?;
                Some(format!("{}/{name}", self.directory.as_deref()?))
            }
        }
    }

    /// Relative file names of the command in a line, as absolute paths.
    fn relative(&self, line: &str) -> Option<String> {
        let mut words = self.words.iter().filter(|word| !word.starts_with('/'));
        let word = words.find(|word| line.contains(word.as_str()))?;
        Some(self.absolute(word))
    }

    /// Absolute path of a file name of the command.
    fn absolute(&self, word: &str) -> String {
        absolute(word, self.working_dir.as_deref(), &self.mounts)
    }
}

/// Lines at the end of each stream, the last one of stderr first.
fn last_lines(evidence: &Evidence) -> impl Iterator<Item = &String> {
    let last = |lines: &'_ [String]| lines.len().saturating_sub(LINES);
    let stderr = evidence.stderr[last(&evidence.stderr)..].iter().rev();
    stderr.chain(evidence.stdout[last(&evidence.stdout)..].iter().rev())
}

/// Name of a folder that differs from a missing one by its letter case, by `.yml` and `.yaml`, or by one letter. Names of a few letters and
/// numbered names differ on purpose.
pub fn similar_name<'a>(missing: &str, names: &'a [String]) -> Option<&'a str> {
    const SHORTEST: usize = 4;
    let (stem, end) = split_name(missing);
    if stem.is_empty() {
        return None;
    }
    let names = || {
        let all = names.iter().map(String::as_str);
        all.filter(|name| *name != missing && is_plain(name))
    };
    let is_yaml = |end: &str| end == "yml" || end == "yaml";
    let has_other_end = |name: &str| {
        let (other, other_end) = split_name(name);
        other == stem && is_yaml(end) && is_yaml(other_end)
    };
    let is_misspelled = |name: &str| {
        let (other, other_end) = split_name(name);
        stem.len() >= SHORTEST && end == other_end && differs_by_one_error(stem, other)
    };
    names()
        .find(|name| name.eq_ignore_ascii_case(missing))
        .or_else(|| names().find(|name| has_other_end(name)))
        .or_else(|| names().find(|name| is_misspelled(name)))
}

/// Stem and ending of a name.
fn split_name(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or((name, ""))
}

/// Returns whether two words differ by one letter, or by two letters in another order.
pub(crate) fn differs_by_one_error(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let start = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[start..], &other[start..]);
    let end = one
        .iter()
        .rev()
        .zip(other.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (one, other) = (&one[..one.len() - end], &other[..other.len() - end]);
    let is_letter = |text: &[u8]| text.iter().all(u8::is_ascii_alphabetic);
    is_letter(one)
        && is_letter(other)
        && match (one, other) {
            ([_], [] | [_]) | ([], [_]) => true,
            ([a, b], [c, d]) => a == d && b == c,
            _ => false,
        }
}

/// Absolute path of a file name of a command. Without a working directory, its only mounted folder is meant.
pub(crate) fn absolute(word: &str, working_dir: Option<&str>, mounts: &[Mount]) -> String {
    if word.starts_with('/') {
        return word.to_owned();
    }
    let mut targets = mounts.iter().map(Mount::target);
    let only = targets.next().filter(|_| targets.next().is_none());
    let folder = working_dir.or(only).unwrap_or_default();
    let word = word.trim_start_matches("./");
    format!("{}/{word}", folder.trim_end_matches('/'))
}

/// Folder of the spec file on the host, from a mount that the file writes relative to it.
fn directory(accepted: &Accepted) -> Option<String> {
    accepted.desired.services.values().find_map(|service| {
        service.mounts.iter().enumerate().find_map(|(index, mount)| {
            let Mount::Bind { source, .. } = mount else {
                return None;
            };
            let key = format!("container.volumes[{index}]");
            let edit = accepted.lines.edit_service("", service.name.as_str(), &key, "");
            let written = edit.now?;
            let relative = written.split(':').next()?.strip_prefix("./")?;
            let folder = source.strip_suffix(relative.trim_end_matches('/'))?;
            Some(folder.trim_end_matches('/').to_owned())
        })
    })
}

/// Returns whether a word of a command can be the name of a file. Addresses and assignments are not.
pub(crate) fn is_file_name(word: &str) -> bool {
    let is_name = word.starts_with('/') || word.contains('.');
    is_name && word.len() > 2 && is_plain(word) && !word.contains(['@', '%', ':']) && !word.contains("..")
}

/// Returns whether a path is a folder, or below it.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Absolute paths in a line, without those that an edit cannot repeat.
pub(crate) fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || "\"'`:,;()[]<>=‘’“”\\".contains(c))
        .filter(|word| word.len() > 1 && word.starts_with('/') && !word.starts_with("//"))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| is_plain(word) && !word.split('/').any(|name| name == ".."))
}

/// Returns whether a word of a container is harmless in an edit, which can be part of a command: short, and without characters that a
/// shell interprets.
pub(crate) fn is_plain(word: &str) -> bool {
    let is_harmless = |c: char| c.is_alphanumeric() || "/._-+@%:".contains(c);
    word.len() <= LONGEST_WORD && !word.starts_with('-') && word.chars().all(is_harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line names only the file, and its parent is a folder of the host.
    #[test]
    fn target_of_the_mount_is_among_the_paths() {
        let mount = Mount::Bind {
            source: "/p/data".to_owned(),
            target: "/data".to_owned(),
            read_only: false,
        };
        let view = HostView {
            mounts: vec![mount],
            ..HostView::default()
        };
        let evidence = Evidence {
            stderr: vec!["open /data/x: permission denied".to_owned()],
            ..Evidence::default()
        };
        let pair = |path: &str, host: &str| (path.to_owned(), host.to_owned());
        assert_eq!(
            view.paths(&evidence),
            [pair("/data/x", "/p/data/x"), pair("/data", "/p/data")]
        );
    }

    #[test]
    fn programs_of_an_image_have_their_source_in_the_context() {
        let build = BuildView {
            context: "/p".to_owned(),
            dockerfile: "/p/Dockerfile".to_owned(),
            ..BuildView::default()
        };
        let view = |replaces_entrypoint, words: &[&str]| HostView {
            words: words.iter().map(ToString::to_string).collect(),
            build: Some(BuildView {
                replaces_entrypoint,
                ..build.clone()
            }),
            ..HostView::default()
        };
        let evidence = Evidence {
            stderr: vec!["/entry.sh: exec: line 2: /app/web.sh: not found".to_owned()],
            ..Evidence::default()
        };
        let text =
            "FROM a\nWORKDIR /app\nCOPY . .\nCOPY entry.sh /\nENTRYPOINT [\"/entry.sh\", \"./run.sh\"]\n";
        let found = |view: &HostView| {
            let found = view.copies(&evidence, text).into_iter();
            found.map(|(path, _)| path).collect::<Vec<_>>()
        };
        assert_eq!(
            found(&view(false, &[])),
            ["/app/run.sh", "/app/web.sh", "/entry.sh"]
        );
        assert_eq!(
            found(&view(true, &["start.sh"])),
            ["/app/start.sh", "/app/web.sh", "/entry.sh"]
        );
        let without_build = HostView {
            build: None,
            ..view(false, &[])
        };
        assert!(found(&without_build).is_empty());
    }

    #[test]
    fn names_of_other_files_are_not_similar() {
        for (missing, present, expected) in [
            ("config.yml", "config.yaml", true),
            ("Config.json", "config.json", true),
            ("servr.js", "server.js", true),
            (".env", ".git", false),
            ("server.crt", "server.key", false),
            ("fr.json", "en.json", false),
            ("0002.sql", "0001.sql", false),
            ("server.js", "serv$r.js", false),
        ] {
            let names = [present.to_owned()];
            assert_eq!(similar_name(missing, &names).is_some(), expected, "{missing}");
        }
    }
}
