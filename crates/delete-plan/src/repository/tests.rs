//! Chosen cases, and random repositories: nothing that stays loses a manifest.

use proptest::prelude::*;

use super::*;

fn digest(seed: &str) -> Digest {
    Digest::of(seed.as_bytes())
}

fn tag(text: &str) -> Tag {
    text.parse().unwrap()
}

fn state(tags: &[(&str, &str)], children: &[(&str, &[&str])]) -> RepositoryState {
    let below = |names: &[&str]| names.iter().map(|name| digest(name)).collect();
    RepositoryState {
        tags: tags.iter().map(|(name, of)| (tag(name), digest(of))).collect(),
        children: children.iter().map(|(of, names)| (digest(of), below(names))).collect(),
        referrers: BTreeMap::new(),
    }
}

fn plan(state: &RepositoryState, tags: &[&str]) -> RepositoryPlan {
    let requested = tags.iter().map(|name| (tag(name), None)).collect();
    plan_repository(state, &requested, &BTreeSet::new())
}

fn manifests(plan: &RepositoryPlan) -> Vec<Digest> {
    let deleted = plan.steps.iter().filter_map(|step| match step {
        Step::Manifest { digest, .. } => Some(*digest),
        Step::Tag { .. } => None,
    });
    deleted.collect()
}

#[test]
fn a_manifest_that_another_tag_names_loses_only_its_tag() {
    let state = state(&[("4.16.1-api", "x"), ("4.16.2-api", "x"), ("4.16.1-web", "y")], &[]);
    let plan = plan(&state, &["4.16.1-api", "4.16.1-web"]);
    assert_eq!(
        plan.steps,
        [
            Step::Tag {
                tag: tag("4.16.1-api"),
                digest: digest("x"),
                kept_by: vec![tag("4.16.2-api")]
            },
            Step::Manifest { digest: digest("y"), tags: [tag("4.16.1-web")].into() },
        ]
    );
}

#[test]
fn a_digest_with_two_requested_tags_is_deleted_once() {
    let state = state(&[("a", "x"), ("b", "x")], &[]);
    let plan = plan(&state, &["a", "b"]);
    let tags = [tag("a"), tag("b")].into();
    assert_eq!(plan.steps, [Step::Manifest { digest: digest("x"), tags }]);
}

#[test]
fn an_index_is_deleted_before_its_children_and_a_child_of_another_index_stays() {
    let state = state(
        &[("one", "list1"), ("two", "list2"), ("arm", "arm64")],
        &[("list1", &["amd64", "arm64", "s390x"]), ("list2", &["amd64"])],
    );
    let plan = plan(&state, &["one"]);
    assert_eq!(manifests(&plan), [digest("list1"), digest("s390x")]);
}

#[test]
fn attachments_are_deleted_with_their_image_and_after_it() {
    let signature = format!("{}.sig", digest("x").as_tag_text());
    let of_kept = format!("{}.att", digest("y").as_tag_text());
    let fallback = digest("x").as_tag_text();
    let mut state = state(
        &[("a", "x"), ("b", "y"), (&signature, "sig"), (&of_kept, "att"), (&fallback, "list")],
        &[("list", &["sbom"])],
    );
    state.referrers.insert(digest("x"), [digest("referrer")].into());
    let plan = plan(&state, &["a"]);
    let deleted = manifests(&plan);
    let expected = ["list", "referrer", "sbom", "sig", "x"].map(digest);
    assert_eq!(BTreeSet::from_iter(deleted.iter().copied()), BTreeSet::from(expected));
    let at = |name: &str| deleted.iter().position(|found| *found == digest(name)).unwrap();
    assert_eq!(at("x"), 0);
    assert!(at("list") < at("sbom"));
}

#[test]
fn the_signature_of_an_image_that_stays_stays_even_on_request() {
    let signature = format!("{}.sig", digest("x").as_tag_text());
    let state = state(&[("a", "x"), ("b", "x"), (&signature, "sig")], &[]);
    let plan = plan(&state, &["a", &signature]);
    assert_eq!(plan.attached_to_kept, [tag(&signature)]);
    assert!(matches!(&plan.steps[..], [Step::Tag { .. }]), "{:?}", plan.steps);
}

#[test]
fn an_image_stored_under_its_own_digest_is_not_an_attachment() {
    let own = digest("x").as_tag_text();
    let state = state(&[(&own, "x")], &[]);
    assert_eq!(subject_of_tag(&tag(&own), &digest("x")), None);
    assert_eq!(manifests(&plan(&state, &[&own])), [digest("x")]);
}

#[test]
fn a_tag_that_changed_stays_with_all_that_it_names_now() {
    let state = state(&[("a", "new"), ("b", "x")], &[("new", &["x"])]);
    let requested = BTreeMap::from([(tag("a"), Some(digest("old"))), (tag("b"), None)]);
    let plan = plan_repository(&state, &requested, &BTreeSet::new());
    let changed = ChangedTag { tag: tag("a"), expected: digest("old"), found: digest("new") };
    assert_eq!(plan.changed, [changed]);
    // `b` names a child of what `a` names now.
    assert!(matches!(&plan.steps[..], [Step::Tag { .. }]), "{:?}", plan.steps);
}

#[test]
fn what_an_interrupted_deletion_left_is_deleted_by_the_next() {
    let state = state(&[("b", "y")], &[("list", &["x", "y"])]);
    let requested = BTreeMap::from([(tag("a"), Some(digest("list")))]);
    let plan = plan_repository(&state, &requested, &BTreeSet::new());
    assert_eq!(plan.gone, [tag("a")]);
    assert_eq!(manifests(&plan), [digest("list"), digest("x")]);
}

#[test]
fn manifests_that_a_deletion_did_not_reach_are_deleted_unless_something_uses_them_now() {
    let state = state(&[("b", "list")], &[("list", &["used"])]);
    let requested = BTreeMap::from([(tag("a"), None)]);
    let unfinished = [digest("used"), digest("left")].into();
    let plan = plan_repository(&state, &requested, &unfinished);
    assert_eq!(manifests(&plan), [digest("left")]);
}

#[test]
fn what_tags_of_others_lead_to_is_known_without_the_requested_tags() {
    let signature = format!("{}.sig", digest("x").as_tag_text());
    let state =
        state(&[("mine", "x"), ("theirs", "list"), (&signature, "sig")], &[("list", &["y"])]);
    let requested = BTreeMap::from([(tag("mine"), None)]);
    assert_eq!(state.used_by_others(&requested), [digest("list"), digest("y")].into());
}

/// A repository of a few manifests, most of them reached on several paths.
fn any_repository() -> impl Strategy<Value = (RepositoryState, BTreeMap<Tag, Option<Digest>>)> {
    let tags = prop::collection::vec((0..8_usize, 0..12_usize, any::<bool>()), 1..10);
    let edges = prop::collection::vec((0..12_usize, 0..12_usize), 0..14);
    let attached = prop::collection::vec((0..12_usize, 0..12_usize, any::<bool>()), 0..5);
    (tags, edges, attached, prop::collection::vec(0..12_usize, 0..2)).prop_map(
        |(tags, edges, attached, others)| {
            let node = |n: usize| digest(&n.to_string());
            let mut state = RepositoryState::default();
            let mut requested = BTreeMap::new();
            for (name, of, is_requested) in tags {
                let name = tag(&format!("t{name}"));
                state.tags.insert(name.clone(), node(of));
                if is_requested {
                    requested.insert(name, None);
                }
            }
            // A lower number lists a higher one, so that there is no cycle.
            for (one, other) in edges.into_iter().filter(|(one, other)| one < other) {
                state.children.entry(node(one)).or_default().insert(node(other));
            }
            for (subject, by, tagged) in attached.into_iter().filter(|(s, by, _)| s < by) {
                if tagged {
                    let name = format!("{}.sig", node(subject).as_tag_text());
                    state.tags.insert(tag(&name), node(by));
                } else {
                    state.referrers.entry(node(subject)).or_default().insert(node(by));
                }
            }
            for gone in others {
                requested.insert(tag(&format!("gone{gone}")), Some(node(gone)));
            }
            (state, requested)
        },
    )
}

proptest! {
    #[test]
    fn nothing_that_stays_loses_a_manifest((state, requested) in any_repository()) {
        let plan = plan_repository(&state, &requested, &BTreeSet::new());
        // A registry: deleting a manifest deletes its tags.
        let mut left = state.tags.clone();
        let mut deleted = BTreeSet::new();
        for step in &plan.steps {
            match step {
                Step::Tag { tag, .. } => {
                    left.remove(tag);
                }
                Step::Manifest { digest, .. } => {
                    prop_assert!(deleted.insert(*digest), "deleted twice");
                    left.retain(|_, named| named != digest);
                }
            }
        }
        // Every tag that was not requested and is not an attachment is still there.
        for (tag, digest) in &state.tags {
            if !requested.contains_key(tag) && subject_of_tag(tag, digest).is_none() {
                prop_assert_eq!(left.get(tag), Some(digest));
            }
        }
        // Whatever is still tagged is complete, with its attachments.
        let reachable = state.with_attachments(left.values().copied().collect());
        prop_assert!(reachable.is_disjoint(&deleted), "{:?}", plan.steps);
        // Indexes come before what they list.
        let order = manifests(&plan);
        for (at, digest) in order.iter().enumerate() {
            for child in state.children.get(digest).into_iter().flatten() {
                prop_assert!(!order[..at].contains(child));
            }
        }
        // A second run finds nothing more to do than what a registry reports as absent.
        let again = RepositoryState { tags: left, ..state };
        let again = plan_repository(&again, &requested, &BTreeSet::new());
        prop_assert!(manifests(&again).iter().all(|digest| deleted.contains(digest)));
    }
}
