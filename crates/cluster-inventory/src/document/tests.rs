use proptest::prelude::*;

use super::*;

fn inventory() -> Inventory {
    Inventory {
        cluster: Some(Cluster {
            version: Some(Version::new(4, 16, 3)),
            channel: Some("stable-4.16".into()),
            ..Cluster::default()
        }),
        unread: vec![Unread {
            kind: "Node".into(),
            reason: Reason::Forbidden,
            message: String::new(),
        }],
        ..Inventory::default()
    }
}

#[test]
fn a_document_starts_with_its_kind_and_schema() {
    let json = inventory().json().unwrap();
    assert!(json.starts_with("{\n  \"kind\": \"ClusterInventory\",\n  \"schema\": 1,\n"), "{json}");
    assert!(json.contains("\"reason\": \"forbidden\""), "{json}");
}

#[test]
fn other_documents_are_rejected_with_the_reason() {
    for (text, expected) in [
        ("kind: ImageSetConfiguration\n", "the document is not valid JSON"),
        ("[]", "expected kind ClusterInventory, found none; `oc-mirror inventory` writes"),
        (r#"{"kind": "ConfigMap"}"#, r#"expected kind ClusterInventory, found "ConfigMap""#),
        (r#"{"kind": "ClusterInventory", "schema": 2}"#, "expected schema 1, found 2"),
        (r#"{"kind": "ClusterInventory"}"#, "expected schema 1, found 0"),
    ] {
        let error = Inventory::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn an_error_in_the_content_is_reported_with_its_line() {
    let text =
        "{\"kind\": \"ClusterInventory\", \"schema\": 1,\n\"subscriptions\": [{\"name\": 1}]}";
    let error = Inventory::parse(text.as_bytes()).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("line 2"), "{source}");
}

#[test]
fn fields_of_a_later_version_are_ignored() {
    let text = r#"{"kind": "ClusterInventory", "schema": 1, "nodes": 3, "cluster": {"colour": 1}}"#;
    let read = Inventory::parse(text.as_bytes()).unwrap();
    assert_eq!(read.cluster, Some(Cluster::default()));
}

fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("\\PC{0,12}").unwrap()
}

fn filled() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(text())
}

prop_compose! {
    fn subscription()(
        (namespace, name, package) in (text(), text(), text()),
        (source, source_namespace) in (text(), text()),
        (channel, installed_csv, current_csv, approval) in (filled(), filled(), filled(), filled()),
    ) -> Subscription {
        Subscription {
            namespace, name, package, channel, source, source_namespace, installed_csv,
            current_csv, approval,
        }
    }
}

prop_compose! {
    fn mirror_set()(
        (kind, name) in (text(), text()),
        mirrors in prop::collection::vec((text(), prop::collection::vec(text(), 0..3)), 0..3),
    ) -> MirrorSet {
        let mirror = |(source, mirrors)| Mirror { source, mirrors };
        MirrorSet { kind, name, mirrors: mirrors.into_iter().map(mirror).collect() }
    }
}

proptest! {
    #[test]
    fn every_document_is_read_as_it_was_written(
        subscriptions in prop::collection::vec(subscription(), 0..4),
        mirror_sets in prop::collection::vec(mirror_set(), 0..3),
        installed in prop::collection::vec((text(), text(), any::<(u32, u32)>(), filled()), 0..4),
        history in prop::collection::vec((text(), text(), text()), 0..3),
        (channel, architecture, update_service) in (filled(), filled(), filled()),
    ) {
        let installed = installed.into_iter().map(|(namespace, name, (major, minor), phase)| {
            let version = Some(Version::new(major.into(), minor.into(), 0));
            Installed { namespace, name, version, phase }
        });
        let history = history.into_iter();
        let written = Inventory {
            cluster: Some(Cluster {
                channel,
                architecture,
                update_service,
                history: history
                    .map(|(version, state, image)| PastUpdate { version, state, image })
                    .collect(),
                ..Cluster::default()
            }),
            subscriptions,
            cluster_service_versions: installed.collect(),
            mirror_sets,
            ..Inventory::default()
        };
        let json = written.json().unwrap();
        prop_assert_eq!(Inventory::parse(json.as_bytes()).unwrap(), written);
    }
}
