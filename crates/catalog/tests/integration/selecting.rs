//! What is selected of a catalog, and what is reported about the rest.

use std::collections::BTreeSet;

use catalog::{BundleName, Catalog, Files, Severity, catalog_layer, filter, related_images};
use image_set::{Operator, parse_image_set};

fn bundle(package: &str, name: &str, version: &str, more: &str) -> String {
    format!(
        "---\nschema: olm.bundle\npackage: {package}\nname: {name}\nimage: quay.io/x/{name}@sha256:{}\n\
         properties:\n- {{type: olm.package, value: {{packageName: {package}, version: {version}}}}}\n{more}",
        "0".repeat(64)
    )
}

/// Two packages: `etcd` with two channels, and `db`, which needs it.
fn catalog() -> String {
    let related = "relatedImages:\n- {name: '', image: 'quay.io/x/etcd@sha256:%'}\n\
                   - {name: tool, image: 'quay.io/x/tool:1'}\n- {name: gone, image: ''}\n"
        .replace('%', &"1".repeat(64));
    let needs = "- {type: olm.package.required, value: {packageName: etcd, versionRange: '>=1.1.0 <2.0.0'}}\n\
                 - {type: olm.gvk.required, value: {group: g.io, version: v1, kind: Vault}}\n";
    let provides = "- {type: olm.gvk, value: {group: g.io, version: v1, kind: Vault}}\n";
    [
        "---\nschema: olm.package\nname: etcd\ndefaultChannel: stable\n".to_owned(),
        "---\nschema: olm.channel\npackage: etcd\nname: stable\nentries:\n- {name: etcd.v1.0.0}\n\
         - {name: etcd.v1.1.0, replaces: etcd.v1.0.0}\n- {name: etcd.v2.0.0, replaces: etcd.v1.1.0}\n"
            .to_owned(),
        "---\nschema: olm.channel\npackage: etcd\nname: beta\nentries:\n- {name: etcd.v3.0.0-rc1}\n"
            .to_owned(),
        bundle("etcd", "etcd.v1.0.0", "1.0.0", ""),
        bundle("etcd", "etcd.v1.1.0", "1.1.0", ""),
        bundle("etcd", "etcd.v2.0.0", "2.0.0", &related),
        bundle("etcd", "etcd.v3.0.0-rc1", "3.0.0-rc1", ""),
        "---\nschema: olm.deprecations\npackage: etcd\nentries:\n\
         - {reference: {schema: olm.bundle, name: etcd.v1.0.0}, message: old}\n\
         - {reference: {schema: olm.channel, name: beta}, message: rough}\n\
         - {reference: {schema: olm.package}, message: ends}\n"
            .to_owned(),
        "---\nschema: olm.package\nname: db\ndefaultChannel: main\n".to_owned(),
        "---\nschema: olm.channel\npackage: db\nname: main\nentries: [{name: db.v1.0.0}]\n".to_owned(),
        bundle("db", "db.v1.0.0", "1.0.0", needs),
        "---\nschema: olm.package\nname: vault\ndefaultChannel: main\n".to_owned(),
        "---\nschema: olm.channel\npackage: vault\nname: main\nentries: [{name: vault.v1.0.0}]\n".to_owned(),
        bundle("vault", "vault.v1.0.0", "1.0.0", provides),
        "---\nschema: olm.package\nname: broken\ndefaultChannel: none\n".to_owned(),
        "---\nschema: other\nname: loose\n".to_owned(),
        "---\nschema: other\npackage: db\n".to_owned(),
    ]
    .concat()
}

fn operator(yaml: &str) -> Operator {
    let text = format!(
        "kind: ImageSetConfiguration\nmirror:\n  operators:\n  - catalog: q.io/c:1\n{yaml}"
    );
    let set = parse_image_set("isc.yaml", &text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    set.mirror.operators[0].clone()
}

/// `package: channel bundle bundle, channel bundle; …`, and the findings.
fn select(yaml: &str) -> (String, Vec<String>) {
    let text = catalog();
    let files = Files::read([("index.yaml", text.as_bytes())]).unwrap();
    let catalog = Catalog::load(&files).unwrap();
    let operator = operator(yaml);
    let filtered = filter(&catalog, &operator);
    let packages: Vec<String> = filtered
        .packages
        .iter()
        .map(|kept| {
            let channels: Vec<String> = kept
                .channels
                .iter()
                .map(|kept| {
                    let names = kept.entries().map(|entry| entry.name.to_string());
                    format!("{} {}", kept.channel.name, names.collect::<Vec<_>>().join(" "))
                })
                .collect();
            format!("{}[{}]: {}", kept.package.name, kept.default_channel, channels.join(", "))
        })
        .collect();
    let output = filtered.findings.iter().map(|finding| {
        let mark = match finding.severity() {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        format!("{mark}: {finding}")
    });
    (packages.join("; "), output.collect())
}

#[track_caller]
fn check(yaml: &str, expected: &str, findings: &[&str]) {
    let (actual, output) = select(yaml);
    assert_eq!(actual, expected, "{yaml}\n{output:#?}");
    assert_eq!(output, findings, "{yaml}");
}

#[test]
fn without_packages_the_heads_of_all_channels_are_selected_and_broken_packages_named() {
    check(
        "",
        "db[main]: main db.v1.0.0; etcd[stable]: beta etcd.v3.0.0-rc1, stable etcd.v2.0.0; vault[main]: main vault.v1.0.0",
        &[
            "error: 4:5: the package \"broken\" is left out, as OLM would refuse the catalog with it: its default channel \"none\" does not exist",
            "warning: 4:5: db.v1.0.0 needs the package \"etcd\" in >=1.1.0 <2.0.0, which is not among what is selected; add the package \"etcd\", or set includeDependencies: true",
        ],
    );
}

#[test]
fn unknown_names_are_reported_with_the_nearest_and_the_rest_continues() {
    check(
        "    packages:\n    - {name: etc}\n    - {name: vault, channels: [{name: main}, {name: mian}]}\n    - {name: zzzzzz}\n",
        "vault[main]: main vault.v1.0.0",
        &[
            "error: 6:7: the catalog has no package \"etc\"; did you mean \"etcd\"?",
            "error: 7:46: the package \"vault\" has no channel \"mian\"; did you mean \"main\"?",
            "error: 8:7: the catalog has no package \"zzzzzz\"; see `oc-mirror list operators --catalog`",
        ],
    );
    check(
        "    packages:\n    - {name: nothing}\n",
        "",
        &[
            "error: 6:7: the catalog has no package \"nothing\"; see `oc-mirror list operators --catalog`",
            "error: 4:5: nothing is selected of the catalog",
        ],
    );
}

#[test]
fn a_default_channel_that_is_not_selected_must_be_replaced() {
    let without =
        "    packages:\n    - {name: etcd, channels: [{name: beta}]}\n    - {name: vault}\n";
    check(
        without,
        "vault[main]: main vault.v1.0.0",
        &[
            "error: 6:7: the package \"etcd\" is left out: its default channel is \"stable\", which is not selected; add the channel, or set defaultChannel to one that is (beta)",
        ],
    );
    let with =
        "    packages:\n    - {name: etcd, defaultChannel: beta, channels: [{name: beta}]}\n";
    check(with, "etcd[beta]: beta etcd.v3.0.0-rc1", &[]);
    let missing = "    packages:\n    - {name: etcd, defaultChannel: alpha}\n    - {name: vault}\n";
    check(
        missing,
        "vault[main]: main vault.v1.0.0",
        &[
            "error: 6:7: the package \"etcd\" is left out: defaultChannel \"alpha\" is not among what is selected of it; there is beta, stable",
        ],
    );
}

#[test]
fn channels_without_anything_selected_are_dropped() {
    check(
        "    packages:\n    - {name: etcd, minVersion: 1.1.0, maxVersion: 2.0.0}\n",
        "etcd[stable]: stable etcd.v1.1.0 etcd.v2.0.0",
        &[
            "note: 6:7: the channel \"beta\" of \"etcd\" is left out: minVersion 1.1.0 with maxVersion 2.0.0 selects nothing of it, which has 3.0.0-rc1",
        ],
    );
    check(
        "    packages:\n    - {name: etcd, minVersion: 3.0.0-rc1}\n    - {name: vault}\n",
        "vault[main]: main vault.v1.0.0",
        &[
            "error: 6:7: the package \"etcd\" is left out: minVersion 3.0.0-rc1 selects nothing of its default channel \"stable\", which has 1.0.0 to 2.0.0; set defaultChannel to one with something in it (beta)",
        ],
    );
}

#[test]
fn pre_releases_that_a_range_leaves_out_are_explained() {
    check(
        "    packages:\n    - {name: etcd, minVersion: 2.0.0}\n",
        "etcd[stable]: stable etcd.v2.0.0",
        &[
            "warning: 6:7: 3.0.0-rc1 of \"etcd\" in channel \"beta\" is left out: a version with a part after '-' is a pre-release, and a range includes pre-releases only if one of its bounds is one; write minVersion: 2.0.0-0 to include them",
            "note: 6:7: the channel \"beta\" of \"etcd\" is left out: minVersion 2.0.0 selects nothing of it, which has 3.0.0-rc1",
        ],
    );
    check(
        "    packages:\n    - {name: etcd, minVersion: 2.0.0-0}\n",
        "etcd[stable]: beta etcd.v3.0.0-rc1, stable etcd.v2.0.0",
        &[],
    );
}

#[test]
fn full_takes_everything_and_no_range_beside_it() {
    check(
        "    full: true\n    packages:\n    - {name: etcd}\n    - {name: vault, minVersion: 1.0.0}\n",
        "etcd[stable]: beta etcd.v3.0.0-rc1, stable etcd.v1.0.0 etcd.v1.1.0 etcd.v2.0.0",
        &[
            "error: 8:7: the package \"vault\" is left out: full takes every version, so it cannot be combined with minVersion and maxVersion; remove one of the two",
        ],
    );
}

#[test]
fn previous_versions_come_with_the_head() {
    check(
        "    packages:\n    - {name: etcd, channels: [{name: stable, previousVersions: 1}]}\n",
        "etcd[stable]: stable etcd.v1.1.0 etcd.v2.0.0",
        &[],
    );
}

#[test]
fn what_is_needed_is_added_when_requested() {
    check(
        "    includeDependencies: true\n    packages:\n    - {name: db}\n",
        "db[main]: main db.v1.0.0; etcd[stable]: stable etcd.v1.1.0; vault[main]: main vault.v1.0.0",
        &[
            "note: 4:5: added \"etcd\" (channel stable, etcd.v1.1.0), as db.v1.0.0 needs the package \"etcd\" in >=1.1.0 <2.0.0",
            "note: 4:5: added \"vault\" (channel main, vault.v1.0.0), as db.v1.0.0 needs the API g.io/v1 Vault",
        ],
    );
    check(
        "    packages:\n    - {name: db}\n",
        "db[main]: main db.v1.0.0",
        &[
            "warning: 4:5: db.v1.0.0 needs the package \"etcd\" in >=1.1.0 <2.0.0, which is not among what is selected; add the package \"etcd\", or set includeDependencies: true",
            "warning: 4:5: db.v1.0.0 needs the API g.io/v1 Vault, which is not among what is selected; add the package \"vault\", or set includeDependencies: true",
        ],
    );
}

#[test]
fn a_full_catalog_stays_as_it_is() {
    let text = catalog();
    let files = Files::read([("index.yaml", text.as_bytes())]).unwrap();
    let catalog = Catalog::load(&files).unwrap();
    let operator = operator("    full: true\n");
    let filtered = filter(&catalog, &operator);
    assert!(filtered.whole);
    assert_eq!((filtered.packages.len(), filtered.bundles().count()), (4, 6));
    assert!(filtered.findings.is_empty());
}

#[test]
fn the_images_of_a_selection_are_its_bundles_own_and_those_they_list() {
    let text = catalog().replace("quay.io/x/tool:1", "quay.io/x/tool");
    let files = Files::read([("index.yaml", text.as_bytes())]).unwrap();
    let catalog = Catalog::load(&files).unwrap();
    let operator = operator("    packages:\n    - {name: etcd, channels: [{name: stable}]}\n");
    let mut filtered = filter(&catalog, &operator);
    let found = related_images(&filtered);
    let images: Vec<String> =
        found.images.iter().map(|expected| expected.image.to_string()).collect();
    assert_eq!(
        images,
        [
            format!("quay.io/x/etcd@sha256:{}", "1".repeat(64)),
            format!("quay.io/x/etcd.v2.0.0@sha256:{}", "0".repeat(64)),
        ]
    );
    assert_eq!(
        found.images.iter().map(|expected| expected.is_bundle).collect::<Vec<_>>(),
        [false, true]
    );
    let name = BundleName { package: "etcd".into(), bundle: "etcd.v2.0.0".into() };
    assert!(found.images[0].wanted_by.contains_key(&name));
    assert_eq!(
        found.unusable[0].to_string(),
        "the bundle etcd.v2.0.0 needs the image \"quay.io/x/tool\", which cannot be mirrored: it has \
         neither tag nor digest"
    );
    filtered.leave_out(&BTreeSet::from([name]), "an image could not be mirrored");
    assert!(filtered.packages.is_empty());
    assert_eq!(
        filtered.findings[0].to_string(),
        "left out of the catalog: etcd.v2.0.0; an image could not be mirrored"
    );
}

#[test]
fn documents_are_written_as_they_came_except_for_what_the_selection_changes() {
    let text = catalog();
    let files = Files::read([("index.yaml", text.as_bytes())]).unwrap();
    let catalog = Catalog::load(&files).unwrap();
    let operator = operator(
        "    packages:\n    - {name: etcd, defaultChannel: beta, channels: [{name: beta}]}\n    - {name: db}\n",
    );
    let filtered = filter(&catalog, &operator);
    let written: Vec<(String, String)> = filtered
        .files()
        .iter()
        .map(|file| {
            let mut bytes = Vec::new();
            file.write_to(&mut bytes).unwrap();
            (file.path.clone(), String::from_utf8(bytes).unwrap())
        })
        .collect();
    let paths: Vec<&str> = written.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["catalog.json", "db/catalog.json", "etcd/catalog.json"]);
    assert_eq!(written[0].1, "{\"schema\":\"other\",\"name\":\"loose\"}\n");
    let lines: Vec<&str> = written[2].1.lines().collect();
    assert_eq!(
        lines[0],
        "{\"defaultChannel\":\"beta\",\"name\":\"etcd\",\"schema\":\"olm.package\"}"
    );
    assert_eq!(
        lines[1],
        "{\"schema\":\"olm.channel\",\"package\":\"etcd\",\"name\":\"beta\",\"entries\":[{\"name\":\"etcd.v3.0.0-rc1\"}]}"
    );
    assert!(lines[2].contains("\"name\":\"etcd.v3.0.0-rc1\""), "{}", lines[2]);
    assert_eq!(
        lines[3],
        "{\"entries\":[{\"reference\":{\"schema\":\"olm.channel\",\"name\":\"beta\"},\"message\":\"rough\"},\
         {\"reference\":{\"schema\":\"olm.package\"},\"message\":\"ends\"}],\"package\":\"etcd\",\"schema\":\"olm.deprecations\"}"
    );
    assert_eq!(lines.len(), 4);
}

const STORED_DIGEST: &str =
    "sha256:ab36cfc17ab66a8234bb56c53769143af2b374a3d0ffc0f2f2406147da335643";

#[test]
fn a_layer_has_the_files_and_the_same_digest_every_time() {
    let text = catalog();
    let operator = operator("    packages:\n    - {name: etcd}\n    - {name: vault}\n");
    let pack = || {
        let files = Files::read([("index.yaml", text.as_bytes())]).unwrap();
        let catalog = Catalog::load(&files).unwrap();
        let filtered = filter(&catalog, &operator);
        let mut written = Vec::new();
        for file in filtered.files() {
            let mut bytes = Vec::new();
            file.write_to(&mut bytes).unwrap();
            written.push((format!("configs/{}", file.path), bytes));
        }
        (catalog_layer(&filtered.files()).unwrap(), written)
    };
    let (layer, written) = pack();
    assert_eq!(pack().0, layer);
    // Stored when the packer was written. With another digest, every rebuilt catalog is pushed again
    // under a new one: no update of a library may change it.
    assert_eq!(layer.digest.to_string(), STORED_DIGEST);
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&layer.bytes[..]));
    let mut unpacked = Vec::new();
    let mut folders = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let header = entry.header();
        assert_eq!(
            (header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap()),
            (0, 0, 0)
        );
        let path = entry.path().unwrap().display().to_string();
        if entry.header().entry_type().is_dir() {
            assert_eq!(entry.header().mode().unwrap(), 0o755);
            folders.push(path);
        } else {
            assert_eq!(entry.header().mode().unwrap(), 0o644);
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
            unpacked.push((path, bytes));
        }
    }
    assert_eq!(folders, ["configs/", "configs/etcd/", "configs/vault/"]);
    assert_eq!(unpacked, written);
}
