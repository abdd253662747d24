use super::*;

const REPOSITORY: &str = "quay.io/openshift-release-dev/ocp-release";

fn response(nodes: &[&str], edges: &str, conditional: &str) -> String {
    let nodes: Vec<String> = nodes
        .iter()
        .map(|version| {
            format!(
                r#"{{"version":"{version}","payload":"{REPOSITORY}:{}"}}"#,
                version.replace('+', "-")
            )
        })
        .collect();
    format!(r#"{{"nodes":[{}],"edges":{edges},"conditionalEdges":{conditional}}}"#, nodes.join(","))
}

fn graph(nodes: &[&str], edges: &str, conditional: &str) -> Graph {
    Graph::parse(response(nodes, edges, conditional).as_bytes()).unwrap()
}

#[test]
fn releases_are_in_the_order_of_their_versions_and_edges_follow_them() {
    let graph = graph(&["4.1.10", "4.1.9", "4.1.9-rc.1"], "[[1,0],[2,1]]", "null");
    let versions: Vec<String> = graph.versions().map(ToString::to_string).collect();
    assert_eq!(versions, ["4.1.9-rc.1", "4.1.9", "4.1.10"]);
    let reached: Vec<usize> = graph.updates(0).map(|update| update.to).collect();
    assert_eq!(reached, [1]);
    assert_eq!(graph.updates(1).next().unwrap().node().version.to_string(), "4.1.10");
    assert_eq!(graph.head().unwrap().version.to_string(), "4.1.10");
    assert!(graph.updates(2).next().is_none());
}

#[test]
fn metadata_has_channels_architecture_and_announcement() {
    let text = r#"{"version":1,"nodes":[{"version":"4.14.1","payload":"quay.io/a/b@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "metadata":{"io.openshift.upgrades.graph.release.channels":"stable-4.14, eus-4.14,,","release.openshift.io/architecture":"multi",
        "url":"https://access.redhat.com/errata/RHSA-2023:1","other":"x"}}],"edges":[]}"#;
    let graph = Graph::parse(text.as_bytes()).unwrap();
    let node = graph.head().unwrap();
    assert_eq!(graph.channels(), ["eus-4.14", "stable-4.14"].into());
    assert_eq!(node.architecture.as_deref(), Some("multi"));
    assert_eq!(node.url.as_deref(), Some("https://access.redhat.com/errata/RHSA-2023:1"));
    assert!(node.payload.image().unwrap().digest.is_some());
}

#[test]
fn a_payload_that_is_not_an_image_concerns_its_own_release_only() {
    let text = response(&["4.1.0", "4.1.1"], "[[0,1]]", "[]")
        .replace(&format!("{REPOSITORY}:4.1.0"), "quay.io/a/b@sha256:12");
    let graph = Graph::parse(text.as_bytes()).unwrap();
    assert_eq!(graph.versions().count(), 2);
    let why = graph.nodes()[0].payload.image().unwrap_err().to_string();
    assert!(why.contains("\"quay.io/a/b@sha256:12\" for release 4.1.0"), "{why}");
    assert!(graph.nodes()[1].payload.image().is_ok());
}

#[test]
fn an_edge_that_is_also_conditional_has_its_risks() {
    let risk = r#"{"url":"https://x.example/1","name":"Bad","message":"It may break.","matchingRules":[{"type":"Always"}]}"#;
    let conditional = format!(
        r#"[{{"edges":[{{"from":"4.1.0","to":"4.1.1"}},{{"from":"4.1.0","to":"9.9.9"}}],"risks":[{risk}]}},
            {{"edges":[{{"from":"4.1.0","to":"4.1.1"}},{{"from":"4.1.0","to":"4.1.2"}}],"risks":[{risk}]}}]"#
    );
    let graph = graph(&["4.1.0", "4.1.1", "4.1.2"], "[[0,1],[1,2]]", &conditional);
    let both = graph.update(0, 1).unwrap();
    assert!(both.is_listed() && both.is_conditional());
    let expected = Risk {
        name: "Bad".into(),
        message: "It may break.".into(),
        url: "https://x.example/1".into(),
    };
    assert_eq!(both.risks(), [&expected]);
    let only = graph.update(0, 2).unwrap();
    assert!(!only.is_listed() && only.is_conditional());
    assert!(!graph.update(1, 2).unwrap().is_conditional());
    assert!(graph.update(2, 1).is_none());
}

#[test]
fn a_version_is_found_whatever_follows_its_plus() {
    let graph = graph(&["4.2.0+amd64", "4.2.1+amd64"], "[]", "[]");
    assert_eq!(graph.place_of(&"4.2.1".parse().unwrap()), Some(1));
    assert_eq!(graph.place_of(&"4.2.1+amd64".parse().unwrap()), Some(1));
    assert_eq!(graph.place_of(&"4.2.2".parse().unwrap()), None);
    assert_eq!(graph.place_of(&"4.2.1-rc.1".parse().unwrap()), None);
}

#[test]
fn graphs_of_several_channels_become_one() {
    let one = graph(&["4.1.0", "4.1.1"], "[[0,1]]", "[]");
    let risk = r#"[{"edges":[{"from":"4.1.1","to":"4.2.0"}],"risks":[{"name":"R"}]}]"#;
    let other = graph(&["4.2.0", "4.1.1"], "[]", risk);
    let merged = Graph::merged([&one, &other]).unwrap();
    let versions: Vec<String> = merged.versions().map(ToString::to_string).collect();
    assert_eq!(versions, ["4.1.0", "4.1.1", "4.2.0"]);
    assert!(merged.update(0, 1).unwrap().is_listed());
    assert_eq!(merged.update(1, 2).unwrap().risks()[0].name, "R");
    assert_eq!(Graph::merged([&merged, &one, &other]).unwrap(), merged);

    let text = response(&["4.1.1"], "[]", "[]").replace(REPOSITORY, "quay.io/other/release");
    let forged = Graph::parse(text.as_bytes()).unwrap();
    let error = Graph::merged([&one, &forged]).unwrap_err().to_string();
    assert!(error.contains("different payloads for release 4.1.1"), "{error}");
}

#[test]
fn what_is_not_a_graph_is_refused_with_the_reason() {
    let html = "\n <!DOCTYPE html><html><body>Please log in</body></html>";
    let twice = response(&["4.1.0", "4.1.0"], "[]", "[]");
    let edge = response(&["4.1.0"], "[[0,1]]", "[]");
    for (text, expected) in [
        (html, "a web page, not an update graph"),
        ("", "not an update graph"),
        ("{\"nodes\":[]}", "not an update graph"),
        (&response(&["4.1"], "[]", "[]"), "a release with the version \"4.1\""),
        (&response(&["v4.1.0"], "[]", "[]"), "a release with the version \"v4.1.0\""),
        (&twice, "release 4.1.0 twice"),
        (&edge, "from release number 0 to number 1, but only 1"),
        (&response(&["4.1.0"], "[[0,-1]]", "[]"), "not an update graph"),
    ] {
        let error = Graph::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(matches!(Graph::parse(&vec![b' '; MAX_GRAPH_BYTES + 1]), Err(GraphError::Large)));
}

#[test]
fn many_groups_on_one_edge_stay_small() {
    let group = r#"{"edges":[{"from":"4.1.0","to":"4.1.1"}],"risks":[{"name":"R"}]}"#;
    let groups = vec![group; 20_000].join(",");
    let graph = graph(&["4.1.0", "4.1.1"], "[]", &format!("[{groups}]"));
    assert_eq!(graph.update(0, 1).unwrap().risks().len(), 1);
}
