use proptest::prelude::*;

use super::*;

/// `edges` are plain, `risky` ones have the risk that is named.
fn graph(nodes: &[&str], edges: &[(usize, usize)], risky: &[(usize, usize, &str)]) -> Graph {
    let listed: Vec<String> = nodes
        .iter()
        .map(|version| {
            let minor = version.rsplit_once('.').unwrap().0;
            format!(
                r#"{{"version":"{version}","payload":"quay.io/a/b:{version}","metadata":{{"io.openshift.upgrades.graph.release.channels":"stable-{minor},fast-4.16"}}}}"#
            )
        })
        .collect();
    let edges: Vec<String> = edges.iter().map(|(from, to)| format!("[{from},{to}]")).collect();
    let risky: Vec<String> = risky
        .iter()
        .map(|(from, to, name)| {
            format!(
                r#"{{"edges":[{{"from":"{}","to":"{}"}}],"risks":[{{"name":"{name}","message":"It\nmay break.","url":"https://x.example/{name}"}}]}}"#,
                nodes[*from], nodes[*to]
            )
        })
        .collect();
    let text = format!(
        r#"{{"nodes":[{}],"edges":[{}],"conditionalEdges":[{}]}}"#,
        listed.join(","),
        edges.join(","),
        risky.join(",")
    );
    Graph::parse(text.as_bytes()).unwrap()
}

const NODES: [&str; 5] = ["4.14.1", "4.14.9", "4.15.2", "4.15.8", "4.16.3"];

fn sample() -> Graph {
    graph(&NODES, &[(0, 1), (1, 2), (2, 3), (3, 4)], &[(0, 3, "SlowDisks"), (1, 3, "SlowDisks")])
}

fn paths_of(graph: &Graph, from: &str, to: &str) -> Result<UpgradePaths, PathError> {
    let version = |text: &str| text.parse().unwrap();
    let query = match (from, to) {
        (from, "") => PathQuery::From(version(from)),
        ("", to) => PathQuery::To(version(to)),
        (from, to) => PathQuery::Between { from: version(from), to: version(to) },
    };
    find_paths(graph, &query)
}

fn stops(route: &Route) -> Vec<String> {
    let first = route.hops.first().unwrap().from.to_string();
    std::iter::once(first).chain(route.hops.iter().map(|hop| hop.to.to_string())).collect()
}

#[test]
fn the_path_without_risks_comes_first_and_a_shorter_risky_one_second() {
    let paths = paths_of(&sample(), "4.14.1", "4.16.3").unwrap();
    let [fine, short] = &paths.routes[..] else { panic!("{paths:?}") };
    assert_eq!(stops(fine), NODES);
    assert!(fine.without_risks && fine.hops.iter().all(|hop| hop.risks.is_empty()));
    assert_eq!(stops(short), ["4.14.1", "4.15.8", "4.16.3"]);
    assert_eq!(short.hops[0].risks, ["SlowDisks"]);
    assert_eq!(paths.risks.len(), 1);
    assert!(paths.advice[0].starts_with(
        "EUS to EUS: the control plane goes through every minor version from 4.14 to 4.16."
    ));
}

#[test]
fn only_risky_paths_are_reported_as_such() {
    let graph = graph(&["4.15.2", "4.15.8"], &[(0, 1)], &[(0, 1, "R")]);
    let paths = paths_of(&graph, "4.15.2", "4.15.8").unwrap();
    assert_eq!(paths.routes.len(), 1);
    assert!(!paths.routes[0].without_risks);
    assert!(paths.advice[0].starts_with("Every path has known risks."));
}

#[test]
fn of_paths_with_the_same_hops_the_one_with_fewer_risks_is_taken() {
    let nodes = ["4.15.0", "4.15.1", "4.15.2", "4.15.9"];
    let edges = [(0, 1), (1, 3)];
    let graph = graph(&nodes, &edges, &[(0, 2, "A"), (2, 3, "B")]);
    let paths = paths_of(&graph, "4.15.0", "4.15.9").unwrap();
    assert_eq!(paths.routes.len(), 1);
    assert_eq!(stops(&paths.routes[0]), ["4.15.0", "4.15.1", "4.15.9"]);
}

#[test]
fn everything_that_can_be_reached_is_listed_with_the_head_marked() {
    let paths = paths_of(&sample(), "4.14.9", "").unwrap();
    let listed: Vec<(String, usize, String, bool)> = paths
        .releases
        .iter()
        .map(|release| {
            (release.version.to_string(), release.hops, release.via.to_string(), release.head)
        })
        .collect();
    // A hop more, and no risk.
    let expected = [
        ("4.15.2", 1, "4.14.9", false),
        ("4.15.8", 2, "4.15.2", false),
        ("4.16.3", 3, "4.15.8", true),
    ];
    assert_eq!(listed, expected.map(|(v, hops, via, head)| (v.into(), hops, via.into(), head)));
    assert!(paths.risks.is_empty());

    let unavoidable = graph(&["4.15.2", "4.15.8", "4.15.9"], &[(1, 2)], &[(0, 1, "R")]);
    let paths = paths_of(&unavoidable, "4.15.2", "").unwrap();
    assert_eq!(paths.releases[1].risks, ["R"]);
    assert_eq!(paths.risks[0].name, "R");
}

#[test]
fn every_release_that_leads_somewhere_is_listed() {
    let paths = paths_of(&sample(), "", "4.15.8").unwrap();
    let listed: Vec<(String, usize, String)> = paths
        .releases
        .iter()
        .map(|release| (release.version.to_string(), release.hops, release.via.to_string()))
        .collect();
    let expected = [("4.15.2", 1, "4.15.8"), ("4.14.9", 2, "4.15.2"), ("4.14.1", 3, "4.14.9")];
    assert_eq!(listed, expected.map(|(version, hops, via)| (version.into(), hops, via.into())));
    assert!(paths.releases.iter().all(|release| !release.head));
}

#[test]
fn a_missing_path_has_a_reason() {
    let graph = sample();
    for (from, to, expected) in [
        (
            "4.14.2",
            "4.16.3",
            "there is no release 4.14.2 among those known; the nearest are 4.14.1, 4.14.9 and 4.16.3",
        ),
        (
            "4.16.3",
            "4.14.1",
            "4.16.3 is newer than 4.14.1: clusters cannot be updated to an older release",
        ),
    ] {
        assert_eq!(paths_of(&graph, from, to).unwrap_err().to_string(), expected);
    }
    let cut = graph_without_last();
    assert_eq!(
        paths_of(&cut, "4.14.1", "4.16.3").unwrap_err().to_string(),
        "no updates lead from 4.14.1 to 4.16.3; the newest release that can be reached is 4.15.8"
    );
    assert_eq!(
        paths_of(&cut, "4.15.8", "4.16.3").unwrap_err().to_string(),
        "no updates lead from 4.15.8 to 4.16.3; no update leads on from it"
    );
}

fn graph_without_last() -> Graph {
    graph(&NODES, &[(0, 1), (1, 2), (2, 3)], &[])
}

#[test]
fn the_table_names_hops_channels_and_risks() {
    let text = paths_of(&sample(), "4.14.9", "4.15.8").unwrap().table();
    let expected = "\
2 hops, no known risks
HOP  FROM    TO      CHANNELS               RISKS
1    4.14.9  4.15.2  fast-4.16
2    4.15.2  4.15.8  stable-4.15,fast-4.16

1 hop, with known risks
HOP  FROM    TO      CHANNELS   RISKS
1    4.14.9  4.15.8  fast-4.16  SlowDisks

RISKS
  SlowDisks: It may break.
    https://x.example/SlowDisks
";
    assert!(text.starts_with(expected), "{text}");
    let same = paths_of(&sample(), "4.14.9", "4.14.9").unwrap().table();
    assert_eq!(same, "Nothing to do: both are the same release.\n");
    let reach = paths_of(&sample(), "4.15.2", "").unwrap().table();
    assert!(reach.contains("2     4.16.3 (head)  4.15.8"), "{reach}");
    let nothing = paths_of(&sample(), "4.16.3", "").unwrap().table();
    assert_eq!(nothing, "No updates lead on from 4.16.3.\n");
}

#[test]
fn hops_between_eus_releases_are_marked_and_others_are_not() {
    let nodes = ["4.14.1", "4.14.9", "4.15.2", "4.15.8", "4.16.3", "4.17.1", "4.18.2", "4.19.1"];
    let all: Vec<(usize, usize)> = (0..7).map(|at| (at, at + 1)).collect();
    let graph = graph(&nodes, &all, &[]);
    let marks = |from: &str, to: &str| -> Vec<String> {
        let paths = paths_of(&graph, from, to).unwrap();
        let hops = paths.routes[0].hops.iter();
        hops.map(|hop| hop.extended.as_ref().map(ToString::to_string).unwrap_or_default()).collect()
    };
    let (first, second) = ("EUS 4.14 to 4.16", "EUS 4.16 to 4.18");
    assert_eq!(marks("4.14.1", "4.19.1"), ["", first, first, first, second, second, ""]);
    // Not as far as the next EUS release, or not from one.
    assert_eq!(marks("4.14.9", "4.15.8"), ["", ""]);
    assert_eq!(marks("4.15.2", "4.16.3"), ["", ""]);
    let paths = paths_of(&graph, "4.14.9", "4.16.3").unwrap();
    let table = paths.table();
    assert!(table.contains("CHANNELS               EUS           RISKS"), "{table}");
    assert!(
        table.contains("1    4.14.9  4.15.2  fast-4.16              4.14 to 4.16\n"),
        "{table}"
    );
    assert_eq!(paths.drawing().svg().matches("EUS 4.14 to 4.16").count(), 3);
    let json = serde_json::to_value(&paths).unwrap();
    assert_eq!(
        json["routes"][0]["hops"][2]["eus"],
        serde_json::json!({"from": "4.14", "to": "4.16"})
    );
    let lanes = paths_of(&graph, "4.14.1", "").unwrap().drawing().lanes;
    assert_eq!(lanes, ["4.19", "4.18 EUS", "4.17", "4.16 EUS", "4.15", "4.14 EUS"]);
}

#[test]
fn json_and_yaml_agree() {
    let paths = paths_of(&sample(), "4.14.1", "4.16.3").unwrap();
    let json: serde_json::Value = serde_json::to_value(&paths).unwrap();
    let yaml = serde_saphyr::to_string(&paths).unwrap();
    let yaml: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(json, yaml);
    assert_eq!(json["schema"], 1);
    assert_eq!(json["routes"][1]["hops"][0]["risks"][0], "SlowDisks");
    assert_eq!(json["risks"][0]["url"], "https://x.example/SlowDisks");
}

#[test]
fn pictures_have_every_release_and_are_the_same_every_time() {
    for (from, to) in [("4.14.1", "4.16.3"), ("4.14.1", ""), ("", "4.16.3")] {
        let drawing = paths_of(&sample(), from, to).unwrap().drawing();
        let again = paths_of(&sample(), from, to).unwrap().drawing();
        for (text, same) in [
            (drawing.svg(), again.svg()),
            (drawing.dot(), again.dot()),
            (drawing.mermaid(), again.mermaid()),
        ] {
            assert_eq!(text, same);
            for version in NODES {
                assert!(text.contains(version), "{version}: {text}");
            }
        }
    }
}

proptest! {
    #[test]
    fn every_path_consists_of_updates_and_reachability_is_the_same_in_both_directions(
        plain in prop::collection::vec((0..9_usize, 1..9_usize), 0..25),
        risky in prop::collection::vec((0..9_usize, 1..9_usize), 0..10),
    ) {
        // Updates lead to newer releases.
        let up = |pairs: Vec<(usize, usize)>| -> Vec<(usize, usize)> {
            pairs.into_iter().filter(|(from, by)| from + by < 10).map(|(from, by)| (from, from + by)).collect()
        };
        let (plain, risky) = (up(plain), up(risky));
        let names: Vec<String> = (0..10).map(|patch| format!("4.1.{patch}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let named: Vec<(usize, usize, &str)> = risky.iter().map(|(from, to)| (*from, *to, "R")).collect();
        let graph = graph(&names, &plain, &named);
        for from in 0..10 {
            let reached = paths_of(&graph, names[from], "").unwrap().releases;
            for to in from + 1..10 {
                let paths = paths_of(&graph, names[from], names[to]);
                let forward = reached.iter().find(|release| release.version.to_string() == names[to]);
                let back = paths_of(&graph, "", names[to]).unwrap().releases;
                let back = back.iter().find(|release| release.version.to_string() == names[from]);
                prop_assert_eq!(paths.is_ok(), forward.is_some());
                prop_assert_eq!(forward.map(|release| release.hops), back.map(|release| release.hops));
                let Ok(paths) = paths else { continue };
                let shortest = paths.routes.iter().map(|route| route.hops.len()).min();
                prop_assert!(shortest <= forward.map(|release| release.hops));
                let fine = paths.routes.iter().find(|route| route.without_risks);
                prop_assert_eq!(fine.is_some(), forward.is_some_and(|release| release.risks.is_empty()));
                if let Some(fine) = fine {
                    prop_assert_eq!(Some(fine.hops.len()), forward.map(|release| release.hops));
                }
                for hop in paths.routes.iter().flat_map(|route| &route.hops) {
                    let place = |version: &Version| names.iter().position(|name| *name == version.to_string()).unwrap();
                    let pair = (place(&hop.from), place(&hop.to));
                    prop_assert!(plain.contains(&pair) || risky.contains(&pair));
                    prop_assert_eq!(!hop.risks.is_empty(), risky.contains(&pair));
                }
            }
        }
    }
}
