//! Exclusion rules of a build context: its `.dockerignore`, and the paths that no context contains.

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use argus_backend::host_path::FileId;
use argus_backend::host_path::folder;
use argus_backend::host_path::own_files::{self, OwnFiles};
use argus_core::budget::{Budget, Exceeded};
use argus_core::desired::excluded::{ContextEntry, Excluded, check_rules};
use argus_core::quoting::PathText as _;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Steps of the compilation of a rule.
pub(super) const RULE_STEPS: u64 = 10_000;
/// Maximum size of a Dockerfile and of a `.dockerignore`, in bytes.
const MAX_RULES_BYTES: u64 = 1024 * 1024;

/// Rules of one `.dockerignore`.
#[derive(Debug, Clone)]
pub(super) struct ContextRules {
    ignored: Gitignore,
    /// Literal beginnings of the patterns that include paths again.
    exceptions: Vec<PathBuf>,
    /// Dockerfile and files of rules, which count although a rule excludes them. A rule file need not exist.
    inputs: Vec<PathBuf>,
}

impl ContextRules {
    /// Reads the rules of the Dockerfile, for example `web.Dockerfile.dockerignore`, else those of the context. Every pattern starts at
    /// the root of the context.
    ///
    /// # Errors
    /// A file of rules cannot be read, or its rules exceed the budget.
    pub(super) fn read(context: &Path, dockerfile: &Path, budget: &mut Budget) -> io::Result<Self> {
        let mut rules = GitignoreBuilder::new("");
        let mut text = String::new();
        let mut own = dockerfile.as_os_str().to_owned();
        own.push(".dockerignore");
        // The rules of a Dockerfile outside the context are not sent.
        let own = Some(PathBuf::from(own)).filter(|own| own.is_relative());
        let files: Vec<PathBuf> = own.into_iter().chain([PathBuf::from(".dockerignore")]).collect();
        for path in &files {
            let path = context.join(path);
            let read = folder::open(&path).and_then(|file| {
                check_size(&path, &file.metadata()?)?;
                file.take(MAX_RULES_BYTES).read_to_string(&mut text)
            });
            match read {
                Ok(_) => {
                    let name = path.file_name().unwrap_or_default().shown();
                    check_rules(&name.to_string(), &text).map_err(io::Error::other)?;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let mut exceptions = Vec::new();
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (not, pattern) = match line.strip_prefix('!') {
                Some(rest) => ("!", rest.trim()),
                None => ("", line),
            };
            let pattern = pattern
                .trim_start_matches("./")
                .trim_start_matches('/')
                .trim_end_matches('/');
            if !not.is_empty() {
                exceptions.push(literal_beginning(pattern));
            }
            for pattern in [format!("{not}/{pattern}"), format!("{not}/{pattern}/**")] {
                budget.steps(RULE_STEPS).map_err(over_budget)?;
                rules.add_line(None, &pattern).map_err(io::Error::other)?;
            }
        }
        Ok(Self {
            ignored: rules.build().map_err(io::Error::other)?,
            exceptions,
            inputs: files.into_iter().chain([dockerfile.to_path_buf()]).collect(),
        })
    }

    /// Number of compiled patterns.
    pub(super) fn len(&self) -> u64 {
        self.ignored.num_ignores() + self.ignored.num_whitelists()
    }

    /// Returns true if a rule excludes the entry.
    pub(super) fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        self.ignored.matched(path, is_folder).is_ignore()
    }

    /// Returns true if a later rule can include an entry below an ignored folder.
    pub(super) fn may_include_below(&self, folder: &Path) -> bool {
        let meets = |exception: &PathBuf| exception.starts_with(folder) || folder.starts_with(exception);
        self.exceptions.iter().any(meets)
    }
}

/// Returns the components of a pattern before the first one with a wildcard.
fn literal_beginning(pattern: &str) -> PathBuf {
    let components = Path::new(pattern).components();
    let is_literal = |component: &Component<'_>| {
        component
            .as_os_str()
            .to_str()
            .is_some_and(|text| !text.contains(['*', '?', '[', '\\']))
    };
    components.take_while(is_literal).collect()
}

pub(super) fn over_budget(exceeded: Exceeded) -> io::Error {
    io::Error::other(format!(
        "its entries and the rules of its `.dockerignore` need {exceeded}; use fewer rules, or exclude folders without `!`"
    ))
}

/// Refuses a file of more than [`MAX_RULES_BYTES`] bytes.
pub(super) fn check_size(path: &Path, meta: &Metadata) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().shown();
    if meta.is_file() && meta.len() <= MAX_RULES_BYTES {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "`{name}` is not a file of at most {MAX_RULES_BYTES} bytes"
        )))
    }
}

/// Decides which paths are part of a build context, from the path alone.
#[derive(Debug, Clone)]
pub(super) struct ContextFilter {
    folder: PathBuf,
    rules: ContextRules,
    excluded: Excluded,
    own: OwnFiles,
}

impl ContextFilter {
    /// Creates the filter of the context in this folder.
    pub(super) fn new(folder: &Path, rules: ContextRules, excluded: &Excluded, own: &OwnFiles) -> Self {
        Self {
            folder: folder.to_owned(),
            rules,
            excluded: excluded.clone(),
            own: own.clone(),
        }
    }

    /// Returns true if a change at this absolute path can change the context.
    pub(super) fn concerns(&self, path: &Path) -> bool {
        let Ok(inside) = path.strip_prefix(&self.folder) else {
            return false;
        };
        if self.rules.inputs.iter().any(|input| input == inside) {
            return true;
        }
        let mut above = inside.ancestors().map(|path| self.excluded.classify(path));
        let own = above.next();
        if own == Some(ContextEntry::Excluded) || above.any(|it| it != ContextEntry::Included) {
            return false;
        }
        if self.rules.is_ignored(inside, false) && !self.rules.may_include_below(inside) {
            return false;
        }
        let is_log = || {
            path.symlink_metadata()
                .is_ok_and(|meta| self.own.contains(FileId::from(&meta)))
        };
        let is_of_report = || match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => own_files::is_of_report(name) && own_files::is_marked(folder),
            _ => false,
        };
        !is_of_report() && !is_log()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_context_concern_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let text = "node_modules\n*.log\nDockerfile\n.dockerignore\nvendor\n!vendor/keep/*.txt\n**/cache\n";
        std::fs::write(root.join(".dockerignore"), text).unwrap();
        std::fs::write(root.join("own"), "").unwrap();
        let mut budget = Budget::new(u64::MAX, u64::MAX);
        let rules = ContextRules::read(root, Path::new("Dockerfile"), &mut budget).unwrap();
        let folder = root.display().to_string();
        let data = format!("{folder}/data");
        let excluded = Excluded::new(&folder, "", [data.as_str()]);
        let own = OwnFiles::from_stats(&[rustix::fs::stat(root.join("own")).unwrap()]);
        let filter = ContextFilter::new(root, rules, &excluded, &own);
        for (path, expected) in [
            ("src/main.py", true),
            ("Dockerfile", true),
            (".dockerignore", true),
            ("Dockerfile.dockerignore", true),
            ("data", true),
            ("vendor", true),
            ("vendor/keep", true),
            ("vendor/keep/a.txt", true),
            ("vendor/other/a.txt", false),
            ("node_modules", false),
            ("node_modules/x/index.js", false),
            ("noise.log", false),
            ("src/cache/a", false),
            ("data/row", false),
            (".git/index", false),
            ("lib/.git/HEAD", false),
            (".argus/status.json", false),
            ("e2e.yaml", false),
            ("own", false),
        ] {
            assert_eq!(filter.concerns(&root.join(path)), expected, "{path}");
        }
        assert!(!filter.concerns(Path::new("/elsewhere/main.py")));
        assert!(filter.concerns(root), "the folder itself");
    }

    #[test]
    fn reports_in_a_marked_folder_concern_no_context() {
        let dir = tempfile::tempdir().unwrap();
        let mut budget = Budget::new(u64::MAX, u64::MAX);
        let rules = ContextRules::read(dir.path(), Path::new("Dockerfile"), &mut budget).unwrap();
        let filter = ContextFilter::new(dir.path(), rules, &Excluded::default(), &OwnFiles::default());
        assert!(filter.concerns(&dir.path().join("junit.xml")));
        std::fs::write(dir.path().join(own_files::REPORT_MARK), "").unwrap();
        assert!(!filter.concerns(&dir.path().join("junit.xml")));
        assert!(filter.concerns(&dir.path().join("main.rs")));
    }
}
