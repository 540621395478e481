//! Files of the build context that the instructions `COPY` and `ADD` of a Dockerfile put into its image.

use super::{Instruction, parse, stages_of};
use crate::desired::paths::{relative_to, to_absolute};

/// Copies into the image that a target, or the last stage, becomes.
#[derive(Debug)]
pub struct Copies {
    /// Working directory at the end of the stage. A variable stays as it is written.
    pub working_dir: String,
    all: Vec<CopiedPath>,
}

/// Path of the context, and its copy.
#[derive(Debug)]
struct CopiedPath {
    /// Absolute, with the context as its root.
    source: String,
    /// Absolute path of the copy or of its folder.
    target: String,
    sets_mode: bool,
}

impl Copies {
    /// Reads the copies of a Dockerfile.
    pub fn from_dockerfile(text: &str, target: Option<&str>) -> Self {
        let mut copies = Self {
            working_dir: "/".to_owned(),
            all: Vec::new(),
        };
        let instructions = parse(text);
        for instruction in stages_of(&instructions, target).into_iter().rev().flatten() {
            copies.add(instruction);
        }
        copies
    }

    fn add(&mut self, instruction: &Instruction) {
        let (_, mut rest) = instruction.text.split_once(' ').unwrap_or_default();
        if instruction.is("WORKDIR") {
            self.working_dir = to_absolute(&self.working_dir, rest.trim_matches('"'));
        }
        let (mut is_of_context, mut sets_mode) = (instruction.is("COPY") || instruction.is("ADD"), false);
        while let Some((option, others)) = rest.split_once(' ').filter(|(word, _)| word.starts_with("--")) {
            is_of_context &= !option.starts_with("--from=");
            sets_mode |= option.starts_with("--chmod=");
            rest = others;
        }
        let listed = serde_json::from_str::<Vec<String>>(rest).ok();
        let words = listed.unwrap_or_else(|| rest.split(' ').map(str::to_owned).collect());
        if let Some((target, sources)) = words.split_last().filter(|_| is_of_context) {
            let target = to_absolute(&self.working_dir, target);
            self.all.extend(sources.iter().map(|source| CopiedPath {
                source: to_absolute("/", source),
                target: target.clone(),
                sets_mode,
            }));
        }
    }

    /// Returns the files of the context that an absolute path of the image can be a copy of, the last copy first, each with true if its
    /// instruction sets its mode. A source can be a folder, so some of the files do not exist.
    pub fn sources_of(&self, path: &str) -> Vec<(String, bool)> {
        let copies = self.all.iter().rev();
        let found = copies.flat_map(|copy| {
            let sources = rests(path, &copy.target).into_iter();
            sources.filter_map(move |rest| Some((joined(&copy.source, rest)?, copy.sets_mode)))
        });
        found.collect()
    }
}

/// Part of a path below the target of a copy: each end of the path if the target contains a variable.
fn rests<'p>(path: &'p str, target: &str) -> Vec<&'p str> {
    if target.contains('$') {
        return path.match_indices('/').map(|(at, _)| &path[at + 1..]).collect();
    }
    relative_to(path, target).into_iter().collect()
}

/// File of the context behind a path below the target: the source itself, a file that its pattern selects, or a file below it.
fn joined(source: &str, rest: &str) -> Option<String> {
    let (folder, name) = source.rsplit_once('/')?;
    let is_selected =
        |(start, end): (&str, &str)| rest.starts_with(start) && rest.ends_with(end) && !rest.contains('/');
    let path = if rest.is_empty() || rest == name {
        source.to_owned()
    } else if name.split_once('*').is_some_and(is_selected) {
        format!("{folder}/{rest}")
    } else {
        format!("{source}/{rest}")
    };
    let path = path.trim_start_matches('/');
    (!path.is_empty() && !path.split('/').any(|part| part == "..")).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "FROM busybox AS base
WORKDIR /app
COPY --chown=1:1 . .
FROM golang AS build
COPY run.sh /app/
FROM base
COPY --from=build /out/run.sh /tools/
COPY docker/entry.sh docker/wait.sh /usr/local/bin/
ADD [\"my files/start.sh\", \"/start\"]
COPY --chmod=755 --link scripts/*.sh /scripts/
WORKDIR bin
COPY a $HOME/
";

    fn paths(path: &str) -> Vec<String> {
        let found = Copies::from_dockerfile(TEXT, None).sources_of(path).into_iter();
        found.map(|(path, _)| path).collect()
    }

    #[test]
    fn paths_of_the_image_have_their_source() {
        assert_eq!(Copies::from_dockerfile(TEXT, None).working_dir, "/app/bin");
        for (path, expected) in [
            ("/app/run.sh", "run.sh"),
            ("/app/bin/run.sh", "bin/run.sh"),
            ("/usr/local/bin/wait.sh", "docker/wait.sh"),
            ("/start", "my files/start.sh"),
            ("/scripts/db.sh", "scripts/db.sh"),
            ("/root/a", "a"),
        ] {
            assert!(
                paths(path).contains(&expected.to_owned()),
                "{path}: {:?}",
                paths(path)
            );
        }
        assert!(!paths("/tools/run.sh").contains(&"out/run.sh".to_owned()));
        assert_eq!(
            paths("/app/run.sh").first().map(String::as_str),
            Some("a/app/run.sh")
        );
        assert!(!paths("/app/../x").iter().any(|path| path.contains("..")));
    }

    #[test]
    fn only_the_built_stage_and_its_bases_copy() {
        let of_build = Copies::from_dockerfile(TEXT, Some("build")).sources_of("/app/run.sh");
        assert_eq!(of_build.len(), 1);
        assert!(!of_build[0].1);
        assert!(
            Copies::from_dockerfile(TEXT, None)
                .sources_of("/scripts/db.sh")
                .iter()
                .any(|file| file.1)
        );
        assert!(
            Copies::from_dockerfile("COPY\nWORKDIR\nADD --from=x\nCOPY --chmod=1 --link", None)
                .sources_of("/a")
                .is_empty()
        );
    }
}
