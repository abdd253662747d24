use serde_json::{Value, json};

use super::*;

/// An update graph: releases in channels, plain updates, and updates with a risk.
fn graph(
    channel: &str,
    versions: &[&str],
    updates: &[(&str, &str)],
    risky: &[(&str, &str)],
) -> Graph {
    let node = |version: &&str| -> Value {
        let digest = format!("{:0>64}", version.replace('.', ""));
        json!({
            "version": version,
            "payload": format!("quay.io/ocp/release@sha256:{digest}"),
            "metadata": { "io.openshift.upgrades.graph.release.channels": channel },
        })
    };
    let place = |expected: &str| versions.iter().position(|version| *version == expected).unwrap();
    let risk = json!({ "name": "SlowDisks", "message": "m", "url": "https://x", "matchingRules": [{"type": "Always"}] });
    let conditional: Vec<Value> = risky
        .iter()
        .map(|(from, to)| json!({ "edges": [{ "from": from, "to": to }], "risks": [risk] }))
        .collect();
    let response = json!({
        "nodes": versions.iter().map(node).collect::<Vec<_>>(),
        "edges": updates.iter().map(|(from, to)| [place(from), place(to)]).collect::<Vec<_>>(),
        "conditionalEdges": conditional,
    });
    Graph::parse(response.to_string().as_bytes()).unwrap()
}

fn graphs(list: Vec<(&str, Graph)>) -> BTreeMap<String, Graph> {
    list.into_iter().map(|(name, graph)| (name.to_owned(), graph)).collect()
}

fn request(from: &str, to: Option<&str>, channel: &str) -> ReleaseRequest {
    ReleaseRequest {
        from: from.parse().unwrap(),
        to: to.map(|to| to.parse().unwrap()),
        channel: channel.to_owned(),
        channel_is_set: true,
    }
}

fn summary(releases: &Releases) -> Vec<String> {
    let show = |draft: &ChannelDraft| match &draft.bounds {
        Some((min, max)) => {
            format!("{} {min}..{max}{}", draft.name, if draft.shortest_path { "" } else { " all" })
        }
        None => draft.name.clone(),
    };
    releases.channels.iter().map(show).collect()
}

fn text(versions: &[Version]) -> Vec<String> {
    versions.iter().map(ToString::to_string).collect()
}

fn stable_16() -> Graph {
    graph(
        "stable-4.16",
        &["4.16.3", "4.16.5", "4.16.9", "4.16.12"],
        &[("4.16.3", "4.16.5"), ("4.16.5", "4.16.9")],
        &[("4.16.9", "4.16.12")],
    )
}

fn stable_17() -> Graph {
    graph("stable-4.17", &["4.16.9", "4.17.2"], &[("4.16.9", "4.17.2")], &[])
}

fn stable_18() -> Graph {
    graph("stable-4.18", &["4.17.2", "4.18.1"], &[("4.17.2", "4.18.1")], &[])
}

#[test]
fn the_target_is_the_newest_release_that_the_channel_leads_to_without_risks() {
    let graphs = graphs(vec![("stable-4.16", stable_16())]);
    let releases = request("4.16.3", None, "stable-4.16").decide(&graphs).unwrap();
    assert_eq!(summary(&releases), ["stable-4.16 4.16.3..4.16.9"]);
    assert_eq!(text(&releases.release_path), ["4.16.3", "4.16.5", "4.16.9"]);
    let reasons = releases.reasons.join("\n");
    assert!(reasons.contains("4.16.12 is newer") && reasons.contains("SlowDisks"), "{reasons}");
    assert_eq!(releases.undecided, [] as [String; 0]);
}

#[test]
fn a_cluster_at_the_head_of_its_channel_keeps_its_release() {
    let graphs = graphs(vec![("stable-4.17", stable_17())]);
    let releases = request("4.17.2", None, "stable-4.17").decide(&graphs).unwrap();
    assert_eq!(summary(&releases), ["stable-4.17 4.17.2..4.17.2"]);
}

#[test]
fn a_release_that_the_channel_does_not_have_is_left_to_a_person() {
    let graphs = graphs(vec![("stable-4.16", stable_16())]);
    let releases = request("4.16.4", None, "stable-4.16").decide(&graphs).unwrap();
    assert_eq!(summary(&releases), ["stable-4.16"]);
    assert_eq!(releases.target, None);
    assert!(releases.undecided[0].contains("does not have the cluster's release 4.16.4"));
}

#[test]
fn a_path_over_minor_versions_leads_from_channel_to_channel() {
    let graphs = graphs(vec![
        ("stable-4.16", stable_16()),
        ("stable-4.17", stable_17()),
        ("stable-4.18", stable_18()),
    ]);
    let request = request("4.16.3", Some("4.18.1"), "stable-4.16");
    assert_eq!(request.channels(), ["stable-4.16", "stable-4.17", "stable-4.18", "eus-4.18"]);
    let releases = request.decide(&graphs).unwrap();
    assert_eq!(
        summary(&releases),
        ["stable-4.16 4.16.3..4.16.9", "stable-4.17 4.16.9..4.17.2", "stable-4.18 4.17.2..4.18.1"]
    );
    assert_eq!(text(&releases.release_path), ["4.16.3", "4.16.5", "4.16.9", "4.17.2", "4.18.1"]);
}

#[test]
fn one_channel_that_has_the_whole_path_is_enough() {
    let eus = graph(
        "eus-4.18",
        &["4.16.3", "4.17.2", "4.18.1"],
        &[("4.16.3", "4.17.2"), ("4.17.2", "4.18.1")],
        &[],
    );
    let graphs = graphs(vec![("stable-4.16", stable_16()), ("eus-4.18", eus)]);
    let releases = request("4.16.3", Some("4.18.1"), "stable-4.16").decide(&graphs).unwrap();
    assert_eq!(summary(&releases), ["eus-4.18 4.16.3..4.18.1"]);
    assert!(releases.reasons[1].contains("oc adm upgrade channel"), "{:?}", releases.reasons);
}

#[test]
fn a_path_with_risks_is_selected_when_requested_with_all_its_releases() {
    let graphs = graphs(vec![("stable-4.16", stable_16())]);
    let releases = request("4.16.3", Some("4.16.12"), "stable-4.16").decide(&graphs).unwrap();
    assert_eq!(summary(&releases), ["stable-4.16 4.16.3..4.16.12 all"]);
    assert!(releases.reasons.iter().any(|reason| reason.contains("SlowDisks")));
    let releases = request("4.16.9", Some("4.16.12"), "stable-4.16").decide(&graphs).unwrap();
    assert_eq!(summary(&releases), ["stable-4.16 4.16.9..4.16.12"]);
}

#[test]
fn a_target_that_cannot_be_reached_is_an_error() {
    let graphs = graphs(vec![("stable-4.16", stable_16()), ("stable-4.17", stable_17())]);
    let fails = |from: &str, to: &str| {
        request(from, Some(to), "stable-4.16").decide(&graphs).unwrap_err().to_string()
    };
    assert!(fails("4.16.3", "4.16.4").contains("no release 4.16.4"));
    assert!(fails("4.16.9", "4.16.3").contains("older release"));
    assert!(fails("4.16.12", "4.17.2").contains("no updates lead from 4.16.12 to 4.17.2"));
}

#[test]
fn a_cluster_without_a_channel_gets_the_default_one_with_a_note() {
    let cluster = Cluster { version: Some("4.16.3".parse().unwrap()), ..Cluster::default() };
    let request = ReleaseRequest::of(&cluster, None, None).unwrap();
    assert_eq!(request.channel, "stable-4.16");
    let releases = request.decide(&graphs(vec![("stable-4.16", stable_16())])).unwrap();
    assert!(releases.undecided[0].contains("is in no channel"), "{:?}", releases.undecided);
}
