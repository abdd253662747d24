//! The path from one release to another, as printed for users and programs.

use crate::support;

use std::fs;

use lab::registry::{LabRegistry, Settings};
use lab::update_service::Graph;
use serde_json::json;
use support::operators::{catalog_image, package};
use support::releases::{World, channel};
use support::{PLAIN, Ran, Site};

const RISK: (&str, &str, &str) =
    ("SlowDisks", "Nodes with slow disks may lose etcd.", "https://issues.example/1");

/// Three minor versions with a risky short cut.
fn world() -> World {
    let world = World::empty();
    let payload = |version: &str| {
        format!("quay.io/openshift-release-dev/ocp-release@{}", oci::Digest::of(version.as_bytes()))
    };
    let graph = |versions: &[&str], channel: &str| {
        versions.iter().fold(Graph::default(), |graph, version| {
            graph.node_in(version, &payload(version), &[channel])
        })
    };
    let first = graph(&["4.12.0", "4.12.5"], "stable-4.12").edge("4.12.0", "4.12.5");
    world.service.publish("stable-4.12", "amd64", &first);
    let second = graph(&["4.12.0", "4.12.5", "4.13.4"], "stable-4.13")
        .edge("4.12.0", "4.12.5")
        .edge("4.12.5", "4.13.4")
        .conditional("4.12.0", "4.13.4", RISK);
    world.service.publish("stable-4.13", "amd64", &second);
    let third = graph(&["4.13.4", "4.14.2", "4.14.9"], "stable-4.14")
        .edge("4.13.4", "4.14.2")
        .edge("4.14.2", "4.14.9")
        .edge("4.13.4", "4.14.9");
    world.service.publish("stable-4.14", "amd64", &third);
    world
}

fn run_lookup(world: &World, site: &Site, line: &str) -> Ran {
    Ran::of(world.command(site, &format!("upgrade-path release {line}")).output().unwrap())
}

fn prints(world: &World, site: &Site, line: &str) -> String {
    let ran = run_lookup(world, site, line);
    assert_eq!(ran.code, 0, "{line}: {}", ran.err);
    ran.out
}

#[test]
fn the_hops_between_two_releases_are_shown_with_their_risks() {
    let (world, site) = (world(), Site::new());
    site.write("release-key.asc", world.key.public());
    let json = prints(&world, &site, "--from 4.12.0 --to 4.14.9 -o json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let hops = |route: &serde_json::Value| -> Vec<String> {
        let hops = route["hops"].as_array().unwrap().iter();
        hops.map(|hop| hop["to"].as_str().unwrap().to_owned()).collect()
    };
    let routes = json["routes"].as_array().unwrap();
    assert_eq!(hops(&routes[0]), ["4.12.5", "4.13.4", "4.14.9"]);
    assert_eq!(hops(&routes[1]), ["4.13.4", "4.14.9"]);
    assert_eq!(routes[1]["hops"][0]["risks"], serde_json::json!(["SlowDisks"]));
    assert_eq!(json["risks"][0]["url"], "https://issues.example/1");
    let yaml = prints(&world, &site, "--from 4.12.0 --to 4.14.9 -o yaml");
    assert!(yaml.contains("SlowDisks"), "{yaml}");
    let table = prints(&world, &site, "--from 4.12.0 --to 4.14.9");
    for word in ["4.12.5", "4.13.4", "SlowDisks", "https://issues.example/1", "EUS"] {
        assert!(table.contains(word), "{word} is not in\n{table}");
    }
}

#[test]
fn without_an_end_all_that_can_be_reached_and_without_a_start_all_that_leads_there() {
    let (world, site) = (world(), Site::new());
    site.write("release-key.asc", world.key.public());
    let reached = |line: &str| -> Vec<(String, bool)> {
        let json: serde_json::Value = serde_json::from_str(&prints(&world, &site, line)).unwrap();
        let releases = json["releases"].as_array().unwrap().iter();
        releases.map(|r| (r["version"].as_str().unwrap().to_owned(), r["head"] == true)).collect()
    };
    let from = reached("--from 4.13.4 -o json");
    assert_eq!(from, [("4.14.2".to_owned(), false), ("4.14.9".to_owned(), true)]);
    let mut to: Vec<String> = reached("--to 4.13.4 -o json").into_iter().map(|r| r.0).collect();
    to.sort();
    assert_eq!(to, ["4.12.0", "4.12.5"]);
}

#[test]
fn pictures_are_made_in_three_languages() {
    let (world, site) = (world(), Site::new());
    site.write("release-key.asc", world.key.public());
    let line = "--from 4.12.0 --to 4.14.9";
    let svg = prints(&world, &site, &format!("{line} -o svg"));
    assert!(svg.starts_with("<svg") && svg.contains("4.13.4"), "{svg}");
    let dot = prints(&world, &site, &format!("{line} -o dot"));
    assert!(dot.starts_with("digraph") && dot.contains("->"), "{dot}");
    let mermaid = prints(&world, &site, &format!("{line} -o mermaid"));
    assert!(mermaid.starts_with("flowchart") && mermaid.contains("4.14.9"), "{mermaid}");
}

#[test]
fn what_cannot_be_shown_is_reported_with_the_reason() {
    let (world, site) = (world(), Site::new());
    site.write("release-key.asc", world.key.public());
    for (line, expected) in [
        ("", "--from"),
        ("--from 4.12", "with its patch number"),
        ("--from 4.12.0 --to 4.12.9", "the nearest"),
        ("--from 4.14.9 --to 4.12.0", "older release"),
        ("--from 4.99.0", "no releases"),
        ("--from 4.12.0 --to 4.14.9 --arch arm64", "no releases for arm64"),
        ("--from 4.12.0 -o png", "png"),
    ] {
        let ran = run_lookup(&world, &site, line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.out);
        assert!(ran.err.contains(expected), "{line}: {}", ran.err);
    }
}

#[test]
fn the_path_is_read_from_an_archive_too() {
    let (world, _) = World::with(&["4.16.1", "4.16.2"]);
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ""));
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    let other = Site::new();
    other.write("release-key.asc", world.key.public());
    fs::create_dir(other.path("data")).unwrap();
    for chunk in support::chunks(&site.path("data")) {
        fs::copy(&chunk, other.path("data").join(chunk.file_name().unwrap())).unwrap();
    }
    world.forget_requests();
    let line = "--from 4.16.1 --workspace file://data -o json";
    let json: serde_json::Value = serde_json::from_str(&prints(&world, &other, line)).unwrap();
    assert_eq!(json["releases"][0]["version"], "4.16.2");
    assert_eq!(world.service.server.requests().count(), 0);
}

const CATALOG: &str = "registry.redhat.io/redhat/redhat-operator-index:v4.16";

/// 1.0.0, 1.1.0 over it, 1.2.0 over that, and 2.0.0 over everything from 1.1.0 on.
fn operators() -> (LabRegistry, Site) {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    let text = package(
        "logging",
        "stable",
        &[
            ("1.0.0", json!({})),
            ("1.1.0", json!({ "replaces": "logging.v1.0.0" })),
            ("1.2.0", json!({ "replaces": "logging.v1.1.0" })),
            ("2.0.0", json!({ "replaces": "logging.v1.2.0", "skipRange": ">=1.1.0 <2.0.0" })),
        ],
    );
    let image = catalog_image(&[("catalog.json", text.as_bytes())]);
    registry.put_image(&image, "redhat/redhat-operator-index", "v4.16").unwrap();
    let site = Site::new();
    site.redirect("registry.redhat.io", registry.address());
    (registry, site)
}

fn walk(site: &Site, line: &str) -> Ran {
    let line = format!("upgrade-path operator --catalog {CATALOG} {line}");
    Ran::of(site.command(&line).output().unwrap())
}

#[test]
fn the_path_of_an_operator_is_printed_with_what_allows_each_hop() {
    let (_registry, site) = operators();
    let prints = |line: &str| {
        let ran = walk(&site, line);
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        ran.out
    };
    let table = prints("--package logging --from 1.0.0 --to 2.0.0");
    assert_eq!(
        table,
        "2 hops in channel stable of logging\n\
         HOP  FROM   TO     BUNDLE          BECAUSE IT\n\
         1    1.0.0  1.1.0  logging.v1.1.0  replaces logging.v1.0.0\n\
         2    1.1.0  2.0.0  logging.v2.0.0  skipRange >=1.1.0 <2.0.0\n"
    );
    let parse = |line: &str| -> serde_json::Value { serde_json::from_str(&prints(line)).unwrap() };
    let json = parse("--package logging --from v1.0.0 --channel stable -o json");
    let versions = json["versions"].as_array().unwrap().iter();
    let seen: Vec<(&str, bool)> = versions
        .map(|one| (one["version"].as_str().unwrap(), one["automatic"].as_bool().unwrap()))
        .collect();
    assert_eq!(seen, [("1.1.0", true), ("1.2.0", false), ("2.0.0", true)]);
    // Without any version: how each gets to the head.
    let json = parse("--package logging -o json");
    assert_eq!((&json["to"], &json["versions"][2]["version"]), (&json!("2.0.0"), &json!("1.0.0")));
    assert!(prints("--package logging --to 1.2.0 -o yaml").contains("kind: replaces"));
    let svg = prints("--package logging --from 1.0.0 -o svg");
    assert!(svg.starts_with("<svg") && svg.contains("2.0.0"), "{svg}");
    assert!(prints("--package logging --from 1.0.0 -o dot").starts_with("digraph"));
    assert!(prints("--package logging --from 1.0.0 -o mermaid").starts_with("flowchart"));
    // What OLM passes by.
    let table = prints("--package logging --from 1.0.0 --to 1.2.0");
    assert!(table.contains("mirror with `maxVersion: 1.2.0`"), "{table}");
}

#[test]
fn what_of_an_operator_cannot_be_shown_is_reported_with_the_reason() {
    let (_registry, site) = operators();
    for (line, expected) in [
        ("--package loging --from 1.0.0", "did you mean logging?"),
        ("--package logging --channel stabel", "did you mean stable?"),
        ("--package logging --from 1.0", "three numbers"),
        (
            "--package logging --from 0.1.0",
            "nothing in the channel \"stable\" can be installed over 0.1.0",
        ),
        ("--package logging --to 3.0.0", "it has 1.0.0 to 2.0.0"),
        ("--package logging --from 2.0.0 --to 1.0.0", "does not stop at 1.0.0"),
        ("--from 1.0.0", "--package"),
    ] {
        let ran = walk(&site, line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.out);
        assert!(ran.err.contains(expected), "{line}: {}", ran.err);
    }
}
