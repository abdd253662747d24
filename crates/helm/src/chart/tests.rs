use std::io::Write as _;

use super::*;

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.2.3\nappVersion: \"4\"\n";

fn folder(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
}

fn entry(tar: &mut tar::Builder<Vec<u8>>, name: &str, kind: tar::EntryType, data: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(data.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    tar.append(&header, data).unwrap();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// An archive with names as they are given, be they bad.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, data) in files {
        entry(&mut tar, name, tar::EntryType::Regular, data);
    }
    gzip(&tar.into_inner().unwrap())
}

fn message(error: &ChartError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[test]
fn every_kind_of_file_gets_its_place() {
    let files = folder(&[
        ("Chart.yaml", CHART),
        ("Chart.lock", "dependencies: []\n"),
        ("values.yaml", "\u{feff}a: 1\n"),
        ("values.schema.json", "{}"),
        ("templates/a.yaml", "x"),
        ("templates/.hidden", "x"),
        ("crds/c.yaml", "kind: X"),
        ("crds/README.md", "x"),
        ("config/x.conf", "x"),
        ("ci/test.yaml", "x"),
        (".helmignore", "ci/\n"),
        ("charts/sub/Chart.yaml", "name: sub\nversion: 0.1.0\n"),
        ("charts/sub/crds/d.json", "{}"),
        ("charts/_off/Chart.yaml", "broken: ["),
        ("charts/sub-0.1.0.tgz.prov", "signed"),
    ]);
    let chart = Chart::from_folder(&files).unwrap();
    assert_eq!((chart.name(), chart.metadata.app_version.as_str()), ("web", "4"));
    assert_eq!(chart.values["a"], 1);
    assert!(chart.schema.is_some());
    let names = |files: &[File]| files.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&chart.templates), ["templates/a.yaml"]);
    let files = [
        ".helmignore",
        "charts/sub-0.1.0.tgz.prov",
        "config/x.conf",
        "crds/README.md",
        "crds/c.yaml",
    ];
    assert_eq!(names(&chart.files), files);
    assert_eq!(chart.charts.len(), 1);
    assert!(chart.charts[0].metadata.is_v1());
    let crds: Vec<String> = chart.crds().into_iter().map(|(path, _)| path).collect();
    assert_eq!(crds, ["web/crds/c.yaml", "web/charts/sub/crds/d.json"]);
}

#[test]
fn requirements_of_the_first_format_are_dependencies() {
    let files = folder(&[
        ("Chart.yaml", "name: web\nversion: 1.0.0\n"),
        ("requirements.yaml", "dependencies:\n- name: db\n  version: ^1\n  alias: store\n"),
    ]);
    let chart = Chart::from_folder(&files).unwrap();
    let dependencies = chart.metadata.dependencies.as_ref().unwrap();
    assert_eq!(dependencies[0].effective_name(), "store");
    assert!(chart.file("requirements.yaml").is_some());
}

#[test]
fn archives_may_hold_archives() {
    let inner = archive(&[("db/Chart.yaml", b"name: db\nversion: 1.0.0\n")]);
    let outer = archive(&[
        ("web/Chart.yaml", CHART.as_bytes()),
        ("web/charts/db-1.0.0.tgz", &inner),
        ("web/templates/a.yaml", b"x"),
    ]);
    let chart = Chart::from_archive(&outer).unwrap();
    assert_eq!(chart.charts[0].name(), "db");
    assert_eq!(chart.templates[0].name, "templates/a.yaml");
}

#[test]
fn an_archive_cannot_lead_out_of_the_chart() {
    for (name, expected) in [
        ("web/../../etc/passwd", "leads out of the chart"),
        ("../Chart.yaml", "leads out of the chart"),
        ("web\\..\\x", "leads out of the chart"),
        ("/web/Chart.yaml", "absolute path"),
        ("web/c:/x", "absolute path"),
        ("Chart.yaml", "outside of the chart's folder"),
    ] {
        let error = Chart::from_archive(&archive(&[(name, b"x")])).unwrap_err();
        assert!(message(&error).contains(expected), "{name}: {}", message(&error));
    }
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link] {
        let mut tar = tar::Builder::new(Vec::new());
        entry(&mut tar, "web/values.yaml", kind, b"");
        let error = Chart::from_archive(&gzip(&tar.into_inner().unwrap())).unwrap_err();
        assert!(message(&error).contains("has the link \"web/values.yaml\""), "{error}");
    }
    let error = Chart::from_folder(&folder(&[("../x", "")])).unwrap_err();
    assert!(message(&error).contains("leads out"), "{error}");
}

#[test]
fn an_archive_cannot_grow_without_limit() {
    // The size is stated before the content, so that the content can be absent.
    let mut header = tar::Header::new_gnu();
    header.set_path("web/x").unwrap();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(MAX_FILE_BYTES + 1);
    header.set_cksum();
    let error = Chart::from_archive(&gzip(header.as_bytes())).unwrap_err();
    assert!(matches!(error, ChartError::FileSize(_)), "{error}");

    let three = archive(&[("web/a", b"12345"), ("web/b", b"12345"), ("web/c", b"1")]);
    let within = |files, bytes| archive::unpack_within(&three, &Budget { files, bytes });
    assert_eq!(within(3, 11).unwrap().len(), 3);
    assert!(matches!(within(3, 10), Err(ChartError::Size)));
    assert!(matches!(within(2, 11), Err(ChartError::Files)));

    // What a nested archive unpacks to counts for the whole chart.
    let files: [(&str, &[u8]); 2] =
        [("c/Chart.yaml", b"name: c\nversion: 1.0.0\n"), ("c/charts/c.tgz", &three)];
    let nested = archive::unpack_within(&archive(&files), &Budget::default()).unwrap();
    let left = files[0].1.len() as u64 + files[1].1.len() as u64 + 10;
    let error = load(nested, &mut Budget { files: 10, bytes: left }, 0).unwrap_err();
    assert!(message(&error).contains("larger than"), "{}", message(&error));
}

#[test]
fn charts_in_charts_end() {
    let mut packed = archive(&[("c/Chart.yaml", b"name: c\nversion: 1.0.0\n")]);
    for _ in 0..=MAX_DEPTH {
        let files: [(&str, &[u8]); 2] =
            [("c/Chart.yaml", b"name: c\nversion: 1.0.0\n"), ("c/charts/c.tgz", &packed)];
        packed = archive(&files);
    }
    let error = Chart::from_archive(&packed).unwrap_err();
    assert!(message(&error).contains("nested more than 16 deep"), "{}", message(&error));
}

#[test]
fn what_is_wrong_with_a_chart_is_reported_with_its_file() {
    let broken = |files: &[(&str, &str)]| message(&Chart::from_folder(&folder(files)).unwrap_err());
    assert_eq!(broken(&[("values.yaml", "")]), "Chart.yaml is missing");
    for (chart, expected) in [
        ("name: [", "Chart.yaml cannot be read: line 1"),
        ("- a\n", "Chart.yaml is not valid: expected a map, found a list"),
        ("version: 1.0.0\n", "Chart.yaml is not valid: the chart has no name"),
        ("name: a\n", "Chart.yaml is not valid: the chart has no version"),
        ("name: a/b\nversion: 1.0.0\n", "\"a/b\" cannot be the name of a chart"),
        ("name: a\nversion: one\n", "\"one\" is not a version"),
        ("name: a\nversion: 1\n", "invalid type: integer `1`, expected a string"),
        ("name: a\nversion: 1.0.0\ntype: plugin\n", "unknown variant `plugin`"),
        ("name: a\nversion: 1.0.0\ndependencies: [{name: b, alias: 'c d'}]\n", "an alias with"),
        ("name: a\nversion: 1.0.0\ndependencies: [{name: b}, {name: b}]\n", "more than one"),
    ] {
        let error = broken(&[("Chart.yaml", chart)]);
        assert!(error.contains(expected), "{chart}: {error}");
    }
    let error = broken(&[("Chart.yaml", CHART), ("values.yaml", "- a\n")]);
    assert_eq!(error, "values.yaml is a list, expected a map");
    let error = broken(&[("Chart.yaml", CHART), ("charts/sub/README.md", "")]);
    assert_eq!(error, "loading the sub-chart \"sub\": Chart.yaml is missing");
    let error = message(&Chart::from_archive(b"<html>").unwrap_err());
    assert!(error.contains("not a gzip archive"), "{error}");
}
