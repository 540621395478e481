//! Which images of an engine are ours and of no use any more.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::desired::OWN_IMAGE;
use crate::time::Timestamp;

/// An image that Argus built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuiltImage {
    /// The engine's id.
    pub id: String,
    /// The tag that it was built under, which is on its newest build now.
    pub built_as: String,
    /// The names that it has.
    pub tags: Vec<String>,
    /// When it was built.
    pub created_at: Timestamp,
    /// A container was made from it, or another image is built on it.
    pub used: bool,
    /// The steps of its build with the bytes of each, by image id: shared with other builds that begin alike.
    pub steps: BTreeMap<String, u64>,
}

impl BuiltImage {
    /// It is of this program, for mocks: each program has a tag of its own, which no newer one takes.
    fn is_own(&self) -> bool {
        let tag = self.built_as.strip_prefix(OWN_IMAGE);
        tag.is_some_and(|tag| tag.starts_with(':'))
    }

    /// What newer builds follow it under.
    fn line(&self) -> &str {
        if self.is_own() { OWN_IMAGE } else { &self.built_as }
    }

    /// Somebody gave it a name: one that it has still, or that we did not give it.
    fn is_named(&self) -> bool {
        let by_us = |tag: &String| self.is_own() && *tag == self.built_as;
        self.tags.iter().any(|tag| !by_us(tag))
    }
}

/// The images that can go: no container and no image needs them, nobody gave them a name of their own, no file wants them
/// and there is a newer build of the same tag, or of this program. `wanted` holds references and ids.
pub fn dead<'a>(images: &'a [BuiltImage], wanted: &BTreeSet<String>) -> Vec<&'a BuiltImage> {
    let mut newest: BTreeMap<&str, (Timestamp, &str)> = BTreeMap::new();
    for image in images {
        let this = (image.created_at, image.id.as_str());
        let known = newest.entry(image.line()).or_insert(this);
        *known = this.max(*known);
    }
    let is_dead = |image: &&BuiltImage| {
        let is_wanted = wanted.contains(&image.id) || image.tags.iter().any(|tag| wanted.contains(tag));
        let is_newest = newest.get(image.line()).is_some_and(|(_, id)| *id == image.id);
        !image.built_as.is_empty() && !image.used && !image.is_named() && !is_wanted && !is_newest
    };
    images.iter().filter(is_dead).collect()
}

/// What their removal frees: the steps that no other build of ours shares.
pub fn bytes(images: &[BuiltImage], dead: &[&BuiltImage]) -> u64 {
    let is_dead = |image: &BuiltImage| dead.iter().any(|dead| dead.id == image.id);
    let kept: BTreeSet<&String> = images
        .iter()
        .filter(|image| !is_dead(image))
        .flat_map(|image| image.steps.keys())
        .collect();
    let freed: BTreeMap<&String, u64> = dead
        .iter()
        .flat_map(|image| &image.steps)
        .filter(|(id, _)| !kept.contains(id))
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
            steps: [(id.to_owned(), 10), ("common".to_owned(), 100)].into(),
        }
    }

    fn ids(images: &[BuiltImage], wanted: &[&str]) -> Vec<String> {
        let wanted = wanted.iter().map(|one| (*one).to_owned()).collect();
        dead(images, &wanted)
            .iter()
            .map(|image| image.id.clone())
            .collect()
    }

    #[test]
    fn what_a_newer_build_followed_and_nobody_needs_is_dead() {
        assert_eq!(
            ids(&[image("a", 1), image("b", 2), image("c", 3)], &[]),
            ["a", "b"]
        );
    }

    #[test]
    fn the_newest_build_stays_even_where_no_file_wants_it() {
        assert!(ids(&[image("a", 1)], &[]).is_empty());
        let mut other = image("b", 2);
        other.built_as = "other:argus".to_owned();
        assert!(ids(&[image("a", 1), other], &[]).is_empty());
        assert_eq!(
            ids(&[image("a", 1), image("b", 1)], &[]).len(),
            1,
            "one of two of the same second stays"
        );
    }

    #[test]
    fn what_is_used_wanted_or_has_a_name_stays() {
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
    fn an_older_image_of_this_program_goes_with_its_tag_and_the_newest_stays() {
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
        assert_eq!(ids(&alike, &[]), ["b"], "another's name that begins alike");
    }

    #[test]
    fn a_step_that_is_shared_with_a_build_that_stays_frees_nothing() {
        let all = [image("a", 1), image("b", 2), image("c", 3)];
        let dead = dead(&all, &BTreeSet::new());
        assert_eq!(bytes(&all, &dead), 20);
        let mut apart = all.clone();
        apart[2].steps.remove("common");
        let dead: Vec<&BuiltImage> = apart[..2].iter().collect();
        assert_eq!(
            bytes(&apart, &dead),
            120,
            "what only the dead share is counted once"
        );
    }
}
