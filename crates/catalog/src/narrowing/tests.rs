use image_set::PackageVersion;

use super::*;
use crate::{Catalog, Files};

/// A catalog with one package `p` and its channel `c`. An entry is written
/// `name@version>replaced!skipped!skipped`.
fn catalog(entries: &str) -> String {
    let mut listed = Vec::new();
    let mut bundles = String::new();
    for entry in entries.split_whitespace() {
        let (head, skips) = entry.split_once('!').map_or((entry, None), |(h, s)| (h, Some(s)));
        let (head, replaces) = head.split_once('>').map_or((head, ""), |(h, r)| (h, r));
        let (name, version) = head.split_once('@').unwrap();
        let skips: Vec<&str> = skips.map(|skips| skips.split('!').collect()).unwrap_or_default();
        listed.push(format!(
            "{{\"name\":\"{name}\",\"replaces\":\"{replaces}\",\"skips\":{}}}",
            serde_json::to_string(&skips).unwrap()
        ));
        bundles.push_str(&format!(
            "{{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"{name}\",\"image\":\"q.io/x:1\",\
             \"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"p\",\"version\":\"{version}\"}}}}]}}\n"
        ));
    }
    format!(
        "{{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c\"}}\n\
         {{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\"entries\":[{}]}}\n{bundles}",
        listed.join(",")
    )
}

/// The names that stay, in the order of the channel.
fn kept(entries: &str, choose: impl Fn(&Package<'_>, &Channel<'_>) -> BTreeSet<usize>) -> String {
    let text = catalog(entries);
    let files = Files::read([("x", text.as_bytes())]).unwrap();
    let catalog = Catalog::load(&files).unwrap();
    let package = &catalog.packages["p"];
    assert_eq!(crate::flaws(package), [], "the catalog of the test is a good one");
    let channel = &package.channels["c"];
    let kept = choose(package, channel);
    assert!(kept.is_empty() || is_channel(channel, &kept), "what stays is not a channel: {kept:?}");
    let names: Vec<&str> = kept.iter().map(|index| &*channel.entries[*index].name).collect();
    names.join(" ")
}

fn wanted(entries: &str, want: ChannelSelection<'_>) -> String {
    kept(entries, |package, channel| narrow(package, channel, want).unwrap().entries)
}

fn range(entries: &str, min: &str, max: &str) -> String {
    let bound = |text: &str| (!text.is_empty()).then(|| PackageVersion::parse(text).unwrap());
    let (min, max) = (bound(min), bound(max));
    wanted(entries, ChannelSelection::Range(VersionRange { min: min.as_ref(), max: max.as_ref() }))
}

const CHAIN: &str = "a@1.0.0 b@1.1.0>a c@1.2.0>b d@2.0.0>c";
/// As the channel `beta` of the package `foo` that upstream tests with.
const FOO: &str = "v1@0.1.0 v2@0.2.0>v1!v11!v12 v3@0.3.0>v2 v31@0.3.1>v2!v3";

#[test]
fn without_a_selection_the_head_stays() {
    assert_eq!(wanted(CHAIN, ChannelSelection::Head), "d");
    assert_eq!(wanted(FOO, ChannelSelection::Head), "v31");
    assert_eq!(wanted(CHAIN, ChannelSelection::All), "a b c d");
}

#[test]
fn a_range_keeps_what_is_in_it_and_the_skipped_ones_too() {
    for (entries, min, max, wanted) in [
        (FOO, "0.2.0", "0.3.1", "v2 v3 v31"),
        (FOO, "0.3.1", "0.3.1", "v31"),
        (FOO, "", "0.2.0", "v1 v2"),
        (FOO, "0.3.0", "", "v3 v31"),
        (CHAIN, "1.1.0", "1.2.0", "b c"),
        (CHAIN, "1.1.0", "", "b c d"),
        (CHAIN, "3.0.0", "", ""),
        // Only a skipped entry is in range: the one that skips it is needed.
        (FOO, "0.2.1", "0.3.0", "v3 v31"),
    ] {
        assert_eq!(range(entries, min, max), wanted, "{entries}: {min}..{max}");
    }
}

#[test]
fn entries_out_of_range_stay_where_they_connect_others() {
    // b is out of range, and between two that are in it.
    assert_eq!(range("a@1.0.0 b@9.0.0>a c@1.2.0>b", "1.0.0", "1.2.0"), "a b c");
}

#[test]
fn a_head_stays_where_its_skips_hold_the_rest_together() {
    // x skips y, so OLM does not search beyond x; only z, which skips w, makes w reachable.
    let entries = "w@1.0.0 y@2.0.0>w x@3.0.0>y!y z@4.0.0>x!w";
    assert_eq!(range(entries, "1.0.0", "3.0.0"), "w y x z");
}

#[test]
fn previous_versions_are_counted_by_version() {
    assert_eq!(wanted(CHAIN, ChannelSelection::Previous(0)), "d");
    assert_eq!(wanted(CHAIN, ChannelSelection::Previous(2)), "b c d");
    assert_eq!(wanted(CHAIN, ChannelSelection::Previous(usize::MAX)), "a b c d");
    // All before the head are skipped, none replaced.
    let skipping = "a@1.0.0 b@2.0.0 c@3.0.0!a!b";
    assert_eq!(wanted(skipping, ChannelSelection::Previous(1)), "b c");
}

#[test]
fn a_version_that_several_bundles_have_is_resolved_identically_every_time() {
    let entries = "a@0.18.0 b@0.18.1>a c@0.18.1+0.1675929565.p>b d@0.18.1+0.1675929566.p>c";
    assert_eq!(range(entries, "0.18.1", "0.18.1"), "b");
    assert_eq!(range(entries, "0.18.1+0.1675929565.p", "0.18.1+0.1675929565.p"), "c");
    assert_eq!(range(entries, "0.18.1+9", "0.18.1+9"), "d");
    // In a range they are all the same version.
    assert_eq!(range(entries, "", "0.18.1"), "a b c d");
}

#[test]
fn what_cannot_be_used_takes_along_what_only_it_led_to() {
    let left = |entries: &str, lost: &[&str]| {
        let lost: BTreeSet<&str> = lost.iter().copied().collect();
        kept(entries, |_, channel| without(channel, &(0..channel.entries.len()).collect(), &lost))
    };
    assert_eq!(left(CHAIN, &[]), "a b c d");
    assert_eq!(left(CHAIN, &["d"]), "a b c");
    assert_eq!(left(CHAIN, &["b"]), "c d");
    assert_eq!(left(CHAIN, &["a", "b", "c", "d"]), "");
    assert_eq!(left(FOO, &["v3"]), "v1 v2 v31");
    assert_eq!(left(FOO, &["v31"]), "v1 v2");
    assert_eq!(left("a@1.0.0 b@2.0.0 c@3.0.0!a!b", &["b"]), "a c");
}
