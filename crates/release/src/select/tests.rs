use proptest::prelude::*;

use super::*;

fn graph(nodes: &[&str], edges: &[(usize, usize)]) -> Graph {
    let nodes: Vec<String> = nodes
        .iter()
        .map(|version| {
            let payload = format!("quay.io/openshift-release-dev/ocp-release:{version}");
            format!(r#"{{"version":"{version}","payload":"{payload}"}}"#)
        })
        .collect();
    let edges: Vec<String> = edges.iter().map(|(from, to)| format!("[{from},{to}]")).collect();
    let text = format!(r#"{{"nodes":[{}],"edges":[{}]}}"#, nodes.join(","), edges.join(","));
    Graph::parse(text.as_bytes()).unwrap()
}

/// The channels of upstream's own tests.
fn upstream() -> Graphs {
    let old = ["4.0.0-4", "4.0.0-5", "4.0.0-6", "4.0.0-0.okd-0", "4.0.0-7", "4.0.0-8"];
    let old_edges = [(0, 1), (1, 2), (2, 4), (2, 5), (4, 5)];
    let channels = [
        ("stable-4.0", graph(&old, &old_edges)),
        (
            "stable-4.1",
            graph(&[&old[..], &["4.1.0-6"]].concat(), &[&old_edges[..], &[(5, 6)]].concat()),
        ),
        (
            "stable-4.2",
            graph(&["4.1.0-6", "4.2.0-2", "4.2.0-3", "4.2.0-5"], &[(0, 2), (1, 2), (2, 3)]),
        ),
        ("stable-4.3", graph(&["4.3.0", "4.3.1"], &[(0, 1)])),
        ("fast-4.3", graph(&["4.2.0-5", "4.3.0", "4.3.1", "4.3.2"], &[(0, 1), (1, 2), (2, 3)])),
        ("empty-4.0", graph(&[], &[])),
    ];
    let mut graphs = Graphs::new();
    for (name, graph) in channels {
        graphs.insert(GraphKey::new(Distribution::Ocp, name, Architecture::Amd64), graph);
    }
    graphs
}

fn channel(name: &str, min: &str, max: &str) -> ReleaseChannel {
    let version = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
    ReleaseChannel {
        name: name.into(),
        distribution: Distribution::Ocp,
        min_version: version(min),
        max_version: version(max),
        shortest_path: false,
        full: false,
        at: EntryPosition::default(),
    }
}

fn shortest(name: &str, min: &str, max: &str) -> ReleaseChannel {
    ReleaseChannel { shortest_path: true, ..channel(name, min, max) }
}

fn of(channels: Vec<ReleaseChannel>) -> PlatformSection {
    PlatformSection { channels, ..PlatformSection::default() }
}

fn versions(selection: &Selection) -> Vec<String> {
    selection.releases.iter().map(|release| release.version.to_string()).collect()
}

fn selected(channels: Vec<ReleaseChannel>) -> Vec<String> {
    let selection = select(&of(channels), &upstream());
    assert!(selection.failures.is_empty(), "{:?}", selection.failures);
    versions(&selection)
}

fn failure(channels: Vec<ReleaseChannel>) -> String {
    let selection = select(&of(channels), &upstream());
    selection.failures.first().unwrap().error.to_string()
}

#[test]
fn a_channel_without_bounds_selects_its_newest_release() {
    assert_eq!(selected(vec![channel("stable-4.0", "", "")]), ["4.0.0-8"]);
}

#[test]
fn bounds_select_every_release_between_them_and_a_missing_one_is_filled_in() {
    assert_eq!(
        selected(vec![channel("stable-4.0", "4.0.0-5", "")]),
        ["4.0.0-5", "4.0.0-6", "4.0.0-7", "4.0.0-8"]
    );
    // From the channel's first release, which is of another kind here.
    assert_eq!(
        selected(vec![channel("stable-4.0", "", "4.0.0-5")]),
        ["4.0.0-0.okd-0", "4.0.0-4", "4.0.0-5"]
    );
    assert_eq!(selected(vec![channel("stable-4.0", "4.0.0-5", "4.0.0-6")]), ["4.0.0-5", "4.0.0-6"]);
    // The bounds need not be releases themselves.
    assert_eq!(selected(vec![channel("stable-4.1", "4.0.0", "4.1.0")]), ["4.1.0-6"]);
}

#[test]
fn full_selects_the_whole_graph_but_yields_to_two_bounds() {
    let full = |min, max| ReleaseChannel { full: true, ..channel("stable-4.2", min, max) };
    assert_eq!(selected(vec![full("", "")]), ["4.1.0-6", "4.2.0-2", "4.2.0-3", "4.2.0-5"]);
    assert_eq!(selected(vec![full("4.2.0-2", "4.2.0-3")]), ["4.2.0-2", "4.2.0-3"]);
}

#[test]
fn the_shortest_path_prefers_newer_releases() {
    assert_eq!(
        selected(vec![shortest("stable-4.0", "4.0.0-4", "4.0.0-8")]),
        ["4.0.0-4", "4.0.0-5", "4.0.0-6", "4.0.0-8"]
    );
    assert_eq!(
        selected(vec![shortest("stable-4.0", "4.0.0-4", "4.0.0-5")]),
        ["4.0.0-4", "4.0.0-5"]
    );
}

#[test]
fn without_a_path_both_ends_are_selected_and_a_note_reports_it() {
    let section = of(vec![shortest("stable-4.2", "4.1.0-6", "4.2.0-2")]);
    let selection = select(&section, &upstream());
    assert_eq!(versions(&selection), ["4.1.0-6", "4.2.0-2"]);
    let note = selection.notes.first().unwrap().to_string();
    assert_eq!(
        note,
        "channel stable-4.2: no updates lead from 4.1.0-6 to 4.2.0-2; only these two are selected"
    );
}

#[test]
fn the_path_across_two_minor_versions_stops_at_the_newest_of_each() {
    let channels = vec![
        channel("stable-4.0", "4.0.0-5", "4.0.0-5"),
        channel("stable-4.2", "4.2.0-3", "4.2.0-3"),
    ];
    assert_eq!(selected(channels.clone()), ["4.0.0-5", "4.0.0-6", "4.0.0-8", "4.1.0-6", "4.2.0-3"]);
    // The channel between was not requested, but is needed.
    let mut known = upstream();
    known.0.retain(|key, _| key.channel != "stable-4.1");
    let missing = needed(&of(channels), &known);
    let names: Vec<&str> = missing.iter().map(|key| key.channel.as_str()).collect();
    assert_eq!(names, ["stable-4.1"]);
}

#[test]
fn a_blocked_route_ends_with_a_note_and_the_requested_releases() {
    let section = of(vec![
        channel("stable-4.2", "4.2.0-3", "4.2.0-3"),
        channel("stable-4.3", "4.3.0", "4.3.0"),
    ]);
    let selection = select(&section, &upstream());
    assert_eq!(versions(&selection), ["4.2.0-3", "4.2.0-5", "4.3.0"]);
    assert!(selection.notes[0].to_string().contains("from 4.2.0-5 into channel stable-4.3"));
}

#[test]
fn channels_of_one_minor_version_share_a_path_in_the_target() {
    assert_eq!(
        selected(vec![
            channel("stable-4.3", "4.3.0", "4.3.0"),
            channel("fast-4.3", "4.3.1", "4.3.1")
        ]),
        ["4.3.0", "4.3.1"]
    );
    assert_eq!(
        selected(vec![
            channel("stable-4.1", "4.1.0-6", "4.1.0-6"),
            channel("stable-4.2", "4.2.0-2", "4.2.0-2")
        ]),
        ["4.1.0-6", "4.2.0-2"]
    );
}

#[test]
fn a_channel_that_is_missing_on_the_path_is_passed_over() {
    let mut graphs = Graphs::new();
    let mut put = |name: &str, graph| {
        graphs.insert(GraphKey::new(Distribution::Ocp, name, Architecture::Amd64), graph);
    };
    put("eus-4.14", graph(&["4.14.0", "4.14.9"], &[(0, 1)]));
    put("eus-4.15", graph(&[], &[]));
    put("eus-4.16", graph(&["4.14.9", "4.15.1", "4.16.2"], &[(0, 1), (1, 2)]));
    let section =
        of(vec![channel("eus-4.14", "4.14.0", "4.14.0"), channel("eus-4.16", "4.16.2", "4.16.2")]);
    assert!(needed(&section, &graphs).is_empty());
    let selection = select(&section, &graphs);
    assert_eq!(versions(&selection), ["4.14.0", "4.14.9", "4.15.1", "4.16.2"]);
    assert_eq!(selection.notes, [Note::Skipped { channel: "eus-4.15".into() }]);
}

#[test]
fn a_range_over_two_minor_versions_of_eus_gets_a_note() {
    let mut graphs = Graphs::new();
    let key = GraphKey::new(Distribution::Ocp, "eus-4.16", Architecture::Amd64);
    graphs.insert(key, graph(&["4.14.9", "4.15.1", "4.16.2"], &[(0, 1), (1, 2)]));
    let note = |min, max| select(&of(vec![channel("eus-4.16", min, max)]), &graphs).notes;
    assert!(matches!(note("4.14.9", "4.16.2")[..], [Note::ExtendedUpdate { .. }]));
    assert!(note("4.15.1", "4.16.2").is_empty());
}

#[test]
fn what_cannot_be_selected_is_reported_and_offers_the_nearest() {
    assert_eq!(
        failure(vec![shortest("stable-4.0", "4.0.0-3", "4.0.0-8")]),
        "channel stable-4.0 has no release 4.0.0-3; the nearest are 4.0.0-0.okd-0, 4.0.0-4 and 4.0.0-8"
    );
    assert_eq!(
        failure(vec![channel("stable-4.3", "4.3.7", "4.3.9")]),
        "channel stable-4.3 has no release from 4.3.7 to 4.3.9; the nearest is 4.3.1"
    );
    assert_eq!(
        failure(vec![channel("empty-4.0", "", "")]),
        "channel empty-4.0 has no releases for amd64"
    );
    assert_eq!(
        failure(vec![channel("stable-4.9", "", "")]),
        "there is no update graph of channel stable-4.9 for amd64"
    );
    assert_eq!(
        failure(vec![channel("stable-4.3", "4.9.0", "")]),
        "nothing is from 4.9.0 to 4.3.1, as the first is newer: lower minVersion or raise maxVersion"
    );
    let mut graphs = upstream();
    graphs.insert(
        GraphKey::new(Distribution::Ocp, "stabel-4.2", Architecture::Amd64),
        graph(&[], &[]),
    );
    let selection = select(&of(vec![channel("stabel-4.2", "", "")]), &graphs);
    assert_eq!(
        selection.failures[0].error.to_string(),
        "channel stabel-4.2 has no releases for amd64; did you mean stable-4.2?"
    );
}

#[test]
fn one_channel_that_fails_leaves_the_others() {
    let section = of(vec![channel("empty-4.0", "", ""), channel("stable-4.0", "", "")]);
    let selection = select(&section, &upstream());
    assert_eq!(versions(&selection), ["4.0.0-8"]);
    assert_eq!(selection.failures.len(), 1);
}

#[test]
fn every_architecture_is_requested_and_platforms_mean_multi() {
    let mut section = of(vec![channel("stable-4.0", "", "")]);
    let requested = |section: &PlatformSection| -> Vec<String> {
        needed(section, &Graphs::new()).iter().map(GraphKey::file_name).collect()
    };
    assert_eq!(requested(&section), ["amd64-stable-4.0.json"]);
    section.architectures = vec![Architecture::S390x, Architecture::Arm64, Architecture::S390x];
    assert_eq!(requested(&section), ["arm64-stable-4.0.json", "s390x-stable-4.0.json"]);
    section.architectures.clear();
    section.platforms = vec![oci::Platform::new("linux", "amd64")];
    assert_eq!(requested(&section), ["multi-stable-4.0.json"]);
    section.release = Some("quay.io/a/b:1".parse().unwrap());
    assert!(requested(&section).is_empty());
    assert!(select(&section, &upstream()).releases.is_empty());
}

#[test]
fn an_unavailable_graph_is_not_requested_again() {
    let section = of(vec![channel("stable-4.0", "", "")]);
    let mut graphs = Graphs::new();
    for key in needed(&section, &graphs) {
        graphs.give_up(key);
    }
    assert!(needed(&section, &graphs).is_empty());
    assert!(matches!(select(&section, &graphs).failures[0].error, SelectError::NoGraph { .. }));
}

#[test]
fn a_mistyped_minor_version_does_not_cause_a_thousand_requests() {
    let mut graphs = upstream();
    let far = GraphKey::new(Distribution::Ocp, "stable-4.99999", Architecture::Amd64);
    graphs.insert(far, graph(&["4.99999.0"], &[]));
    let section = of(vec![channel("stable-4.0", "", ""), channel("stable-4.99999", "", "")]);
    assert!(needed(&section, &graphs).is_empty());
    assert_eq!(versions(&select(&section, &graphs)), ["4.0.0-8", "4.99999.0"]);
}

/// Distances by a method of its own: relaxing every edge until nothing changes.
fn distance(edges: &[(usize, usize)], count: usize, from: usize, to: usize) -> Option<usize> {
    let mut best = vec![None; count];
    best[from] = Some(0);
    for _ in 0..count {
        for (a, b) in edges {
            if let Some(there) = best[*a] {
                best[*b] = Some(best[*b].unwrap_or(usize::MAX).min(there + 1));
            }
        }
    }
    best[to]
}

proptest! {
    #[test]
    fn a_shortest_path_is_a_path_and_there_is_none_shorter(
        edges in prop::collection::vec((0..12_usize, 0..12_usize), 0..40),
        from in 0..12_usize,
        to in 0..12_usize,
    ) {
        let names: Vec<String> = (0..12).map(|patch| format!("4.1.{patch}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let graph = graph(&names, &edges);
        let path = shortest_listed_path(&graph, from, to);
        prop_assert_eq!(path.as_ref().map(|path| path.len() - 1), distance(&edges, 12, from, to));
        if let Some(path) = path {
            prop_assert_eq!((path[0], path[path.len() - 1]), (from, to));
            for pair in path.windows(2) {
                prop_assert!(edges.contains(&(pair[0], pair[1])));
            }
        }
    }
}
