use cluster_inventory::{CatalogSource, Cluster, Subscription, Unread};
use image_set::{Distribution, ImageSetConfiguration, ImageSource, parse_image_set};
use release::channel::Minor;
use release::graph::Graph;
use release::select::{GraphKey, Graphs, select};

use super::draft as write;
use super::*;
use crate::operators::operators;
use crate::releases::{ChannelDraft, ReleaseRequest};

fn subscription(package: &str, channel: &str, source: &str, csv: &str) -> Subscription {
    Subscription {
        namespace: "ns".into(),
        name: package.into(),
        package: package.into(),
        channel: Some(channel.into()),
        source: source.into(),
        source_namespace: "openshift-marketplace".into(),
        installed_csv: Some(csv.into()),
        current_csv: None,
        approval: None,
    }
}

fn inventory() -> Inventory {
    Inventory {
        cluster: Some(Cluster {
            version: Some("4.16.3".parse().unwrap()),
            channel: Some("stable-4.16".into()),
            update_service: Some("https://osus.lan/graph".into()),
            ..Cluster::default()
        }),
        subscriptions: vec![
            subscription("logging", "stable-5.9", "redhat-operators", "logging.v5.9.6"),
            subscription("jaeger", "4.16", "redhat-operators", "jaeger.v1.42.0-5+0.168.p"),
            subscription("own", "alpha", "site-catalog", "own.v0.1.0"),
        ],
        catalog_sources: vec![CatalogSource {
            namespace: "openshift-marketplace".into(),
            name: "site-catalog".into(),
            image: None,
        }],
        ..Inventory::default()
    }
}

fn releases() -> Releases {
    let version = |text: &str| text.parse().unwrap();
    Releases {
        channels: vec![ChannelDraft {
            name: "stable-4.16".into(),
            bounds: Some((version("4.16.3"), version("4.16.9"))),
            shortest_path: true,
        }],
        target: Some(version("4.16.9")),
        release_path: vec![version("4.16.3"), version("4.16.9")],
        reasons: vec!["Because.".into()],
        undecided: Vec::new(),
    }
}

/// The draft with the operators that are decided for it.
fn draft(
    inventory: &Inventory,
    releases: Option<&Releases>,
    architecture: Option<Architecture>,
) -> Draft {
    write(inventory, releases, &operators(inventory, releases), architecture)
}

fn read(text: &str) -> ImageSetConfiguration {
    parse_image_set("isc.yaml", text).unwrap_or_else(|findings| panic!("{findings:?}\n{text}"))
}

#[test]
fn what_is_written_reads_as_what_was_decided() {
    let draft = draft(&inventory(), Some(&releases()), Some(Architecture::Arm64));
    let set = read(&draft.text);
    let platform = set.mirror.platform.unwrap();
    assert!(platform.graph);
    assert_eq!(platform.architectures, [Architecture::Arm64]);
    assert_eq!(platform.channels[0].name, "stable-4.16");
    assert_eq!(platform.channels[0].max_version, Some("4.16.9".parse().unwrap()));
    assert!(platform.channels[0].shortest_path);
    let [catalog] = &set.mirror.operators[..] else { panic!("{}", draft.text) };
    let ImageSource::Registry(image) = &catalog.catalog else { panic!("{catalog:?}") };
    assert_eq!(image.to_string(), "registry.redhat.io/redhat/redhat-operator-index:v4.16");
    let [jaeger, logging] = &catalog.packages[..] else { panic!("{}", draft.text) };
    // Neither a number nor less than what is installed.
    assert_eq!((jaeger.name.as_str(), jaeger.channels[0].name.as_str()), ("jaeger", "4.16"));
    assert_eq!(jaeger.default_channel.as_deref(), Some("4.16"));
    let min = jaeger.channels[0].min_version.as_ref().unwrap();
    assert_eq!(min.as_str(), "1.42.0-5+0.168.p");
    assert_eq!(logging.channels[0].min_version.as_ref().unwrap().as_str(), "5.9.6");
}

#[test]
fn reasons_are_comments_beside_and_open_decisions_are_at_the_top() {
    let draft = draft(&inventory(), Some(&releases()), None);
    for expected in [
        "# Because.",
        "# The upgrade path: 4.16.3 -> 4.16.9.",
        "https://osus.lan/graph",
        "# Namespace ns has logging.v5.9.6.",
        "# You have to decide:",
        "# - catalog: REGISTRY/REPOSITORY:TAG",
        "    # - name: own",
    ] {
        assert!(draft.text.contains(expected), "{expected} is not in\n{}", draft.text);
    }
    let undecided = draft.undecided.join("\n");
    assert!(undecided.contains("CatalogSource site-catalog"), "{undecided}");
    assert!(undecided.contains("Set another with --arch"), "{undecided}");
}

#[test]
fn what_is_a_comment_may_be_taken_in_as_it_is() {
    let draft = draft(&inventory(), Some(&releases()), None);
    let (kept, muted) = draft.text.split_once("  # - catalog: REGISTRY").unwrap();
    let muted = format!("  # - catalog: REGISTRY{muted}");
    let taken = muted.lines().map(|line| line.replacen("# ", "", 1) + "\n").collect::<String>();
    let taken = taken.replace("REGISTRY/REPOSITORY:TAG", "quay.io/site/catalog:v1");
    let set = read(&format!("{kept}{taken}"));
    assert_eq!(set.mirror.operators[1].packages[0].name, "own");
}

#[test]
fn the_same_inventory_gives_the_same_text() {
    let one = draft(&inventory(), Some(&releases()), None);
    let mut other = inventory();
    other.subscriptions.reverse();
    assert_eq!(draft(&other, Some(&releases()), None), one);
}

#[test]
fn an_inventory_with_little_in_it_gives_a_configuration_all_the_same() {
    let mut unread = Inventory::default();
    unread.unread.push(Unread {
        kind: "ClusterVersion".into(),
        reason: Reason::Forbidden,
        message: String::new(),
    });
    let draft = draft(&unread, None, None);
    assert!(read(&draft.text).mirror.platform.is_none());
    let undecided = draft.undecided.join("\n");
    assert!(undecided.contains("ClusterVersion could not be read"), "{undecided}");
    assert!(undecided.contains("release is not known"), "{undecided}");
}

#[test]
fn names_from_a_hostile_inventory_stay_values() {
    let mut hostile = inventory();
    let evil = "x\n  additionalImages:\n  - name: evil.io/a:1\n#";
    hostile.subscriptions = vec![Subscription {
        namespace: evil.into(),
        name: evil.into(),
        package: evil.into(),
        channel: Some(evil.into()),
        source: "redhat-operators".into(),
        source_namespace: evil.into(),
        installed_csv: Some(format!("{evil}.v1.0.0")),
        current_csv: Some(evil.into()),
        approval: Some(evil.into()),
    }];
    hostile.cluster.as_mut().unwrap().update_service = Some(evil.into());
    let set = read(&draft(&hostile, Some(&releases()), None).text);
    assert!(set.mirror.additional_images.is_empty());
    assert_eq!(set.mirror.operators[0].packages[0].name, evil);
}

#[test]
fn with_real_graphs_exactly_the_releases_on_the_path_are_selected() {
    let Some(folder) = data_tier::data_tier("cincinnati-graphs/responses") else { return };
    let mut requested = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let graph = Graph::parse(&std::fs::read(&path).unwrap()).unwrap();
        let Some(head) = graph.head() else { continue };
        let channel = format!("stable-{}", Minor::of(&head.version));
        // Every seventh release, so that none of the kinds is left out.
        for from in graph.versions().step_by(7) {
            let cluster = Cluster {
                version: Some(from.clone()),
                channel: Some(channel.clone()),
                ..Cluster::default()
            };
            let inventory = Inventory { cluster: Some(cluster.clone()), ..Inventory::default() };
            let request = ReleaseRequest::of(&cluster, None, None).unwrap();
            let graphs = [(channel.clone(), graph.clone())].into();
            let releases = request.decide(&graphs).unwrap();
            let draft = draft(&inventory, Some(&releases), Some(Architecture::Amd64));
            let section = read(&draft.text).mirror.platform.unwrap();
            let mut graphs = Graphs::new();
            let key = GraphKey::new(Distribution::Ocp, &channel, Architecture::Amd64);
            graphs.insert(key, graph.clone());
            let selection = select(&section, &graphs);
            assert!(selection.failures.is_empty(), "{}: {from}", path.display());
            let selected: Vec<_> = selection.releases.into_iter().map(|one| one.version).collect();
            // As many hops, and the same ends: of two paths of the same length either is valid.
            assert_eq!(selected.len(), releases.release_path.len(), "{}: {from}", path.display());
            assert_eq!(selected.first(), releases.release_path.first());
            assert_eq!(selected.last(), releases.release_path.last());
            requested += 1;
        }
    }
    assert!(requested > 50, "{requested}");
}
