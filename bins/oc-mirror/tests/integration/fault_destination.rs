//! Images that do not arrive, and destinations that misbehave: the rest is
//! delivered, what is missing is named, and the next run copies just that.

use crate::support;

use std::fs;

use http::Method;
use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{Behaviour, Effect, Fault, LabRegistry, Settings};
use support::{PLAIN, Site, chunks};

const PATIENT: &str = "--retry-times 2 --retry-delay 10ms";

fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

fn large(name: &str) -> Image {
    let layer = Layer::generate(name, 400_000, Compression::None).unwrap();
    Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer]).unwrap()
}

/// Stores `names` in a registry and writes a configuration of them.
fn push_images(site: &Site, registry: &LabRegistry, names: &[&str]) -> Vec<Image> {
    let images: Vec<Image> = names.iter().map(|name| large(name)).collect();
    for (name, image) in names.iter().zip(&images) {
        registry.put_image(image, &format!("org/{name}"), "v1").unwrap();
    }
    let references: Vec<_> =
        names.iter().map(|name| registry.image(&format!("org/{name}"), "v1").unwrap()).collect();
    site.images("isc.yaml", &references);
    images
}

/// The image can be pulled, every digest checked, by a program that is not ours.
fn pulls(site: &Site, registry: &LabRegistry, repository: &str) {
    let reference = format!("docker://{}/{repository}:v1", registry.address());
    site.pull(&reference, &["--src-tls-verify=false"]);
}

#[test]
fn one_failed_image_fails_alone_and_the_next_archive_contains_just_it() {
    let (site, source, target) = (Site::new(), registry(), registry());
    let images = push_images(&site, &source, &["one", "two", "three"]);
    source.fault(Fault::on(Method::GET, "/org/two/blobs/").does(Effect::status(500)));

    let ran = site.run(&format!("-c isc.yaml {PLAIN} {PATIENT} file://data"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    let report = ran.report();
    assert_eq!(report["ending"], "partial");
    assert!(ran.image("org/two")["error"].as_str().unwrap().contains("500"), "{}", ran.out);
    for name in ["org/one", "org/three"] {
        assert_eq!(ran.image(name)["outcome"], "copied");
    }
    assert_eq!(chunks(&site.path("data")).len(), 1, "the archive of the rest is made");
    let logs = fs::read_dir(site.path("data/working-dir/logs")).unwrap();
    let errors: Vec<_> = logs
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("mirroring_errors_"))
        .collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let text = fs::read_to_string(&errors[0]).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("/org/two:v1"), "{text}");

    // Only the archive crosses the gap. It is pushed, with a warning that names what it lacks.
    fs::create_dir(site.path("carried")).unwrap();
    fs::copy(&chunks(&site.path("data"))[0], site.path("carried/mirror_000001.tar")).unwrap();
    let push = format!(
        "-c isc.yaml {PLAIN} {PATIENT} --from file://carried docker://{}",
        target.address()
    );
    let ran = site.run(&push);
    assert_eq!(ran.code, 8, "{}", ran.err);
    let warnings = ran.report()["warnings"].to_string();
    assert!(warnings.contains("partial") && warnings.contains("/org/two:v1"), "{warnings}");
    for name in ["org/one", "org/three"] {
        assert_eq!(ran.image(name)["outcome"], "copied", "{}", ran.out);
        pulls(&site, &target, name);
    }

    // The registry works again: the rest is fetched, archived and pushed, and nothing else.
    source.clear_faults();
    source.forget_requests();
    let ran = site.succeeds(&format!("-c isc.yaml {PLAIN} {PATIENT} file://data"));
    for (image, fetched) in images.iter().zip([0, 1, 0]) {
        let layer = image.blobs.values().max_by_key(|blob| blob.size).unwrap();
        assert_eq!(source.requests().blob_gets(&layer.digest), fetched);
    }
    assert_eq!(ran.report()["archive"]["base"], 1);
    let all = chunks(&site.path("data"));
    assert_eq!(all.len(), 2);
    let length = fs::metadata(&all[1]).unwrap().len();
    assert!((400_000..500_000).contains(&length), "one image's worth is {length}");
    fs::copy(&all[1], site.path("carried/mirror_000002.tar")).unwrap();
    let ran = site.succeeds(&push);
    assert_eq!(ran.total("copied"), 1, "{}", ran.out);
    pulls(&site, &target, "org/two");
}

#[test]
fn a_busy_or_broken_target_is_tried_again() {
    let html = |code| Effect::Status(code, vec![], "<html>".into());
    for behaviour in [Behaviour::MODERN, Behaviour::DOCKER_2_8] {
        for (method, part, effect) in [
            (Method::POST, "/blobs/uploads/", Effect::status(500)),
            (Method::POST, "/blobs/uploads/", Effect::too_many_requests(0)),
            (Method::PUT, "/blobs/uploads/", html(502)),
            (Method::PUT, "/blobs/uploads/", Effect::CutRequestAfter(100_000)),
            (Method::PUT, "/blobs/uploads/", Effect::DropConnection),
            (Method::PUT, "/manifests/", html(503)),
            (Method::PUT, "/manifests/", Effect::DropConnection),
            (Method::HEAD, "/manifests/", Effect::DropConnection),
        ] {
            let (site, source) = (Site::new(), registry());
            push_images(&site, &source, &["one"]);
            let target = LabRegistry::start(Settings { behaviour, ..Settings::default() }).unwrap();
            target.fault(Fault::on(method.clone(), part).times(2).does(effect.clone()));
            let to = target.address();
            let ran = site.run(&format!(
                "-c isc.yaml {PLAIN} {PATIENT} --workspace file://data docker://{to}"
            ));
            let about = format!("{method} {part} {effect:?} {behaviour:?}");
            assert_eq!(ran.code, 0, "{about}: {}", ran.err);
            assert!(ran.total("retries") > 0, "{about}: the fault was met: {}", ran.out);
            pulls(&site, &target, "org/one");
        }
    }
}

#[test]
fn wrong_bytes_never_reach_the_target() {
    let (site, source, target) = (Site::new(), registry(), registry());
    let images = push_images(&site, &source, &["one", "two"]);
    let layer = images[0].blobs.values().max_by_key(|blob| blob.size).unwrap();
    let part = format!("/blobs/{}", layer.digest);
    source.fault(Fault::on(Method::GET, &part).does(Effect::WrongBytes));
    let copy = format!(
        "-c isc.yaml {PLAIN} {PATIENT} --workspace file://data docker://{}",
        target.address()
    );
    let ran = site.run(&copy);
    assert_eq!(ran.code, 8, "{}", ran.err);
    let error = ran.image("org/one")["error"].as_str().unwrap().to_owned();
    assert!(error.contains(&layer.digest.to_string()), "{error}");
    assert!(error.contains("digest"), "{error}");
    assert_eq!(target.requests().of(&Method::PUT, "/org/one/manifests/").count(), 0);
    pulls(&site, &target, "org/two");
    source.clear_faults();
    site.succeeds(&copy);
    pulls(&site, &target, "org/one");
}

#[test]
fn wrong_bytes_are_requested_again_in_the_middle_of_a_copy() {
    let (site, source, target) = (Site::new(), registry(), registry());
    let images = push_images(&site, &source, &["one"]);
    for digest in images[0].blobs.keys() {
        let part = format!("/blobs/{digest}");
        source.fault(Fault::on(Method::GET, &part).times(1).does(Effect::WrongBytes));
    }
    let to = target.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} {PATIENT} --workspace file://data docker://{to}"));
    pulls(&site, &target, "org/one");
}

#[test]
fn a_source_that_is_cut_in_the_middle_of_a_copy_is_read_on() {
    let (site, source, target) = (Site::new(), registry(), registry());
    let images = push_images(&site, &source, &["one"]);
    let layer = images[0].blobs.values().max_by_key(|blob| blob.size).unwrap();
    let part = format!("/blobs/{}", layer.digest);
    source.fault(Fault::on(Method::GET, &part).times(2).does(Effect::CutAfter(150_000)));
    let to = target.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} {PATIENT} --workspace file://data docker://{to}"));
    pulls(&site, &target, "org/one");
    let sent: u64 = source.requests().of(&Method::GET, &part).map(|request| request.sent).sum();
    assert_eq!(sent, layer.size, "no byte was sent twice");
    assert_eq!(target.requests().blob_puts(&layer.digest), 1);
}

#[test]
fn a_target_that_refuses_one_image_gets_the_others() {
    let (site, source, target) = (Site::new(), registry(), registry());
    push_images(&site, &source, &["one", "two"]);
    target.fault(Fault::on(Method::PUT, "/org/one/manifests/").does(Effect::status(400)));
    let to = target.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let push = format!("-c isc.yaml {PLAIN} {PATIENT} --from file://data docker://{to}");
    let ran = site.run(&push);
    assert_eq!(ran.code, 8, "{}", ran.err);
    let error = ran.image("org/one")["error"].as_str().unwrap().to_owned();
    assert!(error.contains("400") && error.contains("a configured fault"), "{error}");
    assert_eq!(
        target.requests().of(&Method::PUT, "/org/one/manifests/").count(),
        1,
        "a refusal stands"
    );
    pulls(&site, &target, "org/two");
    target.clear_faults();
    target.forget_requests();
    site.succeeds(&push);
    pulls(&site, &target, "org/one");
    assert_eq!(target.requests().of(&Method::PUT, "/blobs/uploads/").count(), 0, "blobs are there");
}

#[test]
fn a_target_in_trouble_for_good_ends_the_run_with_its_name_and_loses_nothing() {
    let (site, source, target) = (Site::new(), registry(), registry());
    push_images(&site, &source, &["one"]);
    target.fault(Fault::on_any("").does(Effect::status(503)));
    let to = target.address();
    let copy = format!("-c isc.yaml {PLAIN} {PATIENT} --workspace file://data docker://{to}");
    let ran = site.run(&copy);
    assert_ne!(ran.code, 0);
    assert!(ran.out.contains(&to.to_string()) && ran.out.contains("503"), "{}", ran.out);
    target.clear_faults();
    site.succeeds(&copy);
    pulls(&site, &target, "org/one");
}
