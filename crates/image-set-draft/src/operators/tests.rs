use cluster_inventory::{CatalogSource, Unread};

use super::*;

fn subscription(
    package: &str,
    namespace: &str,
    channel: Option<&str>,
    csv: Option<&str>,
) -> Subscription {
    Subscription {
        namespace: namespace.into(),
        name: package.into(),
        package: package.into(),
        channel: channel.map(str::to_owned),
        source: "cat".into(),
        source_namespace: "openshift-marketplace".into(),
        installed_csv: csv.map(str::to_owned),
        current_csv: csv.map(str::to_owned),
        approval: None,
    }
}

fn csv(name: &str, namespace: &str, version: &str, phase: &str) -> Installed {
    Installed {
        namespace: namespace.into(),
        name: name.into(),
        version: Some(version.parse().unwrap()),
        phase: Some(phase.into()),
    }
}

fn inventory(subscriptions: Vec<Subscription>, versions: Vec<Installed>) -> Inventory {
    Inventory {
        subscriptions,
        cluster_service_versions: versions,
        catalog_sources: vec![CatalogSource {
            namespace: "openshift-marketplace".into(),
            name: "cat".into(),
            image: Some("reg:5000/redhat/redhat-operator-index:v4.16".into()),
        }],
        unread: Vec::<Unread>::new(),
        ..Inventory::default()
    }
}

fn minors(from: u64, to: u64) -> Minors {
    let minor = |minor| Some(Minor { major: 4, minor });
    Minors { from: minor(from), to: minor(to) }
}

#[test]
fn each_package_starts_at_what_is_installed_and_follows_the_minor_version() {
    let operators = decide(
        &inventory(
            vec![subscription("logging", "a", Some("stable-5.9"), Some("logging.v5.9.6"))],
            // The version counts, not the name.
            vec![csv("logging.v5.9.6", "a", "5.9.6+1", "Succeeded")],
        ),
        minors(16, 18),
    );
    let [catalog] = &operators.catalogs[..] else { panic!("{operators:?}") };
    assert_eq!(
        catalog.name.as_deref(),
        Some("registry.redhat.io/redhat/redhat-operator-index:v4.18")
    );
    assert!(catalog.reason.contains("from 4.16 to 4.18"), "{}", catalog.reason);
    let [package] = &catalog.packages[..] else { panic!("{operators:?}") };
    assert_eq!(package.channels["stable-5.9"], Some("5.9.6+1".parse().unwrap()));
    assert_eq!(operators.undecided, [] as [String; 0]);
}

#[test]
fn of_several_installations_the_lowest_version_counts() {
    let operators = decide(
        &inventory(
            vec![
                subscription("a", "one", Some("fast"), Some("a.v2.0.0")),
                subscription("a", "two", Some("fast"), Some("a.v1.9.0")),
                subscription("a", "three", Some("slow"), None),
            ],
            vec![],
        ),
        minors(16, 16),
    );
    let package = &operators.catalogs[0].packages[0];
    assert_eq!(package.channels["fast"], Some("1.9.0".parse().unwrap()));
    assert_eq!(package.channels["slow"], None);
    assert!(package.reasons.iter().any(|reason| reason.contains("three has none installed yet")));
}

#[test]
fn a_subscription_without_a_channel_takes_them_all() {
    let operators = decide(
        &inventory(
            vec![
                subscription("a", "one", None, Some("a.v2.0.0")),
                subscription("a", "two", Some("fast"), Some("a.v1.9.0")),
            ],
            vec![],
        ),
        minors(16, 16),
    );
    let package = &operators.catalogs[0].packages[0];
    assert!(package.channels.is_empty());
    assert_eq!(package.min_version, Some("1.9.0".parse().unwrap()));
}

#[test]
fn what_a_user_should_check_is_reported() {
    let mut waiting = subscription("b", "n", Some("stable-4.16"), Some("b.v1.0.0"));
    waiting.current_csv = Some("b.v1.1.0".into());
    waiting.approval = Some("Manual".into());
    let operators = decide(
        &inventory(
            vec![waiting, subscription("c", "n", Some("x"), Some("no-version"))],
            vec![
                csv("b.v1.0.0", "n", "1.0.0", "Failed"),
                csv("d.v3.0.0", "m", "3.0.0", "Succeeded"),
            ],
        ),
        minors(16, 18),
    );
    let packages = &operators.catalogs[0].packages;
    let reason = &packages[0].reasons[0];
    assert!(reason.contains("in phase Failed"), "{reason}");
    assert!(
        reason.contains("An update to b.v1.1.0 is available and waits for approval"),
        "{reason}"
    );
    let undecided = operators.undecided.join("\n");
    for expected in [
        "b is subscribed to channel stable-4.16, whose name has the minor version 4.16",
        "Which version of c is installed in n is not known",
        "d.v3.0.0 in m",
    ] {
        assert!(undecided.contains(expected), "{expected} is not in\n{undecided}");
    }
}

#[test]
fn a_catalog_of_unknown_origin_comes_last_and_without_a_name() {
    let mut stranger = subscription("z", "n", Some("x"), None);
    stranger.source = "unknown".into();
    let operators = decide(
        &inventory(vec![stranger, subscription("a", "n", Some("x"), None)], vec![]),
        minors(16, 16),
    );
    let names: Vec<bool> = operators.catalogs.iter().map(|one| one.name.is_some()).collect();
    assert_eq!(names, [true, false]);
    assert!(operators.undecided[0].contains("CatalogSource unknown"), "{:?}", operators.undecided);
}
