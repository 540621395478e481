//! Named volumes of Compose projects. They belong to no environment, and Argus never changes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Object, ObjectId, Volume};
use crate::ident::EnvName;
use crate::labels;

/// The volumes by their name on the engine. Clones share the map until a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ComposeVolumes(Arc<BTreeMap<String, Arc<Volume>>>);

impl ComposeVolumes {
    /// Records an object without the labels of Argus, if it is such a volume.
    pub(super) fn update(&mut self, object: &Object) {
        let Object::Volume(volume) = object else {
            return;
        };
        let found = Some(volume).filter(|volume| project_and_key(volume).is_some());
        if self.0.get(&volume.name) != found {
            let all = Arc::make_mut(&mut self.0);
            all.remove(&volume.name);
            all.extend(found.map(|volume| (volume.name.clone(), volume.clone())));
        }
    }

    pub(super) fn remove(&mut self, id: &ObjectId) {
        if let ObjectId::Volume(name) = id
            && self.0.contains_key(name)
        {
            Arc::make_mut(&mut self.0).remove(name);
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.0.values()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ObjectId> {
        self.0.keys().map(|name| ObjectId::Volume(name.clone()))
    }

    /// Returns the volume of the project that has the name of an environment: its name on the engine, and the project.
    pub(super) fn find(&self, env: &EnvName, key: &str) -> Option<(&str, &str)> {
        self.all().find_map(|volume| {
            let (project, known) = project_and_key(volume)?;
            let is_of_env = EnvName::slug(project).is_ok_and(|slug| slug == *env);
            (known == key && is_of_env).then_some((volume.name.as_str(), project))
        })
    }
}

/// Project of a volume, and its name in the file of the project.
fn project_and_key(volume: &Volume) -> Option<(&str, &str)> {
    let project = labels::compose_project(&volume.labels)?;
    let key = volume.labels.get(labels::COMPOSE_VOLUME)?;
    Some((project.as_str(), key.as_str()))
}
