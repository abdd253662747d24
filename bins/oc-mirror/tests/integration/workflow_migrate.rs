//! `migrate`: what oc-mirror v2 left becomes a workspace.

use crate::support;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{LabRegistry, Settings};
use oci::{Digest, Platform};

use crate::workflow_oc_mirror_v2::mirrored_openshift;
use support::mounted::Mounted;
use support::oc_mirror_v2::OcMirrorV2;
use support::releases::{channel, places};
use support::{PLAIN, Ran, Site};

/// Names and digests of what is in a directory.
fn content(directory: &std::path::Path) -> Vec<(PathBuf, Digest)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(content(&path)),
            false => found.push((path.clone(), Digest::of(&fs::read(&path).unwrap()))),
        }
    }
    found.sort();
    found
}

#[test]
fn migrate_converts_workspace_cache_and_history_and_leaves_the_old_ones_as_they_are() {
    let (world, releases, site, v2) = mirrored_openshift();
    let extra = Image::tiny("not in the configuration").unwrap();
    world.quay.put_image(&extra, "org/extra", "v1").unwrap();
    let history: String = v2
        .blobs()
        .iter()
        .map(|path| {
            format!("sha256:{}\n", path.parent().unwrap().file_name().unwrap().to_str().unwrap())
        })
        .collect();
    v2.file(".history/.history-2026-01-02T03:04:05Z", history);
    v2.file("isc_pinned_2026-01-02T03:04:05Z.yaml", site.read("isc.yaml"));
    fs::create_dir(v2.workspace().join("oc-mirror-workspace")).unwrap();
    let before = content(v2.workspace());
    let old = v2.workspace().display();
    world.forget_requests();
    let command = format!("migrate file://{old} file://data --cache-dir {old}");
    let ran = Ran::of(world.command(&site, &command).output().unwrap());
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    assert_eq!(world.quay.requests().count() + world.service.server.requests().count(), 0);
    assert_eq!(content(v2.workspace()), before, "nothing of the old workspace is modified");
    assert!(ran.out.contains("belongs to version 1 of oc-mirror"), "{}", ran.out);
    assert!(
        ran.out.contains("in archives of oc-mirror v2 up to 2026-01-02T03:04:05Z"),
        "{}",
        ran.out
    );

    // The workspace can be pushed, without registries and without archives.
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    world.forget_requests();
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    assert_eq!(world.quay.requests().count(), 0);
    for (name, bytes) in places(&releases[1]) {
        let reference = format!("docker://{to}/{name}");
        assert_eq!(site.raw(&reference, &["--tls-verify=false"]), bytes, "{reference}");
    }

    // The next run downloads only what is new, and archives only that.
    world.offer_graph_data();
    site.image_set(
        "more.yaml",
        &(channel("stable-4.16", "      minVersion: 4.16.2\n")
            + "  additionalImages:\n  - name: quay.io/org/extra:v1\n"),
    );
    world.forget_requests();
    let ran = world.succeeds(&site, &format!("-c more.yaml {PLAIN} file://data"));
    let requests = world.quay.requests();
    for image in releases[1].components.iter().map(|(_, image)| image).chain([&releases[1].payload])
    {
        assert!(image.blobs.keys().all(|digest| requests.blob_gets(digest) == 0));
    }
    assert_eq!(ran.report()["archive"]["base"], 1, "{}", ran.out);
    let archive = ran.report()["archive"]["chunks"][0].as_str().unwrap().to_owned();
    let listed = String::from_utf8(site.judge("tar", &["-tf", &archive])).unwrap();
    let has = |digest: &Digest| listed.contains(&digest.hex());
    assert!(extra.blobs.keys().all(has), "{listed}");
    assert!(!releases[1].components[0].1.blobs.keys().any(has), "{listed}");
}

#[test]
fn migrate_explains_what_it_cannot_do() {
    let site = Site::new();
    site.images("isc.yaml", &["quay.io/a/b:1"]);
    fs::create_dir_all(site.path("v1/oc-mirror-workspace")).unwrap();
    fs::create_dir_all(site.path("empty")).unwrap();
    fs::create_dir_all(site.path("v2/working-dir")).unwrap();
    for (line, part) in [
        ("migrate file://v1 file://data -c isc.yaml", "workspace of oc-mirror version 1"),
        ("migrate file://empty file://data -c isc.yaml", "has no working-dir of oc-mirror v2"),
        ("migrate file://missing file://data -c isc.yaml", "is not a directory"),
        ("migrate file://v2 file://v2 -c isc.yaml", "overlap"),
        ("migrate file://v2 file://v2/new -c isc.yaml", "overlap"),
        ("migrate file://v2 file://data", "-c FILE"),
        ("migrate /v2 file://data", "file://"),
    ] {
        let ran = Ran::of(site.command(line).output().unwrap());
        assert_eq!(ran.code, 1, "{line}: {}{}", ran.out, ran.err);
        let message = ran.out + &ran.err;
        assert!(message.contains(part), "{line}: {message}");
    }
}

/// Bytes in use on the file system of a directory.
fn used(directory: &std::path::Path) -> u64 {
    let found = rustix::fs::statvfs(directory).unwrap();
    (found.f_blocks - found.f_bfree) * found.f_frsize
}

/// On ext4 content is linked, on XFS it is cloned. `LANDFALL_MIGRATE_MIB` sets the size of the content.
#[test]
fn migrate_takes_less_than_one_percent_of_additional_space_on_ext4_and_xfs() {
    const LAYERS: u64 = 5;
    let mib = std::env::var("LANDFALL_MIGRATE_MIB").map_or(60, |size| size.parse().unwrap());
    let source = LabRegistry::start(Settings::default()).unwrap();
    let layer = |number: u64| {
        Layer::generate(&format!("large {number}"), (mib << 20) / LAYERS, Compression::None)
    };
    let layers: Vec<Layer> = (0..LAYERS).map(|number| layer(number).unwrap()).collect();
    let image = Image::new(Format::Oci, Platform::new("linux", "amd64"), &layers).unwrap();
    source.put_image(&image, "org/large", "v1").unwrap();
    let name = format!("{}/org/large:v1", source.address());
    for (kind, links) in [("ext4", 2), ("xfs", 1)] {
        let site = Site::new();
        site.images("isc.yaml", &[&name]);
        // XFS needs 300 MB for itself.
        let disk = Mounted::in_file(&site.path("disk"), kind, (2 * mib + 500) << 20);
        let empty = used(&site.path("disk"));
        let mut v2 = OcMirrorV2::in_directory(&site.path("disk"));
        v2.copy(&site, &name, "org/large:v1");
        v2.file("internal/oc-mirror-version.json", "{}");
        v2.end();
        rustix::fs::sync();
        let before = used(&site.path("disk"));
        let (old, new) = (v2.workspace().display(), site.path("disk/new"));
        let line =
            format!("migrate file://{old} file://{} -c isc.yaml --cache-dir {old}", new.display());
        let ran = Ran::of(site.command(&line).output().unwrap());
        assert_eq!(ran.code, 0, "{kind}: {}{}", ran.out, ran.err);
        for digest in layers.iter().map(|layer| layer.blob.digest) {
            let blob = fs::metadata(new.join("blobs/sha256").join(digest.hex())).unwrap();
            assert_eq!(blob.nlink(), links, "{kind}: {digest}");
        }
        rustix::fs::sync();
        let (content, added) = (before - empty, used(&site.path("disk")) - before);
        println!("{kind}: {content} bytes of content, {added} bytes added");
        assert!(content > mib << 20, "{kind}: {content}");
        assert!(added < content / 100, "{kind}: {added} of {content}");
        drop((v2, disk));
    }
}
