//! Which manifests and tags of one repository are deleted, from what it holds.
//!
//! A manifest is deleted only if nothing that stays leads to it: no tag, no index, no image that it
//! is attached to. Otherwise at most the tag goes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use oci::{Digest, Tag};

/// Suffixes of the tags under which cosign stores what belongs to an image.
const ATTACHMENT_SUFFIXES: [&str; 3] = ["sig", "att", "sbom"];
/// Tags that are named as the reason why a manifest stays.
const NAMED_TAGS: usize = 3;

/// What a repository holds, as far as tags and records lead to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryState {
    /// All tags.
    pub tags: BTreeMap<Tag, Digest>,
    /// The manifests that an index lists.
    pub children: BTreeMap<Digest, BTreeSet<Digest>>,
    /// The referrers of a manifest: signatures and others without a tag of their own.
    pub referrers: BTreeMap<Digest, BTreeSet<Digest>>,
}

/// What is done, in order: each index before its children, each image before its attachments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryPlan {
    pub steps: Vec<Step>,
    /// Tags that name another manifest than expected; they stay.
    pub changed: Vec<ChangedTag>,
    /// Requested tags that do not exist.
    pub gone: Vec<Tag>,
    /// Requested attachments whose image stays.
    pub attached_to_kept: Vec<Tag>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Deletes a tag alone: its manifest stays, because `kept_by` leads to it.
    Tag { tag: Tag, digest: Digest, kept_by: Vec<Tag> },
    /// Deletes a manifest, and with it all its tags. Without a tag it is a child of an index or an
    /// attachment, or what an interrupted deletion left behind.
    Manifest { digest: Digest, tags: BTreeSet<Tag> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedTag {
    pub tag: Tag,
    pub expected: Digest,
    pub found: Digest,
}

/// The manifest that a tag is an attachment of: cosign's `sha256-<hex>.sig`, or the fallback tag
/// `sha256-<hex>` of a list of referrers. An image that is stored under its own digest has a tag
/// of the second form, too, and is not an attachment.
pub fn subject_of_tag(tag: &Tag, digest: &Digest) -> Option<Digest> {
    let hex = tag.as_str().strip_prefix("sha256-")?;
    let hex = match hex.split_once('.') {
        Some((hex, suffix)) if ATTACHMENT_SUFFIXES.contains(&suffix) => hex,
        Some(_) => return None,
        None => hex,
    };
    Digest::from_hex(hex).ok().filter(|subject| subject != digest)
}

/// Plans the deletion of `requested` tags, each with the digest it is expected to have, where that
/// is known. `unfinished` are manifests that an earlier deletion did not reach.
///
/// # Guarantees
/// No step deletes a manifest that a tag leads to which is not deleted: directly, through an index,
/// or as an attachment. Tags that are deleted alone come before all manifests.
pub fn plan_repository(
    state: &RepositoryState,
    requested: &BTreeMap<Tag, Option<Digest>>,
    unfinished: &BTreeSet<Digest>,
) -> RepositoryPlan {
    let mut plan = RepositoryPlan::default();
    let mut going: BTreeMap<&Tag, Digest> = BTreeMap::new();
    let mut roots: BTreeSet<Digest> = unfinished.clone();
    for (tag, expected) in requested {
        match (state.tags.get(tag), *expected) {
            (None, expected) => {
                plan.gone.push(tag.clone());
                // An interrupted deletion may have left the rest of the image.
                roots.extend(expected);
            }
            (Some(found), Some(expected)) if *found != expected => {
                let (tag, found) = (tag.clone(), *found);
                plan.changed.push(ChangedTag { tag, expected, found });
            }
            (Some(found), _) => {
                going.insert(tag, *found);
                roots.insert(*found);
            }
        }
    }
    let candidates = state.with_attachments(roots);
    let kept = state.kept(&going, &candidates);
    for (tag, digest) in &going {
        if subject_of_tag(tag, digest).is_some_and(|subject| kept.all.contains(&subject)) {
            plan.attached_to_kept.push((*tag).clone());
        }
    }
    going.retain(|tag, _| !plan.attached_to_kept.contains(tag));
    // Attachments go with their image, requested or not.
    for (tag, digest) in &state.tags {
        let subject = subject_of_tag(tag, digest);
        if subject.is_some_and(|s| candidates.contains(&s) && !kept.all.contains(&s)) {
            going.insert(tag, *digest);
        }
    }
    for (tag, digest) in &going {
        if kept.all.contains(digest) {
            let kept_by = kept.names.get(digest).cloned().unwrap_or_default();
            plan.steps.push(Step::Tag { tag: (*tag).clone(), digest: *digest, kept_by });
        }
    }
    let doomed: BTreeSet<Digest> = candidates.difference(&kept.all).copied().collect();
    let mut tags_of: BTreeMap<Digest, BTreeSet<Tag>> = BTreeMap::new();
    for (tag, digest) in &going {
        tags_of.entry(*digest).or_default().insert((*tag).clone());
    }
    for digest in state.parents_first(&doomed) {
        let tags = tags_of.remove(&digest).unwrap_or_default();
        plan.steps.push(Step::Manifest { digest, tags });
    }
    plan
}

/// What stays.
struct Kept {
    all: BTreeSet<Digest>,
    /// Some of the tags that lead to each.
    names: BTreeMap<Digest, Vec<Tag>>,
}

impl RepositoryState {
    /// The manifests that tags which are not `requested` lead to.
    pub fn used_by_others(&self, requested: &BTreeMap<Tag, Option<Digest>>) -> BTreeSet<Digest> {
        let others = self.tags.iter().filter(|(tag, digest)| {
            !requested.contains_key(*tag) && subject_of_tag(tag, digest).is_none()
        });
        self.closure(others.map(|(_, digest)| *digest))
    }

    /// Everything below these manifests, them included.
    fn closure(&self, roots: impl IntoIterator<Item = Digest>) -> BTreeSet<Digest> {
        let mut found = BTreeSet::new();
        let mut open: Vec<Digest> = roots.into_iter().collect();
        while let Some(digest) = open.pop() {
            if found.insert(digest) {
                open.extend(self.children.get(&digest).into_iter().flatten());
            }
        }
        found
    }

    /// Everything below these manifests, and all that is attached to any of it.
    fn with_attachments(&self, roots: BTreeSet<Digest>) -> BTreeSet<Digest> {
        let attached = self.attached();
        let mut found = self.closure(roots);
        loop {
            let more = found.iter().filter_map(|digest| attached.get(digest)).flatten().copied();
            let more = self.closure(more);
            if more.is_subset(&found) {
                return found;
            }
            found.extend(more);
        }
    }

    /// What is attached to each manifest, with a tag or without.
    fn attached(&self) -> BTreeMap<Digest, BTreeSet<Digest>> {
        let mut attached = self.referrers.clone();
        for (tag, digest) in &self.tags {
            if let Some(subject) = subject_of_tag(tag, digest) {
                attached.entry(subject).or_default().insert(*digest);
            }
        }
        attached
    }

    fn kept(&self, going: &BTreeMap<&Tag, Digest>, candidates: &BTreeSet<Digest>) -> Kept {
        let mut names: BTreeMap<Digest, Vec<Tag>> = BTreeMap::new();
        let mut all = BTreeSet::new();
        for (tag, digest) in self.tags.iter().filter(|(tag, _)| !going.contains_key(tag)) {
            // Whether an attachment stays is up to its image, where that may go.
            if subject_of_tag(tag, digest).is_some_and(|subject| candidates.contains(&subject)) {
                continue;
            }
            for below in self.closure([*digest]) {
                let known = names.entry(below).or_default();
                if known.len() < NAMED_TAGS {
                    known.push(tag.clone());
                }
                all.insert(below);
            }
        }
        Kept { all: self.with_attachments(all), names }
    }

    /// `doomed` in an order in which no manifest comes before an index that lists it, or before
    /// what it is attached to.
    fn parents_first(&self, doomed: &BTreeSet<Digest>) -> Vec<Digest> {
        let attached = self.attached();
        let mut below: BTreeMap<Digest, BTreeSet<Digest>> = BTreeMap::new();
        for digest in doomed {
            let children = self.children.get(digest).into_iter().flatten();
            let lower = children.chain(attached.get(digest).into_iter().flatten());
            below.insert(*digest, lower.filter(|low| doomed.contains(low)).copied().collect());
        }
        let mut above: BTreeMap<Digest, usize> = doomed.iter().map(|d| (*d, 0)).collect();
        for lower in below.values().flatten() {
            *above.entry(*lower).or_default() += 1;
        }
        let mut ready: VecDeque<Digest> =
            above.iter().filter(|(_, count)| **count == 0).map(|(digest, _)| *digest).collect();
        let mut order = Vec::with_capacity(doomed.len());
        while let Some(digest) = ready.pop_front() {
            order.push(digest);
            for lower in &below[&digest] {
                if let Some(count) = above.get_mut(lower) {
                    *count -= 1;
                    if *count == 0 {
                        ready.push_back(*lower);
                    }
                }
            }
        }
        // Digests cannot form a circle; text that claims one is deleted in any order.
        if order.len() < doomed.len() {
            let seen: BTreeSet<Digest> = order.iter().copied().collect();
            order.extend(doomed.difference(&seen));
        }
        order
    }
}

#[cfg(test)]
mod tests;
