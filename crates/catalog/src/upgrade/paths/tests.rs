use crate::{Catalog, Files};

use super::*;

/// A package with one channel: `name version`, and the rest of the entry as JSON.
fn paths_of(entries: &[(&str, &str)], query: &PathQuery) -> Result<UpgradePaths, PathError> {
    let mut text =
        "{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c\"}\n".to_owned();
    let list: Vec<String> = entries
        .iter()
        .map(|(version, rest)| format!("{{\"name\":\"p.v{version}\"{rest}}}"))
        .collect();
    text += &format!(
        "{{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\"entries\":[{}]}}\n",
        list.join(",")
    );
    for (version, _) in entries {
        text += &format!(
            "{{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"p.v{version}\",\"image\":\"q.io/x:1\",\
             \"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"p\",\"version\":\"{version}\"}}}}]}}\n"
        );
    }
    text += "{\"schema\":\"olm.deprecations\",\"package\":\"p\",\"entries\":[{\"reference\":\
             {\"schema\":\"olm.bundle\",\"name\":\"p.v1.2.0\"},\"message\":\"it\\nleaks\"}]}\n";
    let files = Files::read([("x", text.as_bytes())]).unwrap();
    let catalog = Catalog::load(&files).unwrap();
    find_paths(&catalog.packages["p"], "c", query)
}

/// 1.0.0 ← 1.1.0 ← 1.2.0 (skips 1.0.0) ← 2.0.0 (takes everything from 1.1.0 on).
const CHAIN: [(&str, &str); 4] = [
    ("1.0.0", ""),
    ("1.1.0", r#","replaces":"p.v1.0.0""#),
    ("1.2.0", r#","replaces":"p.v1.1.0","skips":["p.v0.9.0"]"#),
    ("2.0.0", r#","replaces":"p.v1.2.0","skipRange":">=1.1.0 <2.0.0""#),
];

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn between(from: &str, to: &str) -> Result<UpgradePaths, PathError> {
    paths_of(&CHAIN, &PathQuery::Between { from: version(from), to: version(to) })
}

fn reached(paths: &UpgradePaths) -> Vec<String> {
    let show = |r: &Reached| {
        format!("{} {} via {}{}", r.hops, r.version, r.via, if r.automatic { "" } else { " by" })
    };
    paths.versions.iter().map(show).collect()
}

#[test]
fn every_hop_states_what_allows_it() {
    let paths = between("1.0.0", "2.0.0").unwrap();
    let hops: Vec<(String, &str)> =
        paths.hops.iter().map(|hop| (hop.to.to_string(), hop.because.as_str())).collect();
    assert_eq!(
        hops,
        [("1.1.0".into(), "replaces p.v1.0.0"), ("2.0.0".into(), "skipRange >=1.1.0 <2.0.0")]
    );
    assert!(paths.advice.is_empty());
}

#[test]
fn a_version_that_olm_passes_by_is_reached_where_the_catalog_ends() {
    let paths = between("1.0.0", "1.2.0").unwrap();
    let hops: Vec<String> = paths.hops.iter().map(|hop| hop.to.to_string()).collect();
    assert_eq!(hops, ["1.1.0", "1.2.0"]);
    assert!(paths.advice[0].contains("does not stop at 1.2.0"), "{:?}", paths.advice);
    assert!(paths.advice[0].contains("maxVersion: 1.2.0"), "{:?}", paths.advice);
    // No catalog leads backwards.
    assert!(matches!(between("2.0.0", "1.0.0"), Err(PathError::PassedBy { .. })));
}

#[test]
fn all_that_can_be_reached_is_distinguished_from_the_updates_of_olm() {
    let paths = paths_of(&CHAIN, &PathQuery::From(version("1.0.0"))).unwrap();
    assert_eq!(reached(&paths), ["1 1.1.0 via 1.0.0", "2 1.2.0 via 1.1.0 by", "2 2.0.0 via 1.1.0"]);
    assert!(paths.versions[2].head);
    // Not in the channel any more, but in a skipRange.
    let gone = paths_of(&CHAIN, &PathQuery::From(version("1.1.5"))).unwrap();
    assert_eq!(reached(&gone), ["1 2.0.0 via 1.1.5"]);
    let head = paths_of(&CHAIN, &PathQuery::From(version("2.0.0"))).unwrap();
    assert!(head.versions.is_empty() && head.table().contains("nothing is newer"));
    assert!(matches!(
        paths_of(&CHAIN, &PathQuery::From(version("0.1.0"))),
        Err(PathError::NoStep { .. })
    ));
}

#[test]
fn all_from_where_a_version_can_be_reached_are_found() {
    let paths = paths_of(&CHAIN, &PathQuery::ToHead).unwrap();
    assert_eq!(paths.to, Some(version("2.0.0")));
    assert_eq!(reached(&paths), ["1 1.1.0 via 2.0.0", "1 1.2.0 via 2.0.0", "2 1.0.0 via 1.1.0"]);
    let first = paths_of(&CHAIN, &PathQuery::To(version("1.0.0"))).unwrap();
    assert_eq!(first.table(), "No other version of channel c of p leads to 1.0.0.\n");
    let paths = paths_of(&CHAIN, &PathQuery::To(version("1.2.0"))).unwrap();
    assert_eq!(reached(&paths), ["1 1.1.0 via 1.2.0 by", "2 1.0.0 via 1.1.0 by"]);
}

#[test]
fn tables_and_pictures_show_the_same() {
    let paths = paths_of(&CHAIN, &PathQuery::From(version("1.0.0"))).unwrap();
    let table = paths.table();
    for expected in ["2.0.0 (head)", "passes by", "p.v1.2.0: it leaks", "maxVersion"] {
        assert!(table.contains(expected), "{expected} is not in\n{table}");
    }
    let drawing = paths.drawing();
    assert_eq!((drawing.nodes.len(), drawing.edges.len()), (4, 3));
    assert!(drawing.svg().contains("2.0.0") && drawing.dot().contains("skipRange"));
    let way = between("1.0.0", "2.0.0").unwrap();
    assert!(way.table().starts_with("2 hops in channel c of p\n"), "{}", way.table());
    assert_eq!(way.drawing().edges.len(), 2);
    assert!(between("2.0.0", "2.0.0").unwrap().table().contains("Nothing to do"));
}
