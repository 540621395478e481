//! Conflicts of a file with the accepted files of the registry.

use std::path::{Path, PathBuf};

use argus_core::desired::conflict::{Candidate, conflicts};
use argus_core::desired::conflict_index::ConflictIndex;
use argus_core::desired::nested_mounts;
use argus_crds::diagnostic::Diagnostic;

use super::registry::{PendingAdmission, SpecRegistry};

impl SpecRegistry {
    /// Returns the first file that an admission conflicts with, and the conflicts. The containers of a missing file and of a draining
    /// environment still run, and a missing file can return without an admission. They keep their mounts, but not their names.
    pub(super) fn find_conflicts(
        &self,
        path: &Path,
        admission: &PendingAdmission,
    ) -> Option<(PathBuf, Vec<Diagnostic>)> {
        let (env, name) = (&admission.desired.env, path.display().to_string());
        let candidate = Candidate::new(&admission.desired, &name, &admission.mounts, admission.allowed)
            .of_compose(admission.lines.is_compose());
        let possible = self.conflict_index.find(&candidate).into_iter();
        let others = possible.filter_map(|other| self.files.get_key_value(Path::new(other)));
        let others = others.filter(|(other, _)| other.as_path() != path);
        let accepted = others.filter_map(|(other, entry)| Some((other, entry, entry.accepted.as_ref()?)));
        let mut files = accepted.map(|(other, entry, existing)| {
            let found = match entry.gone_since {
                None => conflicts(existing, &candidate),
                Some(_) if existing.desired.env == *env => Vec::new(),
                Some(_) => nested_mounts::conflicts(existing, &candidate),
            };
            (other.as_path(), found)
        });
        let in_file = files.find(|(_, found)| !found.is_empty());
        let draining = self.draining.values().map(|(existing, _)| existing);
        // An earlier environment of this file or of this name is replaced.
        let mut draining = draining
            .filter(|existing| existing.spec_path != name && existing.desired.env != *env)
            .map(|existing| {
                let found = nested_mounts::conflicts(existing, &candidate);
                (Path::new(&existing.spec_path), found)
            });
        let (holder, found) = in_file.or_else(|| draining.find(|(_, found)| !found.is_empty()))?;
        Some((holder.to_path_buf(), found))
    }

    /// Adds files that were restored, and removes files that are gone.
    pub(super) fn complete_conflict_index(&mut self) {
        let accepted = self
            .files
            .iter()
            .filter_map(|(path, entry)| Some((path, entry.accepted.as_ref()?)));
        if accepted.clone().count() == self.conflict_index.len() {
            return;
        }
        let mut index = ConflictIndex::default();
        for (path, accepted) in accepted {
            index.insert(&path.display().to_string(), &accepted.desired);
        }
        self.conflict_index = index;
    }
}
