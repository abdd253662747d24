//! Registries that are busy, cut off, slow, or send wrong content: what is available arrives,
//! what cannot is named, and nothing wrong is ever kept.

use crate::support;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::Method;
use lab::images::{Blob, Compression, Format, Image, Layer};
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use oci::Digest;
use support::{PLAIN, Ran, Site};

/// Large enough to get its own file while it is received.
const LARGE: u64 = 600_000;
const PATIENT: &str = "--retry-times 3 --retry-delay 10ms";

fn image(name: &str, size: u64) -> (Image, Blob) {
    let layer = Layer::generate(name, size, Compression::None).unwrap();
    let platform = "linux/amd64".parse().unwrap();
    let image = Image::new(Format::Oci, platform, std::slice::from_ref(&layer)).unwrap();
    (image, layer.blob)
}

/// A registry with one large image, and a machine that mirrors it.
struct Bench {
    registry: LabRegistry,
    site: Site,
    image: Image,
    layer: Blob,
}

impl Bench {
    fn new() -> Self {
        let registry = LabRegistry::start(Settings::default()).unwrap();
        let (image, layer) = image("large", LARGE);
        registry.put_image(&image, "org/large", "v1").unwrap();
        let site = Site::new();
        site.images("isc.yaml", &[registry.image("org/large", "v1").unwrap()]);
        Self { registry, site, image, layer }
    }

    /// Adds an image that nothing is wrong with.
    fn with_a_good_one(self) -> Self {
        self.registry.put_image(&Image::tiny("good").unwrap(), "org/good", "v1").unwrap();
        let images = ["org/large", "org/good"].map(|name| self.registry.image(name, "v1").unwrap());
        self.site.images("isc.yaml", &images);
        self
    }

    fn to_disk(&self, options: &str) -> Ran {
        self.site.run(&format!("-c isc.yaml {PLAIN} {PATIENT} {options} file://data"))
    }

    /// Every byte of the image is in the workspace, as an independent reader reads it.
    fn arrived(&self) {
        let origin = self.registry.image("org/large", "v1").unwrap();
        for (digest, blob) in &self.image.blobs {
            let held = fs::read(self.stored(digest)).unwrap();
            assert_eq!(held, blob.bytes().unwrap(), "{digest} of {origin}");
        }
    }

    fn stored(&self, digest: &Digest) -> PathBuf {
        self.site.path("data/blobs/sha256").join(digest.hex())
    }

    /// Bytes of the large layer that left the registry.
    fn layer_bytes_sent(&self) -> u64 {
        let part = format!("/blobs/{}", self.layer.digest);
        self.registry.requests().of(&Method::GET, &part).map(|request| request.sent).sum()
    }
}

#[test]
fn what_fails_now_and_then_is_tried_again() {
    let html = |code| {
        Effect::Status(code, vec![("content-type".into(), "text/html".into())], "<html>".into())
    };
    for effect in [
        Effect::status(500),
        html(502),
        html(503),
        Effect::status(504),
        Effect::too_many_requests(0),
        Effect::DropConnection,
    ] {
        for part in ["/manifests/", "/blobs/"] {
            let bench = Bench::new();
            bench.registry.fault(Fault::on_any(part).times(2).does(effect.clone()));
            let ran = bench.to_disk("");
            assert_eq!(ran.code, 0, "{effect:?} {part}: {}", ran.err);
            assert!(ran.total("retries") >= 2, "{effect:?} {part}: {}", ran.out);
            bench.arrived();
        }
    }
}

#[test]
fn a_registry_that_names_a_time_is_left_alone_until_then() {
    let bench = Bench::new();
    let busy = Effect::too_many_requests(1);
    bench.registry.fault(Fault::on(Method::GET, "/blobs/").times(1).does(busy));
    let start = Instant::now();
    let ran = bench.to_disk("");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    bench.arrived();
}

#[test]
fn an_interrupted_stream_continues_where_it_was_interrupted() {
    let bench = Bench::new();
    let part = format!("/blobs/{}", bench.layer.digest);
    bench.registry.fault(Fault::on(Method::GET, &part).times(2).does(Effect::CutAfter(200_000)));
    let ran = bench.to_disk("");
    assert_eq!(ran.code, 0, "{}", ran.err);
    bench.arrived();
    assert_eq!(bench.layer_bytes_sent(), bench.layer.size, "no byte was sent twice");
    let ranges: Vec<String> = bench
        .registry
        .requests()
        .of(&Method::GET, &part)
        .filter_map(|request| Some(request.headers.get("range")?.to_str().unwrap().to_owned()))
        .collect();
    assert_eq!(ranges, ["bytes=200000-", "bytes=400000-"]);
}

#[test]
fn a_registry_without_ranges_still_heals_a_cut() {
    let bench = Bench::new();
    bench.registry.fault(Fault::on(Method::GET, "/blobs/").does(Effect::IgnoreRange));
    let cut = Effect::CutAfter(200_000);
    let part = format!("/blobs/{}", bench.layer.digest);
    bench.registry.fault(Fault::on(Method::GET, &part).times(1).does(cut));
    let ran = bench.to_disk("");
    assert_eq!(ran.code, 0, "{}", ran.err);
    bench.arrived();
}

#[test]
fn a_blob_that_takes_too_long_is_given_up_and_continued_by_the_next_run() {
    let bench = Bench::new().with_a_good_one();
    let part = format!("/blobs/{}", bench.layer.digest);
    bench.registry.fault(Fault::on(Method::GET, &part).times(1).does(Effect::StallAfter(300_000)));
    let ran = bench.to_disk("--image-timeout 1s");
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert!(ran.image("org/large")["error"].to_string().contains("--image-timeout"), "{}", ran.out);
    assert_eq!(ran.image("org/good")["outcome"], "copied");
    let ran = bench.to_disk("");
    assert_eq!(ran.code, 0, "{}", ran.err);
    bench.arrived();
    assert_eq!(bench.layer_bytes_sent(), bench.layer.size, "what had come was kept");
}

#[test]
fn a_slow_registry_is_waited_for() {
    let bench = Bench::new();
    bench.registry.fault(Fault::on_any("").does(Effect::SlowBytesPerSecond(1_000_000)));
    let ran = bench.to_disk("");
    assert_eq!(ran.code, 0, "{}", ran.err);
    bench.arrived();
}

#[test]
fn wrong_bytes_are_requested_again() {
    let bench = Bench::new();
    for digest in bench.image.blobs.keys() {
        let part = format!("/blobs/{digest}");
        bench.registry.fault(Fault::on(Method::GET, &part).times(2).does(Effect::WrongBytes));
    }
    let ran = bench.to_disk("");
    assert_eq!(ran.code, 0, "{}", ran.err);
    bench.arrived();
}

#[test]
fn bytes_that_stay_wrong_fail_their_image_and_are_never_kept() {
    let digests: Vec<Digest> = Bench::new().image.blobs.into_keys().collect();
    assert_eq!(digests.len(), 2, "a large layer and a small config");
    for digest in digests {
        let bench = Bench::new().with_a_good_one();
        let part = format!("/blobs/{digest}");
        bench.registry.fault(Fault::on(Method::GET, &part).does(Effect::WrongBytes));
        let ran = bench.to_disk("--no-archive");
        assert_eq!(ran.code, 8, "{}", ran.err);
        let error = ran.image("org/large")["error"].to_string();
        assert!(error.contains(&digest.to_string()), "{error}");
        assert_eq!(bench.registry.requests().blob_gets(&digest), 4, "three retries");
        assert!(!bench.stored(&digest).exists());
        bench.registry.clear_faults();
        let ran = bench.to_disk("");
        assert_eq!(ran.code, 0, "{}", ran.err);
        bench.arrived();
    }
}

#[test]
fn responses_that_are_not_what_was_requested_fail_their_image_with_the_reason() {
    let html = Effect::Status(
        200,
        vec![("content-type".into(), "text/html".into())],
        "<html><body>Please log in to the guest network</body></html>".into(),
    );
    let huge = Effect::Status(
        200,
        vec![("content-type".into(), "application/vnd.oci.image.manifest.v1+json".into())],
        "x".repeat(5 << 20),
    );
    for (part, effect, expected) in [
        ("/manifests/v1", Effect::WrongDigestHeader, "digest"),
        ("/manifests/v1", Effect::ExtraBytes(7), ""),
        ("/manifests/v1", html.clone(), "a web page arrived instead of a manifest"),
        ("/manifests/v1", huge, "longer than the"),
        ("/blobs/", html, "bytes"),
        ("/blobs/", Effect::ExtraBytes(7), "bytes"),
        ("/blobs/", Effect::CutAfter(10), ""),
        ("/blobs/", Effect::status(404), "does not have it"),
    ] {
        let bench = Bench::new().with_a_good_one();
        let fault = Fault::on_any(&format!("/org/large{part}"));
        bench.registry.fault(fault.does(effect.clone()));
        let ran = bench.to_disk("");
        let about = format!("{part} {effect:.60?}: {}", ran.err);
        assert_eq!(ran.code, 8, "{about}");
        let error = ran.image("org/large")["error"].as_str().unwrap().to_owned();
        assert!(error.contains(expected), "{error}");
        assert_eq!(ran.image("org/good")["outcome"], "copied", "{about}");
        assert!(!bench.stored(&bench.layer.digest).exists(), "{about}");
        bench.registry.clear_faults();
        let ran = bench.to_disk("");
        assert_eq!(ran.code, 0, "after {about}: {}", ran.err);
        bench.arrived();
    }
}

#[test]
fn a_manifest_that_names_its_own_type_is_believed_over_a_wrong_header() {
    let bench = Bench::new();
    let lie = Effect::WrongContentType("text/plain".into());
    bench.registry.fault(Fault::on_any("/manifests/").does(lie));
    let ran = bench.to_disk("");
    assert_eq!(ran.code, 0, "{}", ran.err);
    bench.arrived();
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    bench.site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    let put = target.requests().of(&Method::PUT, "/manifests/v1").next().unwrap().clone();
    assert_eq!(put.headers["content-type"], "application/vnd.oci.image.manifest.v1+json");
}

#[test]
fn what_failed_is_retried_at_the_end_of_the_run() {
    for (part, message) in [("/blobs/", "final round"), ("/manifests/", "retrying to read")] {
        let bench = Bench::new();
        // As many failures as there are attempts: the image is given up, and then passes.
        let part = match part {
            "/blobs/" => format!("/blobs/{}", bench.layer.digest),
            part => part.to_owned(),
        };
        bench.registry.fault(Fault::on_any(&part).times(4).does(Effect::status(503)));
        let ran = bench.to_disk("");
        assert_eq!(ran.code, 0, "{part}: {}", ran.err);
        assert!(ran.err.contains(message), "{part}: {}", ran.err);
        bench.arrived();
    }
}

#[test]
fn a_permanent_error_gets_no_final_round_and_no_advice_to_run_again() {
    let bench = Bench::new();
    let part = format!("/blobs/{}", bench.layer.digest);
    bench.registry.fault(Fault::on(Method::GET, &part).does(Effect::status(400)));
    let ran = bench.to_disk("");
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert_eq!(bench.registry.requests().of(&Method::GET, &part).count(), 1);
    assert!(ran.image("org/large").get("remedy").is_none(), "{}", ran.out);
    bench.registry.clear_faults();
    bench.registry.fault(Fault::on(Method::GET, &part).does(Effect::status(503)));
    let ran = bench.to_disk("");
    assert_eq!(ran.image("org/large")["remedy"], "runAgain", "{}", ran.out);
}
