//! Files that Argus writes into projects and that are in no build context: its log behind stdout and stderr, and reports.
//!
//! A shell chooses the path of the log, so Argus recognizes the log by its device and inode. Reports of any process have a mark in
//! their folder.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{stderr, stdout};
use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::fs::{FileType, Stat, fstat};

use super::FileId;

/// Name of the file that marks the folder of a report.
pub const REPORT_MARK: &str = ".argus-report";
/// Entries of the folder of a report.
const REPORT: [&str; 8] = [
    REPORT_MARK,
    "argus.env",
    "evidence",
    "images.txt",
    "junit.xml",
    "logs",
    "report.json",
    "summary.md",
];

/// Set of files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnFiles(BTreeSet<FileId>);

impl OwnFiles {
    /// Returns the files behind stdout and stderr of this process.
    pub fn of_process() -> Self {
        let (out, err) = (stdout(), stderr());
        let found = [fstat(out.as_fd()), fstat(err.as_fd())];
        Self::from_stats(found.iter().flatten())
    }

    /// Returns those of the objects that are files.
    pub fn from_stats<'a>(objects: impl IntoIterator<Item = &'a Stat>) -> Self {
        let is_file = |stat: &&Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Self(objects.into_iter().filter(is_file).map(FileId::new).collect())
    }

    /// Returns true if the set contains the file.
    pub fn contains(&self, file: FileId) -> bool {
        self.0.contains(&file)
    }
}

/// Returns true if the entries of a report in this folder belong to Argus.
pub fn is_marked(folder: &Path) -> bool {
    folder.join(REPORT_MARK).symlink_metadata().is_ok()
}

/// Returns true if an entry of a marked folder belongs to the report.
pub fn is_of_report(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| REPORT.contains(&name))
}

/// Returns true if a folder contains a report and nothing else. Does not follow a link at the path.
pub fn is_report(folder: &Path) -> bool {
    let is_folder = folder.symlink_metadata().is_ok_and(|found| found.is_dir());
    is_folder
        && is_marked(folder)
        && std::fs::read_dir(folder).is_ok_and(|mut entries| {
            entries.all(|entry| entry.is_ok_and(|entry| is_of_report(&entry.file_name())))
        })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn report_is_a_marked_folder_without_other_entries() {
        let dir = tempfile::tempdir().unwrap();
        let report = dir.path().join("out");
        fs::create_dir_all(report.join("logs")).unwrap();
        fs::write(report.join("summary.md"), "").unwrap();
        assert!(!is_report(&report), "without a mark");
        fs::write(report.join(REPORT_MARK), "").unwrap();
        assert!(is_report(&report));
        std::os::unix::fs::symlink(&report, dir.path().join("link")).unwrap();
        assert!(!is_report(&dir.path().join("link")));
        fs::write(report.join("own.txt"), "").unwrap();
        assert!(!is_report(&report) && is_marked(&report));
        assert!(is_of_report("junit.xml".as_ref()) && !is_of_report("own.txt".as_ref()));
    }

    #[test]
    fn only_files_count_and_each_name_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let (log, other) = (dir.path().join("log"), dir.path().join("other"));
        fs::write(&log, "").unwrap();
        fs::hard_link(&log, &other).unwrap();
        let stat = |path: &Path| rustix::fs::stat(path).unwrap();
        let own = OwnFiles::from_stats(&[stat(&log), stat(dir.path())]);
        assert!(own.contains(FileId::new(&stat(&other))));
        assert!(!own.contains(FileId::new(&stat(dir.path()))));
    }
}
