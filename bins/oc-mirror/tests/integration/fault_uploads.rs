//! Registry to registry: what a source sent is kept until the target has it.

use crate::support;

use std::fs;

use http::Method;
use lab::images::{Blob, Compression, Format, Image, Layer};
use lab::registry::{Auth, Credentials, Effect, Fault, LabRegistry, Settings};
use support::under_way::UnderWay;
use support::{PLAIN, Site};

const LARGE: u64 = 3_000_000;
const PATIENT: &str = "--retry-times 3 --retry-delay 10ms";

struct Bench {
    source: LabRegistry,
    target: LabRegistry,
    site: Site,
    layer: Blob,
}

impl Bench {
    fn new(auth: Auth) -> Self {
        let source = LabRegistry::start(Settings::default()).unwrap();
        let target = LabRegistry::start(Settings { auth, ..Settings::default() }).unwrap();
        let layer = Layer::generate("large", LARGE, Compression::None).unwrap();
        let blob = layer.blob.clone();
        let image = Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer]).unwrap();
        source.put_image(&image, "org/large", "v1").unwrap();
        let site = Site::new();
        site.images("isc.yaml", &[source.image("org/large", "v1").unwrap()]);
        Self { source, target, site, layer: blob }
    }

    fn line(&self) -> String {
        let to = self.target.address();
        format!("-c isc.yaml {PLAIN} {PATIENT} --workspace file://data docker://{to}")
    }

    /// Bytes of the large layer that left the source.
    fn layer_bytes_sent(&self) -> u64 {
        let part = format!("/blobs/{}", self.layer.digest);
        self.source.requests().of(&Method::GET, &part).map(|request| request.sent).sum()
    }

    fn arrived(&self) {
        let to = self.target.address();
        self.site.pull(&format!("docker://{to}/org/large:v1"), &["--src-tls-verify=false"]);
        let left = fs::read_dir(self.site.path("data/blobs/partial")).unwrap().count();
        assert_eq!(left, 0, "what the target has is not kept");
    }
}

#[test]
fn an_upload_that_is_cut_does_not_download_again() {
    let bench = Bench::new(Auth::None);
    let cut = Effect::CutRequestAfter(1_000_000);
    bench.target.fault(Fault::on(Method::PUT, "/blobs/uploads/").times(2).does(cut));
    let ran = bench.site.succeeds(&bench.line());
    assert!(ran.total("retries") >= 2, "{}", ran.out);
    assert_eq!(bench.layer_bytes_sent(), bench.layer.size, "every byte once");
    bench.arrived();
}

#[test]
fn a_target_that_fails_after_the_last_byte_does_not_cause_a_download() {
    let bench = Bench::new(Auth::None);
    bench
        .target
        .fault(Fault::on(Method::PUT, "/blobs/uploads/").times(3).does(Effect::status(503)));
    bench.site.succeeds(&bench.line());
    assert!(bench.layer_bytes_sent() <= bench.layer.size, "{}", bench.layer_bytes_sent());
    bench.arrived();
}

#[test]
fn a_killed_run_continues_inside_the_blob() {
    let bench = Bench::new(Auth::None);
    let part = format!("/blobs/{}", bench.layer.digest);
    let slow = Effect::SlowBytesPerSecond(LARGE / 30);
    bench.source.fault(Fault::on(Method::GET, &part).does(slow));
    let mut run = UnderWay::start(&bench.site, &bench.line());
    let partial = bench.site.path("data/blobs/partial").join(bench.layer.digest.hex());
    run.until("part of the blob has passed", || {
        fs::metadata(&partial).is_ok_and(|file| file.len() > 200_000)
    });
    run.kill();
    bench.source.clear_faults();
    bench.source.forget_requests();
    bench.site.succeeds(&bench.line());
    let sent = bench.layer_bytes_sent();
    assert!(sent <= bench.layer.size - 200_000, "{sent} of {}", bench.layer.size);
    bench.arrived();
}

#[test]
fn wrong_bytes_are_not_kept() {
    let bench = Bench::new(Auth::None);
    let part = format!("/blobs/{}", bench.layer.digest);
    bench.source.fault(Fault::on(Method::GET, &part).times(1).does(Effect::WrongBytes));
    bench.site.succeeds(&bench.line());
    assert_eq!(bench.layer_bytes_sent(), 2 * bench.layer.size);
    bench.arrived();
}

/// Another password than the target has: nothing is fetched for a push that is refused.
#[test]
fn content_is_not_fetched_for_a_target_that_refuses_it() {
    let bench = Bench::new(Auth::Basic(Credentials::new("me", "right")));
    let ran = bench.site.run(&format!("{} --dest-creds me:wrong", bench.line()));
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert_eq!(bench.layer_bytes_sent(), 0);
}

#[test]
fn a_namespace_that_may_only_be_read_is_found_before_anything_is_fetched() {
    let bench = Bench::new(Auth::None);
    bench.target.fault(Fault::on(Method::POST, "/blobs/uploads/").does(Effect::status(403)));
    let ran = bench.site.run(&bench.line());
    assert_eq!(ran.code, 8, "{}", ran.out);
    let error = ran.image("org/large")["error"].to_string();
    assert!(error.contains("before anything was fetched") && error.contains("403"), "{error}");
    assert_eq!(bench.layer_bytes_sent(), 0);
    bench.target.clear_faults();
    bench.site.succeeds(&bench.line());
    let cancelled = bench.target.requests().of(&Method::DELETE, "/blobs/uploads/").count();
    assert_eq!(cancelled, 1, "the upload that only probed was cancelled");
}
