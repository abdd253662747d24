//! Archives and caches of oc-mirror v2 are used where they are.

use crate::support;

use std::fs;
use std::path::PathBuf;

use lab::images::{Compression, Format, Image, Layer, SigningKey};
use lab::registry::{LabRegistry, Settings};
use lab::releases::Release;
use oci::{Digest, Platform};
use serde_json::json;

use support::oc_mirror_v2::OcMirrorV2;
use support::operators::{catalog_image, package};
use support::releases::{World, channel, places};
use support::{PLAIN, Ran, Site};

/// A source with images, and a machine on which oc-mirror v2 has mirrored them to disk.
struct Images {
    source: LabRegistry,
    site: Site,
    v2: OcMirrorV2,
    list: Image,
    signed: Image,
    layer: Digest,
}

impl Images {
    fn new() -> Self {
        let source = LabRegistry::start(Settings::default()).unwrap();
        let (site, mut v2) = (Site::new(), OcMirrorV2::new());
        let layer = Layer::generate("base", 50_000, Compression::Gzip).unwrap();
        let of = |architecture: &str| {
            let platform = Platform::new("linux", architecture);
            Image::new(Format::Oci, platform, std::slice::from_ref(&layer)).unwrap()
        };
        let list = Image::list(Format::Oci, ["amd64", "arm64"].map(of)).unwrap();
        let name = format!("{}/org/signed", source.address());
        let key = SigningKey::generate().unwrap();
        let signed = Image::tiny("signed").unwrap().signed(&key, &name).unwrap();
        source.put_image(&list, "org/list", "v1").unwrap();
        source.put_image(&signed, "org/signed", "v1").unwrap();
        let from = source.address();
        let hex = signed.digest().hex();
        v2.copy(&site, &format!("{from}/org/list:v1"), "org/list:v1");
        v2.copy(
            &site,
            &format!("{from}/org/signed@sha256:{hex}"),
            &format!("org/signed:sha256-{hex}"),
        );
        v2.copy(
            &site,
            &format!("{from}/org/signed:sha256-{hex}.sig"),
            &format!("org/signed:sha256-{hex}.sig"),
        );
        v2.file("internal/oc-mirror-version.json", r#"{"gitVersion":"v2.0.0"}"#);
        v2.file("logs/oc-mirror-20260101_000000.log", "text");
        v2.end();
        site.write("key.pub", &key.public_pem());
        let signed_name = format!("{from}/org/signed@{}", signed.digest());
        site.images("isc.yaml", &[format!("{from}/org/list:v1"), signed_name]);
        let layer = layer.blob.digest;
        Self { source, site, v2, list, signed, layer }
    }

    /// Pushes what is in `archives` to a new registry.
    fn push(&self, flags: &str) -> (Ran, LabRegistry) {
        let target = LabRegistry::start(Settings::default()).unwrap();
        let to = target.address();
        let ran = self
            .site
            .run(&format!("-c isc.yaml {PLAIN} {flags} --from file://archives docker://{to}/ns"));
        (ran, target)
    }

    fn archives(&self) -> PathBuf {
        self.site.path("archives")
    }
}

#[test]
fn archives_of_oc_mirror_v2_are_pushed_straight_from_their_files() {
    let images = Images::new();
    for (chunks, format) in [(1, "ustar"), (3, "pax"), (7, "gnu")] {
        images.v2.archive(&images.archives(), chunks, format, &[]);
        images.source.forget_requests();
        let (ran, target) = images.push("");
        assert_eq!(ran.code, 0, "{format}: {}\n{}", ran.err, ran.out);
        assert_eq!(ran.total("copied"), 2);
        assert_eq!(images.source.requests().count(), 0, "no request to the source");
        let to = target.address();
        let hex = images.signed.digest().hex();
        let plain = ["--tls-verify=false"];
        for (name, bytes) in [
            ("org/list:v1".to_owned(), &images.list.root().bytes),
            (format!("org/signed:sha256-{hex}"), &images.signed.root().bytes),
            (format!("org/signed:sha256-{hex}.sig"), &images.signed.attachments[0].manifest.bytes),
        ] {
            let reference = format!("docker://{to}/ns/{name}");
            assert_eq!(&images.site.raw(&reference, &plain), bytes, "{reference}");
            images.site.pull(&reference, &["--src-tls-verify=false"]);
        }
        // Nothing is extracted: the directory has the archives and the log, and no blobs.
        assert!(!images.archives().join("blobs").exists());
        assert!(!images.archives().join("docker").exists());
        fs::remove_dir_all(images.archives()).unwrap();
    }
}

#[test]
fn what_is_wrong_with_an_archive_of_v2_is_found_before_anything_is_pushed() {
    let images = Images::new();
    let blob = images.v2.blob(&images.layer);
    let sound = fs::read(&blob).unwrap();

    // A damaged blob.
    let mut rotten = sound.clone();
    rotten[1000] ^= 1;
    fs::write(&blob, &rotten).unwrap();
    images.v2.archive(&images.archives(), 2, "ustar", &[]);
    let (ran, target) = images.push("");
    assert_ne!(ran.code, 0);
    let errors = ran.errors();
    assert!(
        errors.contains("is damaged") && errors.contains(&images.layer.to_string()),
        "{errors}"
    );
    assert!(errors.contains("mirror_00000"), "{errors}");
    assert_eq!(target.requests().of(&http::Method::PUT, "").count(), 0);
    fs::write(&blob, &sound).unwrap();

    // A file that ends too early.
    let chunks = images.v2.archive(&images.archives(), 2, "ustar", &[]);
    let length = fs::metadata(&chunks[1]).unwrap().len();
    fs::File::options().write(true).open(&chunks[1]).unwrap().set_len(length / 2).unwrap();
    let (ran, target) = images.push("");
    assert_eq!(ran.code, 1, "{}", ran.out);
    let errors = ran.errors();
    assert!(errors.contains("mirror_000002.tar is not a complete archive"), "{errors}");
    assert!(errors.contains("truncated"), "{errors}");
    assert_eq!(target.requests().count(), 0);

    // A file that is missing: its content is nowhere.
    images.v2.archive(&images.archives(), 4, "ustar", &[]);
    fs::remove_file(images.archives().join("mirror_000003.tar")).unwrap();
    let (ran, target) = images.push("");
    assert_ne!(ran.code, 0);
    let warnings = ran.report()["warnings"].to_string();
    assert!(warnings.contains("mirror_000003.tar is missing"), "{warnings}");
    assert_eq!(target.requests().of(&http::Method::PUT, "").count(), 0, "{}", ran.out);

    // A file of version 1.
    fs::remove_dir_all(images.archives()).unwrap();
    fs::create_dir(images.archives()).unwrap();
    fs::write(images.archives().join("mirror_seq1_000000.tar"), [0; 2048]).unwrap();
    let (ran, target) = images.push("");
    assert_eq!(ran.code, 1);
    let errors = ran.errors();
    assert!(
        errors.contains("mirror_seq1_000000.tar is an archive of oc-mirror version 1"),
        "{errors}"
    );
    assert_eq!(target.requests().count(), 0);
}

#[test]
fn an_image_whose_link_is_missing_is_reported_and_the_others_are_pushed() {
    let images = Images::new();
    fs::remove_dir_all(images.v2.cached("repositories/org/list/_manifests/tags/v1")).unwrap();
    images.v2.archive(&images.archives(), 1, "ustar", &[]);
    let (ran, _target) = images.push("");
    assert_eq!(ran.code, 8, "{}", ran.out);
    assert_eq!(ran.image("org/signed")["outcome"], "copied");
    let why = ran.image("org/list")["error"].to_string();
    assert!(why.contains("neither in an archive here nor in the workspace"), "{why}");
}

#[test]
fn a_later_archive_builds_on_what_an_earlier_push_left_in_the_cache() {
    let images = Images::new();
    let delivered = images.v2.blobs();
    // Of the second run, only links and what is new are in the archive: here, nothing is new.
    images.v2.archive(&images.archives(), 1, "ustar", &delivered);
    let (ran, target) = images.push("");
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert_eq!(target.requests().of(&http::Method::PUT, "").count(), 0);
    let why = ran.image("org/list")["error"].to_string();
    assert!(why.contains("neither it nor a cache here has its content"), "{why}");

    let cache = images.v2.cache_dir().display();
    let (ran, target) = images.push(&format!("--cache-dir {cache}"));
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    images.site.pull(
        &format!("docker://{}/ns/org/list:v1", target.address()),
        &["--src-tls-verify=false"],
    );
}

#[test]
fn a_policy_judges_what_archives_of_v2_contain() {
    let images = Images::new();
    images.v2.archive(&images.archives(), 1, "ustar", &[]);
    let from = images.source.address();
    let key = images.site.path("key.pub");
    let signed = json!([{"type": "sigstoreSigned", "keyPath": key, "signedIdentity": {"type": "matchRepository"}}]);
    let docker = json!({ format!("{from}/org"): signed });
    let policy = json!({"default": [{"type": "reject"}], "transports": {"docker": docker}});
    images.site.write("policy.json", &policy.to_string());
    let (ran, target) = images.push("--secure-policy --policy policy.json");
    assert_eq!(ran.code, 8, "{}", ran.out);
    assert_eq!(ran.image("org/signed")["outcome"], "copied");
    let why = ran.image("org/list")["error"].to_string();
    assert!(why.contains("is rejected by policy"), "{why}");
    assert_eq!(target.requests().of(&http::Method::PUT, "org/list").count(), 0);
}

#[test]
fn nothing_that_a_cache_of_v2_has_is_downloaded_again_and_the_cache_stays_as_it_is() {
    let images = Images::new();
    let before = snapshot(&images);
    let cache = images.v2.cache_dir().display();
    images.source.forget_requests();
    let line = format!("-c isc.yaml {PLAIN} --cache-dir {cache} file://data");
    images.site.succeeds(&line);
    let requests = images.source.requests();
    for image in [&images.list, &images.signed] {
        for digest in image.blobs.keys() {
            assert_eq!(requests.blob_gets(digest), 0, "{digest}");
        }
    }
    assert_eq!(snapshot(&images), before, "the cache is only read");
    // The workspace is complete without the cache.
    images.source.forget_requests();
    let ran = images.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(ran.total("copied"), 0);

    // A blob that is damaged in the cache is downloaded.
    fs::write(images.v2.blob(&images.layer), b"rotten").unwrap();
    images.source.forget_requests();
    images.site.succeeds(&format!("-c isc.yaml {PLAIN} --cache-dir {cache} file://other"));
    assert_eq!(images.source.requests().blob_gets(&images.layer), 1);

    // A folder without a cache is accepted, with a note.
    let ran =
        images.site.succeeds(&format!("-c isc.yaml {PLAIN} --cache-dir nothing file://third"));
    let warnings = ran.report()["warnings"].to_string();
    assert!(warnings.contains("nothing has no cache of oc-mirror v2"), "{warnings}");
    assert!(!images.site.path("nothing").exists());
}

#[test]
fn mirror_to_mirror_takes_from_a_cache_of_v2_what_it_has() {
    let images = Images::new();
    let before = snapshot(&images);
    let cache = images.v2.cache_dir().display();
    for (number, flags) in ["", "--through-workspace"].into_iter().enumerate() {
        let target = LabRegistry::start(Settings::default()).unwrap();
        let to = target.address();
        images.source.forget_requests();
        images.site.succeeds(&format!(
            "-c isc.yaml {PLAIN} {flags} --cache-dir {cache} --workspace file://ws{number} docker://{to}"
        ));
        let requests = images.source.requests();
        for image in [&images.list, &images.signed] {
            for digest in image.blobs.keys() {
                assert_eq!(requests.blob_gets(digest), 0, "{flags} {digest}");
            }
        }
        images.site.pull(&format!("docker://{to}/org/list:v1"), &["--src-tls-verify=false"]);
    }
    assert_eq!(snapshot(&images), before, "the cache is only read");

    // A blob that is damaged in the cache is read from the source, and never pushed damaged.
    fs::write(images.v2.blob(&images.layer), b"rotten").unwrap();
    images.source.forget_requests();
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    images.site.succeeds(&format!(
        "-c isc.yaml {PLAIN} --cache-dir {cache} --workspace file://ws2 docker://{to}"
    ));
    assert_eq!(images.source.requests().blob_gets(&images.layer), 1);
    images.site.pull(&format!("docker://{to}/org/list:v1"), &["--src-tls-verify=false"]);
}

#[test]
fn a_cache_and_an_archive_of_another_architecture_are_a_clear_error() {
    let (world, releases, site, v2) = mirrored_openshift();
    let isc = channel(
        "stable-4.16",
        "      minVersion: 4.16.2\n      maxVersion: 4.16.2\n    architectures: [arm64]\n",
    );
    site.image_set("arm64.yaml", &isc);
    v2.archive(&site.path("archives"), 1, "ustar", &[]);
    let target = LabRegistry::start(Settings::default()).unwrap();
    let (to, cache) = (target.address(), v2.cache_dir().display());
    world.forget_requests();
    let line = format!(
        "-c arm64.yaml {PLAIN} --cache-dir {cache} --from file://archives docker://{to}/ocp"
    );
    let ran = world.run(&site, &line);
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert!(ran.errors().contains("arm64"), "{}", ran.errors());
    assert!(!ran.out.contains(&releases[1].payload.digest().to_string()), "{}", ran.out);
    assert_eq!(target.requests().of(&http::Method::PUT, "").count(), 0, "{}", ran.out);
    assert_eq!(world.quay.requests().count(), 0);
}

#[test]
fn a_cache_that_is_in_use_is_refused() {
    let images = Images::new();
    let open = fs::File::open(images.v2.blob(&images.layer)).unwrap();
    let mut user = std::process::Command::new("sleep").arg("600").stdin(open).spawn().unwrap();
    let cache = images.v2.cache_dir().display();
    images.source.forget_requests();
    let ran = images.site.run(&format!("-c isc.yaml {PLAIN} --cache-dir {cache} file://data"));
    user.kill().unwrap();
    user.wait().unwrap();
    assert_eq!(ran.code, 1);
    let errors = ran.errors();
    assert!(errors.contains("is in use: process") && errors.contains("(sleep)"), "{errors}");
    assert_eq!(images.source.requests().count(), 0);
}

/// Names, lengths and times of all files of the cache.
fn snapshot(images: &Images) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut files = images.v2.blobs();
    files.sort();
    let root = images.v2.cache_dir().join(".oc-mirror/.cache");
    let of = |file: PathBuf| {
        let meta = fs::metadata(root.join(&file)).unwrap();
        (file, meta.len(), meta.modified().unwrap())
    };
    files.into_iter().map(of).collect()
}

/// oc-mirror v2 has mirrored a release, its graph image and a filtered catalog.
pub(crate) fn mirrored_openshift() -> (World, Vec<Release>, Site, OcMirrorV2) {
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    let site = world.site();
    let mut v2 = OcMirrorV2::new();
    let quay = world.quay.address();
    let release = &releases[1];
    let tag = release.tag();
    let digest = release.payload.digest();
    v2.copy(
        &site,
        &format!("{quay}/openshift-release-dev/ocp-release@{digest}"),
        &format!("openshift/release-images:{tag}"),
    );
    for (name, image) in &release.components {
        let from = format!("{quay}/openshift-release-dev/ocp-v4.0-art-dev@{}", image.digest());
        v2.copy(&site, &from, &format!("openshift/release:{tag}-{name}"));
    }
    let graph = Image::tiny("graph").unwrap();
    world.quay.put_image(&graph, "made/graph", "latest").unwrap();
    v2.copy(&site, &format!("{quay}/made/graph:latest"), "openshift/graph-image:latest");

    let text = package(
        "web",
        "stable",
        &[("1.0.0", json!({})), ("1.1.0", json!({"replaces": "web.v1.0.0"}))],
    );
    let catalog = catalog_image(&[("web/catalog.json", text.as_bytes())]);
    world.quay.put_image(&catalog, "org/catalog", "v4.16").unwrap();
    world.quay.put_image(&Image::tiny("web").unwrap(), "org/web", "1.1.0").unwrap();
    v2.copy(&site, &format!("{quay}/org/catalog:v4.16"), "org/catalog:v4.16");
    v2.copy(&site, &format!("{quay}/org/web:1.1.0"), "org/web:1.1.0");

    let graph = support::releases::chain(&releases).to_json().to_string();
    v2.file("hold-release/cincinnati-graph-data/amd64-stable-4.16.json", graph);
    let signature = world.key.sign(&release.claim()).unwrap();
    v2.file(&format!("signatures/{tag}-sha256-{}", digest.hex()), signature);
    // What an attacker wrote here does not count: the payload lists what it consists of.
    v2.file(&format!("hold-release/ocp-release/{tag}/release-manifests/image-references"), "{}");
    v2.end();
    let isc = channel(
        "stable-4.16",
        "      minVersion: 4.16.2\n      maxVersion: 4.16.2\n    graph: true\n",
    ) + "  operators:\n  - catalog: quay.io/org/catalog:v4.16\n    packages:\n    - name: web\n";
    site.image_set("isc.yaml", &isc);
    (world, releases, site, v2)
}

#[test]
fn releases_graph_and_catalogs_are_pushed_from_an_archive_of_v2() {
    let (world, releases, site, v2) = mirrored_openshift();
    v2.archive(&site.path("archives"), 2, "ustar", &[]);
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    world.forget_requests();
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} --from file://archives docker://{to}/ocp"));
    assert_eq!(world.quay.requests().count(), 0);
    assert_eq!(world.service.server.requests().count(), 0);
    for (name, bytes) in places(&releases[1]) {
        let reference = format!("docker://{to}/ocp/{name}");
        assert_eq!(site.raw(&reference, &["--tls-verify=false"]), bytes, "{reference}");
    }
    for name in ["openshift/graph-image:latest", "org/catalog:v4.16", "org/web:1.1.0"] {
        site.pull(&format!("docker://{to}/ocp/{name}"), &["--src-tls-verify=false"]);
    }
    let resources = site.path("archives/working-dir/cluster-resources");
    for name in ["idms-oc-mirror.yaml", "updateService.yaml", "cs-catalog-v4-16.yaml"] {
        assert!(resources.join(name).exists(), "{name}");
    }
}

/// Unpacks archives as oc-mirror v2 does: `docker/…` into its cache, `working-dir/…` beside it.
fn unpack(site: &Site, archives: &[PathBuf], into: &str) {
    fs::create_dir_all(site.path(into)).unwrap();
    for archive in archives {
        let into = site.path(into).display().to_string();
        site.judge("tar", &["-C", &into, "-xf", archive.to_str().unwrap()]);
    }
}

#[test]
fn an_archive_for_oc_mirror_v2_is_a_cache_that_docker_registry_serves() {
    use lab::docker_registry::{DockerRegistry, Settings as RegistrySettings};
    let (world, releases, site, _) = mirrored_openshift();
    world.offer_graph_data();
    let release = &releases[1];
    let line = format!("-c isc.yaml {PLAIN} --archive-format oc-mirror-v2 file://data");
    let ran = world.succeeds(&site, &line);
    let archives = support::chunks(&site.path("data"));
    assert_eq!(archives.len(), 1, "{}", ran.out);
    let listed =
        String::from_utf8(site.judge("tar", &["-tf", archives[0].to_str().unwrap()])).unwrap();
    let first = listed.lines().next().unwrap();
    assert!(first.starts_with("docker/registry/v2/repositories/"), "{first}");
    let last = listed.lines().last().unwrap();
    assert!(last.starts_with("isc_20") && last.ends_with('Z'), "{last}");

    unpack(&site, &archives, "unpacked");
    let storage = Some(site.path("unpacked"));
    let cache = DockerRegistry::start(&RegistrySettings { storage, ..RegistrySettings::default() })
        .unwrap();
    let at = |name: &str| format!("docker://{}/{name}", cache.address());
    for (name, bytes) in places(release) {
        assert_eq!(site.raw(&at(&name), &["--tls-verify=false"]), bytes, "{name}");
        site.pull(&at(&name), &["--src-tls-verify=false"]);
    }
    for name in ["openshift/graph-image:latest", "org/catalog:v4.16", "org/web:1.1.0"] {
        site.pull(&at(name), &["--src-tls-verify=false"]);
    }
    // The names of files and tags by which oc-mirror v2 detects that it need not select again.
    let original = Digest::of(&site.raw(&at("org/catalog:v4.16"), &["--tls-verify=false"])).hex();
    let filter = format!(
        r#"{{"packages":[{{"name":"web"}}],"catalog":"quay.io/org/catalog@sha256:{original}"}}"#
    );
    let mut md5 = std::process::Command::new("md5sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut md5.stdin.take().unwrap(), filter.as_bytes()).unwrap();
    let hash = String::from_utf8(md5.wait_with_output().unwrap().stdout).unwrap();
    let hash = hash.split(' ').next().unwrap();
    let folder = format!(
        "unpacked/working-dir/operator-catalogs/catalog/{original}/filtered-catalogs/{hash}"
    );
    let rebuilt = site.raw(&at(&format!("org/catalog:{hash}")), &["--tls-verify=false"]);
    assert_eq!(site.read(&format!("{folder}/digest")), Digest::of(&rebuilt).hex());
    let text = site.read(&format!("{folder}/catalog-config/web/catalog.json"));
    assert!(text.contains("web.v1.1.0") && !text.contains("web.v1.0.0\",\"package"), "{text}");
    site.pull(&at(&format!("org/catalog:{hash}")), &["--src-tls-verify=false"]);
    let tag = release.tag();
    for name in [
        "hold-release/cincinnati-graph-data/amd64-stable-4.16.json".to_owned(),
        format!("hold-release/ocp-release/{tag}/release-manifests/image-references"),
        format!("signatures/{tag}-sha256-{}", release.payload.digest().hex()),
        "internal/oc-mirror-version.json".to_owned(),
    ] {
        assert!(site.path("unpacked/working-dir").join(&name).is_file(), "{name}");
    }

    // This program pushes it, too, from the files alone.
    fs::create_dir(site.path("carried")).unwrap();
    fs::copy(&archives[0], site.path("carried/mirror_000001.tar")).unwrap();
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    world.forget_requests();
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} --from file://carried docker://{to}"));
    assert_eq!(world.quay.requests().count(), 0);
    site.pull(&format!("docker://{to}/org/catalog:v4.16"), &["--src-tls-verify=false"]);
}

#[test]
fn an_archive_for_oc_mirror_v2_has_only_what_is_new_and_blobs_in_one_piece() {
    let source = LabRegistry::start(Settings::default()).unwrap();
    let site = Site::new();
    let [one, two] = ["one", "two"].map(|name| Image::tiny(name).unwrap());
    source.put_image(&one, "org/one", "v1").unwrap();
    source.put_image(&two, "org/two", "v1").unwrap();
    let names = ["one", "two"].map(|name| format!("{}/org/{name}:v1", source.address()));
    site.images("one.yaml", &names[..1]);
    site.images("both.yaml", &names);
    let flags = format!("{PLAIN} --archive-format oc-mirror-v2 file://data");
    site.succeeds(&format!("-c one.yaml {flags}"));
    site.succeeds(&format!("-c both.yaml {flags}"));
    let archives = support::chunks(&site.path("data"));
    assert_eq!(archives.len(), 2);
    let second =
        String::from_utf8(site.judge("tar", &["-tf", archives[1].to_str().unwrap()])).unwrap();
    let blob = |digest: &Digest| second.contains(&format!("/{}/data", digest.hex()));
    assert!(two.blobs.keys().all(blob) && !one.blobs.keys().any(blob), "{second}");
    assert!(second.contains("repositories/org/one/_manifests/tags/v1/current/link"), "{second}");

    let ran = site.run(&format!(
        "-c one.yaml {PLAIN} --archive-format oc-mirror-v2 --from file://data docker://localhost:1"
    ));
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("--archive-format has a meaning for mirror to disk only"),
        "{}",
        ran.err
    );
}
