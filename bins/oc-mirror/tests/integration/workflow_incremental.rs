//! Runs that build on each other, and the archives they leave.

use crate::support;

use std::fs;

use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{LabRegistry, Settings};
use oci::Platform;

use support::{PLAIN, Site, chunks, copy};

fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

/// An image on a base that all of them share.
fn image(name: &str) -> Image {
    let layer = |name: &str| Layer::generate(name, 30_000, Compression::Gzip).unwrap();
    let layers = [layer("base"), layer(name)];
    Image::new(Format::Oci, Platform::new("linux", "amd64"), &layers).unwrap()
}

/// A connected side after three runs, and what each of them archived:
/// `a` and `b`; then `c` new and `b` changed; then `a` changed.
struct ThreeRuns {
    site: Site,
    source: LabRegistry,
}

const RUNS: [&[(&str, &str)]; 3] = [
    &[("a", "a1"), ("b", "b1")],
    &[("a", "a1"), ("b", "b2"), ("c", "c2")],
    &[("a", "a3"), ("b", "b2"), ("c", "c2")],
];

impl ThreeRuns {
    fn new() -> Self {
        let three = Self { site: Site::new(), source: registry() };
        for (run, images) in RUNS.iter().enumerate() {
            for (name, content) in *images {
                three.source.put_image(&image(content), &format!("org/{name}"), "v1").unwrap();
            }
            three.configure(&three.site, run);
            let ran = three.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
            let report = ran.report();
            assert_eq!(report["run"], run + 1);
            assert_eq!(report["archive"]["run"], run + 1);
            let base = report["archive"]["base"].as_u64();
            assert_eq!(base, run.checked_sub(1).map(|before| before as u64 + 1));
        }
        three
    }

    /// Writes the configuration of a run.
    fn configure(&self, site: &Site, run: usize) {
        let name = |(name, _): &(&str, &str)| self.source.image(&format!("org/{name}"), "v1");
        let names: Vec<_> = RUNS[run].iter().map(|image| name(image).unwrap()).collect();
        site.images("isc.yaml", &names);
    }

    /// Transfers a run's archive to another machine.
    fn carry(&self, run: usize, to: &Site) {
        let name = format!("data/mirror_{:06}.tar", run + 1);
        fs::create_dir_all(to.path("data")).unwrap();
        fs::copy(self.site.path(&name), to.path(&name)).unwrap();
    }
}

fn push(target: &LabRegistry) -> String {
    format!("-c isc.yaml {PLAIN} --from file://data docker://{}", target.address())
}

/// Every image of a run is at the target, whole.
fn arrived(site: &Site, target: &LabRegistry, run: usize) {
    for (name, content) in RUNS[run] {
        let reference = format!("docker://{}/org/{name}:v1", target.address());
        let held = site.raw(&reference, &["--tls-verify=false"]);
        assert_eq!(held, image(content).root().bytes, "{reference}");
        site.pull(&reference, &["--src-tls-verify=false"]);
    }
}

#[test]
fn chunk_numbers_continue_and_all_chunks_together_fill_an_empty_registry() {
    let three = ThreeRuns::new();
    let made = chunks(&three.site.path("data"));
    let names: Vec<_> = made.iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(names, ["mirror_000001.tar", "mirror_000002.tar", "mirror_000003.tar"]);
    let sizes: Vec<u64> = made.iter().map(|path| path.metadata().unwrap().len()).collect();
    // Three layers, then two, then one: what was archived before is left out.
    assert!(sizes[0] > 90_000 && sizes[1] < 80_000 && sizes[2] < 50_000, "{sizes:?}");

    let other_side = Site::new();
    (0..3).for_each(|run| three.carry(run, &other_side));
    three.configure(&other_side, 2);
    let target = registry();
    other_side.succeeds(&push(&target));
    arrived(&other_side, &target, 2);
}

#[test]
fn each_archive_is_pushed_as_it_comes_and_may_be_removed_then() {
    let three = ThreeRuns::new();
    let other_side = Site::new();
    let target = registry();
    for (run, images) in RUNS.iter().enumerate() {
        if run > 0 {
            fs::remove_file(other_side.path(&format!("data/mirror_{run:06}.tar"))).unwrap();
        }
        three.carry(run, &other_side);
        three.configure(&other_side, run);
        let ran = other_side.succeeds(&push(&target));
        assert_eq!(ran.total("copied") + ran.total("present"), images.len() as u64);
        arrived(&other_side, &target, run);
    }
}

#[test]
fn the_last_archive_alone_names_the_missing_ones_and_pushes_nothing() {
    let three = ThreeRuns::new();
    let other_side = Site::new();
    three.carry(2, &other_side);
    three.configure(&other_side, 2);
    let target = registry();
    let ran = other_side.run(&push(&target));
    assert_eq!(ran.code, 1, "{}", ran.out);
    let errors = ran.errors();
    assert!(errors.contains("mirror_000001.tar"), "{errors}");
    assert!(errors.contains("mirror_000002.tar"), "{errors}");
    let changes: Vec<_> = target
        .requests()
        .0
        .into_iter()
        .filter(|request| !["GET", "HEAD"].contains(&request.method.as_str()))
        .collect();
    assert!(changes.is_empty(), "{changes:?}");

    // With the chunks it names, it works.
    three.carry(0, &other_side);
    three.carry(1, &other_side);
    other_side.succeeds(&push(&target));
    arrived(&other_side, &target, 2);
}

#[test]
fn an_archive_since_long_ago_holds_everything() {
    let three = ThreeRuns::new();
    let ran = three.site.succeeds(&format!("-c isc.yaml {PLAIN} --since 2020-01-01 file://data"));
    assert_eq!(ran.report()["archive"]["base"], serde_json::Value::Null);
    let other_side = Site::new();
    three.carry(3, &other_side);
    three.configure(&other_side, 2);
    let target = registry();
    other_side.succeeds(&push(&target));
    arrived(&other_side, &target, 2);
}

#[test]
fn archives_before_a_run_are_removed_and_a_run_without_news_makes_none() {
    let three = ThreeRuns::new();
    let line = format!("-c isc.yaml {PLAIN} --remove-archives-before 3 file://data");
    let ran = three.site.succeeds(&line);
    assert_eq!(ran.report()["archive"], serde_json::Value::Null);
    assert_eq!(chunks(&three.site.path("data")), [three.site.path("data/mirror_000003.tar")]);

    // Numbers are never used again.
    three.source.put_image(&image("a5"), "org/a", "v1").unwrap();
    let ran = three.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let made = ran.report()["archive"]["chunks"][0].as_str().unwrap().to_owned();
    assert!(made.ends_with("mirror_000004.tar"), "{made}");
}

#[test]
fn archives_are_not_removed_if_none_would_be_left() {
    let three = ThreeRuns::new();
    three.source.forget_requests();
    for before in [4, 5, 99] {
        let line = format!("-c isc.yaml {PLAIN} --remove-archives-before {before} file://data");
        let ran = three.site.run(&line);
        assert_eq!(ran.code, 1, "{}", ran.out);
        let errors = ran.errors();
        for name in ["mirror_000001.tar", "mirror_000002.tar", "mirror_000003.tar"] {
            assert!(errors.contains(name), "what would be lost is listed: {errors}");
        }
        assert_eq!(chunks(&three.site.path("data")).len(), 3);
    }
    assert_eq!(three.source.requests().count(), 0, "found before anything is fetched");

    // The first run of a workspace does not remove its own archive either.
    let first = Site::new();
    three.configure(&first, 2);
    let ran = first.run(&format!("-c isc.yaml {PLAIN} --remove-archives-before 99 file://data"));
    assert_eq!(ran.code, 1, "{}", ran.out);
    first.succeeds(&format!("-c isc.yaml {PLAIN} --remove-archives-before 1 file://data"));
    assert_eq!(chunks(&first.path("data")).len(), 1);
}

#[test]
fn a_workspace_without_archives_does_as_well() {
    let three = ThreeRuns::new();
    let connected = Site::new();
    three.configure(&connected, 2);
    connected.succeeds(&format!("-c isc.yaml {PLAIN} --no-archive file://data"));
    assert_eq!(chunks(&connected.path("data")), [] as [std::path::PathBuf; 0]);

    let other_side = Site::new();
    copy(&connected.path("data"), &other_side.path("data"));
    three.configure(&other_side, 2);
    let target = registry();
    other_side.succeeds(&push(&target));
    arrived(&other_side, &target, 2);
}

#[test]
fn a_run_whose_configuration_selects_nothing_does_not_damage_the_workspace() {
    let three = ThreeRuns::new();
    let blocked =
        "  additionalImages:\n  - name: quay.io/a/b:1\n  blockedImages:\n  - name: quay\n";
    three.site.image_set("isc.yaml", blocked);
    let ran = three.site.run(&format!("-c isc.yaml {PLAIN} --no-archive file://data"));
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.errors().contains("no images to copy"), "{}", ran.out);

    for chunk in chunks(&three.site.path("data")) {
        fs::remove_file(chunk).unwrap();
    }
    three.configure(&three.site, 2);
    let target = registry();
    three.site.succeeds(&push(&target));
    arrived(&three.site, &target, 2);
}

#[test]
fn a_run_without_news_writes_a_small_archive_once_the_others_were_moved_away() {
    let three = ThreeRuns::new();
    let line = format!("-c isc.yaml {PLAIN} file://data");
    for chunk in chunks(&three.site.path("data")) {
        fs::create_dir_all(three.site.path("carried")).unwrap();
        fs::rename(&chunk, three.site.path("carried").join(chunk.file_name().unwrap())).unwrap();
    }
    let report = three.site.succeeds(&line).report();
    assert_eq!(report["archive"]["base"], 3);
    let [small] = &chunks(&three.site.path("data"))[..] else { panic!("{report}") };
    assert!(fs::metadata(small).unwrap().len() < 30_000, "it has none of the layers");
    // It is there now, so the next run without news writes none.
    assert!(three.site.succeeds(&line).report().get("archive").is_none());
    // With the earlier ones, it fills an empty registry.
    fs::rename(small, three.site.path("carried").join(small.file_name().unwrap())).unwrap();
    let target = registry();
    let to = target.address();
    three.site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://carried docker://{to}"));
    arrived(&three.site, &target, 2);
}
