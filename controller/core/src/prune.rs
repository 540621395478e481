//! Selection of the unused images that Argus built.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::desired::OWN_IMAGE;
use crate::time::Timestamp;

/// Image that Argus built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuiltImage {
    /// Image id.
    pub id: String,
    /// Tag of the build; the engine has moved it to the newest build since.
    pub built_as: String,
    /// Current tags.
    pub tags: Vec<String>,
    /// Build time.
    pub created_at: Timestamp,
    /// Time of the last tag, if another build has the same build time.
    #[serde(default)]
    pub tagged_at: Option<Timestamp>,
    /// True if a container or another image is based on it.
    pub used: bool,
    /// Layers of the build with their sizes in bytes, by a key of the layer. Builds with the same first steps share layers.
    pub layer_sizes: BTreeMap<String, u64>,
}

impl BuiltImage {
    /// Returns whether it is the image of this program, for mocks. Each program version has a separate tag.
    fn is_program_image(&self) -> bool {
        let tag = self.built_as.strip_prefix(OWN_IMAGE);
        tag.is_some_and(|tag| tag.starts_with(':'))
    }

    /// Returns the name under which newer builds replace this one.
    fn series(&self) -> &str {
        if self.is_program_image() {
            OWN_IMAGE
        } else {
            &self.built_as
        }
    }

    /// Returns whether it has a tag other than the one that Argus assigned.
    fn is_named(&self) -> bool {
        let by_us = |tag: &String| self.is_program_image() && *tag == self.built_as;
        self.tags.iter().any(|tag| !by_us(tag))
    }
}

/// Returns the images that can be removed.
///
/// Such an image is unused, has no tag of a person, and is not in `wanted` (references and ids). There is a newer build
/// of the same tag or of this program. The image with the tag counts as the newest one: an edit that is undone tags its earlier build
/// again.
pub fn unused_images<'a>(images: &'a [BuiltImage], wanted: &BTreeSet<String>) -> Vec<&'a BuiltImage> {
    let mut newest: BTreeMap<&str, (bool, Timestamp, Option<Timestamp>, &str)> = BTreeMap::new();
    for image in images {
        let is_tagged = image.tags.contains(&image.built_as);
        let this = (is_tagged, image.created_at, image.tagged_at, image.id.as_str());
        let known = newest.entry(image.series()).or_insert(this);
        *known = this.max(*known);
    }
    let is_unused = |image: &&BuiltImage| {
        let is_wanted = wanted.contains(&image.id) || image.tags.iter().any(|tag| wanted.contains(tag));
        let is_newest = newest.get(image.series()).is_some_and(|(.., id)| *id == image.id);
        !image.built_as.is_empty() && !image.used && !image.is_named() && !is_wanted && !is_newest
    };
    images.iter().filter(is_unused).collect()
}

/// Returns the bytes that removing `unused` frees: the layers that no remaining image in `images` shares.
pub fn freed_bytes(images: &[BuiltImage], unused: &[&BuiltImage]) -> u64 {
    let is_unused = |image: &BuiltImage| unused.iter().any(|unused| unused.id == image.id);
    let remaining: BTreeSet<&String> = images
        .iter()
        .filter(|image| !is_unused(image))
        .flat_map(|image| image.layer_sizes.keys())
        .collect();
    let freed: BTreeMap<&String, u64> = unused
        .iter()
        .flat_map(|image| &image.layer_sizes)
        .filter(|(id, _)| !remaining.contains(id))
        .map(|(id, bytes)| (id, *bytes))
        .collect();
    freed.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, at: i64) -> BuiltImage {
        BuiltImage {
            id: id.to_owned(),
            built_as: "shop-api:argus".to_owned(),
            tags: Vec::new(),
            created_at: Timestamp(at),
            used: false,
            tagged_at: None,
            layer_sizes: [(id.to_owned(), 10), ("common".to_owned(), 100)].into(),
        }
    }

    fn ids(images: &[BuiltImage], wanted: &[&str]) -> Vec<String> {
        let wanted = wanted.iter().map(|one| (*one).to_owned()).collect();
        unused_images(images, &wanted)
            .iter()
            .map(|image| image.id.clone())
            .collect()
    }

    #[test]
    fn replaced_and_unused_image_can_be_removed() {
        assert_eq!(
            ids(&[image("a", 1), image("b", 2), image("c", 3)], &[]),
            ["a", "b"]
        );
    }

    #[test]
    fn build_of_an_undone_edit_can_be_removed() {
        let mut tagged = image("a", 1);
        tagged.tags = vec![tagged.built_as.clone()];
        assert_eq!(ids(&[tagged, image("b", 2)], &[]), ["b"]);
    }

    #[test]
    fn newest_build_is_kept_without_a_file() {
        assert!(ids(&[image("a", 1)], &[]).is_empty());
        let mut other = image("b", 2);
        other.built_as = "other:argus".to_owned();
        assert!(ids(&[image("a", 1), other], &[]).is_empty());
        let mut tagged_last = image("a", 1);
        tagged_last.tagged_at = Some(Timestamp(2));
        assert_eq!(
            ids(&[tagged_last, image("b", 1)], &[]),
            ["b"],
            "built at the same time"
        );
    }

    #[test]
    fn used_wanted_or_tagged_image_is_kept() {
        type Change = fn(&mut BuiltImage);
        let changes: [Change; 3] = [
            |image| image.used = true,
            |image| image.tags = vec!["mine:1".to_owned()],
            |image| image.built_as = String::new(),
        ];
        for change in changes {
            let mut old = image("a", 1);
            change(&mut old);
            assert!(ids(&[old, image("b", 2)], &[]).is_empty());
        }
        assert!(ids(&[image("a", 1), image("b", 2)], &["a"]).is_empty());
    }

    #[test]
    fn older_program_image_is_removed_with_its_tag() {
        type Change = fn(&mut BuiltImage);
        let own = |id: &str, at: i64| BuiltImage {
            built_as: format!("argus/mock:{id}"),
            tags: vec![format!("argus/mock:{id}")],
            ..image(id, at)
        };
        let all = || vec![own("a", 1), own("b", 2), own("c", 3), image("shop", 4)];
        assert_eq!(ids(&all(), &[]), ["a", "b"]);
        assert_eq!(ids(&all(), &["argus/mock:a"]), ["b"], "a file wants it");
        let changes: [Change; 3] = [
            |image| image.used = true,
            |image| image.tags.push("mine:1".to_owned()),
            |image| image.tags = vec!["argus/mock:other".to_owned()],
        ];
        for change in changes {
            let mut all = all();
            change(&mut all[0]);
            assert_eq!(ids(&all, &[]), ["b"]);
        }
        let mut alike = all();
        alike[0].built_as = "argus/mocking:a".to_owned();
        assert_eq!(ids(&alike, &[]), ["b"], "a foreign name with the same beginning");
    }

    #[test]
    fn layer_shared_with_a_remaining_image_frees_nothing() {
        let all = [image("a", 1), image("b", 2), image("c", 3)];
        let unused = unused_images(&all, &BTreeSet::new());
        assert_eq!(freed_bytes(&all, &unused), 20);
        let mut separate = all.clone();
        separate[2].layer_sizes.remove("common");
        let unused: Vec<&BuiltImage> = separate[..2].iter().collect();
        assert_eq!(
            freed_bytes(&separate, &unused),
            120,
            "a layer that only removed images share counts once"
        );
    }
}
