use crate::{Catalog, Files};

use super::*;

/// The catalog that upstream's integration tests use, in short: foo, bar and baz.
fn catalog(entries: &str) -> String {
    let mut bundles = String::new();
    for entry in entries.lines() {
        let value: serde_json::Value = serde_json::from_str(entry).unwrap();
        let name = value["name"].as_str().unwrap();
        let version = name.split_once(".v").unwrap().1;
        bundles.push_str(&format!(
            "{{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"{name}\",\"image\":\"q.io/x:1\",\
             \"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"p\",\"version\":\"{version}\"}}}}]}}\n"
        ));
    }
    let entries: Vec<&str> = entries.lines().collect();
    format!(
        "{{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c\"}}\n\
         {{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\"entries\":[{}]}}\n{bundles}",
        entries.join(",")
    )
}

/// The versions OLM passes, or why it does not get there.
fn walk(entries: &str, from: &str, to: &str) -> String {
    let text = catalog(entries);
    let files = Files::read([("x", text.as_bytes())]).unwrap();
    let catalog = Catalog::load(&files).unwrap();
    let package = &catalog.packages["p"];
    let graph = graph(package, "c").unwrap();
    let version = |text: &str| Version::parse(text).unwrap();
    let to = (!to.is_empty()).then(|| version(to));
    match graph.path(package, &version(from), to.as_ref()) {
        Ok(path) => path
            .steps
            .iter()
            .map(|(node, kind)| format!("{} {kind:?}", graph.nodes[*node].version))
            .collect::<Vec<_>>()
            .join(", "),
        Err(error) => error.to_string(),
    }
}

const CHAIN: &str = r#"{"name":"p.v1.0.0"}
{"name":"p.v1.1.0","replaces":"p.v1.0.0"}
{"name":"p.v1.2.0","replaces":"p.v1.1.0","skips":["p.v1.0.0"]}
{"name":"p.v2.0.0","replaces":"p.v1.2.0","skipRange":">=1.1.0 <2.0.0"}"#;

#[test]
fn olm_takes_the_step_that_leads_nearest_to_the_head() {
    for (from, to, expected) in [
        // 1.2.0 skips 1.0.0, so 1.1.0 is not passed; 2.0.0 does not reach down to 1.0.0.
        ("1.0.0", "", "1.2.0 Skips, 2.0.0 Replaces"),
        ("1.1.0", "", "2.0.0 SkipRange"),
        ("1.2.0", "", "2.0.0 Replaces"),
        ("2.0.0", "", ""),
        ("1.0.0", "1.2.0", "1.2.0 Skips"),
        // Not in the channel any more, and in a skipRange.
        ("1.1.5", "", "2.0.0 SkipRange"),
    ] {
        assert_eq!(walk(CHAIN, from, to), expected, "{from} → {to}");
    }
}

#[test]
fn paths_that_do_not_exist_are_reported() {
    for (from, to, expected) in [
        ("0.9.0", "", "nothing in the channel \"c\" can be installed over 0.9.0"),
        ("1.1.0", "1.2.0", "OLM goes from 1.1.0 to 2.0.0 and does not stop at 1.2.0"),
        ("1.1.0", "1.0.0", "1.0.0 is skipped by a later version"),
        ("1.1.0", "7.0.0", "the channel \"c\" has no version 7.0.0; it has 1.0.0 to 2.0.0"),
    ] {
        let output = walk(CHAIN, from, to);
        assert!(output.starts_with(expected), "{from} → {to}: {output}");
    }
}

/// Each version is skipped by the next one.
const SKIPPED: &str = r#"{"name":"p.v1.4.3"}
{"name":"p.v1.5.0","skips":["p.v1.4.3"]}
{"name":"p.v1.6.0","skips":["p.v1.5.0"]}"#;

#[test]
fn a_version_that_only_a_skipped_one_leads_on_from_is_where_olm_stays() {
    for (from, to) in [("1.4.3", "1.6.0"), ("1.4.3", "")] {
        let message = walk(SKIPPED, from, to);
        let expected =
            "OLM stays at 1.4.3: in the channel \"c\" only 1.5.0 can be installed over it";
        assert!(message.starts_with(expected), "{from} → {to}: {message}");
        assert!(message.contains("p.v1.6.0 skips it"), "{message}");
    }
    assert_eq!(walk(SKIPPED, "1.5.0", "1.6.0"), "1.6.0 Skips");
}

#[test]
fn a_graph_has_every_step_once_with_its_best_reason() {
    let text = catalog(CHAIN);
    let files = Files::read([("x", text.as_bytes())]).unwrap();
    let catalog = Catalog::load(&files).unwrap();
    let graph = graph(&catalog.packages["p"], "c").unwrap();
    let name = |index: usize| graph.nodes[index].version.to_string();
    let edges: Vec<String> = graph
        .edges
        .iter()
        .map(|edge| format!("{} → {} {:?}", name(edge.from), name(edge.to), edge.kind))
        .collect();
    assert_eq!(
        edges,
        [
            "1.0.0 → 1.1.0 Replaces",
            "1.0.0 → 1.2.0 Skips",
            "1.1.0 → 1.2.0 Replaces",
            "1.1.0 → 2.0.0 SkipRange",
            "1.2.0 → 2.0.0 Replaces",
        ]
    );
    assert!(graph.nodes[3].is_head && graph.nodes[0].is_skipped);
}

#[test]
fn an_unknown_channel_is_reported_with_the_nearest() {
    let text = catalog(CHAIN);
    let files = Files::read([("x", text.as_bytes())]).unwrap();
    let catalog = Catalog::load(&files).unwrap();
    let output = graph(&catalog.packages["p"], "d").unwrap_err().to_string();
    assert_eq!(output, "the package \"p\" has no channel \"d\"; did you mean c?");
}
