//! What other processes see of a run, and how they pause, resume and stop it.

use std::fs;
use std::time::Duration;

use http::Method;
use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use serde_json::{Value, json};

use crate::support::under_way::UnderWay;
use crate::support::{PLAIN, Site};

const LARGE: u64 = 1_000_000;
const DELAY: Effect = Effect::Delay(Duration::from_secs(24 * 60 * 60));

/// A registry with two images, and a configuration for them.
fn bench() -> (LabRegistry, Site, String) {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    let layer = Layer::generate("slow", LARGE, Compression::None).unwrap();
    let slow = layer.blob.digest;
    let image = Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer]).unwrap();
    registry.put_image(&Image::tiny("quick").unwrap(), "org/quick", "v1").unwrap();
    registry.put_image(&image, "org/slow", "v1").unwrap();
    let site = Site::new();
    let images = ["org/quick", "org/slow"].map(|name| registry.image(name, "v1").unwrap());
    site.images("isc.yaml", &images);
    (registry, site, format!("/blobs/{slow}"))
}

/// The status as JSON.
fn status(site: &Site) -> Value {
    let output = site.command("status file://data -o json").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {message}"))
}

fn outcomes(site: &Site, folder: &str, suffix: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(site.path(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.to_string_lossy().ends_with(suffix)).collect();
    files.sort();
    let text = fs::read_to_string(files.last().unwrap()).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let images = lines.filter(|line| line["event"] == "image");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    images.map(|line| (text(&line["source"]), text(&line["outcome"]))).collect()
}

#[test]
fn a_run_can_be_watched_paused_resumed_and_stopped_by_another_process() {
    let (registry, site, slow) = bench();
    registry.fault(Fault::on(Method::GET, &slow).does(DELAY));
    let line = format!("-c isc.yaml {PLAIN} file://data");
    let mut run = UnderWay::start(&site, &line);
    run.until("the small image is done", || {
        site.path("data/working-dir/.lock").exists()
            && status(&site)["newest"]["copied"] == json!(1)
    });
    let seen = status(&site);
    assert_eq!(seen["holder"]["pid"], json!(run.pid()));
    assert_eq!(seen["newest"]["images"], json!(2));
    assert_eq!(seen["newest"]["stage"], "copying");
    assert!(seen["bytesLeft"].as_u64().unwrap() >= LARGE, "{seen}");
    assert_eq!(seen["runs"][0]["status"], "running");
    let text = site.command("status file://data").output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("Run 1 is in progress: process "), "{text}");
    assert!(text.contains("copying: 1 of 2 images"), "{text}");

    let message = site.command("status file://data --pause").output().unwrap();
    assert_eq!(
        String::from_utf8(message.stdout).unwrap(),
        "the run is paused; resume it with --resume\n"
    );
    assert_eq!(status(&site)["newest"]["isPaused"], true);
    site.command("status file://data --resume").output().unwrap();
    assert_eq!(status(&site)["newest"]["isPaused"], false);
    let message = site.command("status file://data --stop").output().unwrap();
    let message = String::from_utf8(message.stdout).unwrap();
    assert!(message.starts_with("the run is stopping"), "{message}");
    assert_eq!(run.end().code, 130);

    let seen = status(&site);
    assert!(seen.get("holder").is_none());
    assert_eq!(seen["runs"][0]["status"], "interrupted");
    let text = site.command("status file://data").output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("Run 1 was interrupted, with "), "{text}");
    let refused = site.command("status file://data --pause").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("no run is in progress in "), "{why}");
    registry.clear_faults();
    site.succeeds(&line);
    assert_eq!(status(&site)["bytesLeft"], json!(0));
}

#[test]
fn a_pause_holds_a_transfer_in_progress_and_it_continues_where_it_was() {
    let (registry, site, slow) = bench();
    registry.fault(Fault::on(Method::GET, &slow).does(Effect::SlowBytesPerSecond(LARGE / 20)));
    let mut run = UnderWay::start(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    let partial = || {
        let files = fs::read_dir(site.path("data/blobs/partial")).into_iter().flatten().flatten();
        files.filter_map(|file| Some(file.metadata().ok()?.len())).max().unwrap_or(0)
    };
    run.until("some of the layer is here", || partial() > 50_000);
    site.command("status file://data --pause").output().unwrap();
    // What was read from the connection before may still be written.
    std::thread::sleep(Duration::from_millis(500));
    let held = partial();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(partial(), held, "nothing arrives during a pause");
    assert!(held < LARGE);
    registry.clear_faults();
    site.command("status file://data --resume").output().unwrap();
    let ran = run.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn the_audit_log_of_a_killed_run_shows_what_was_done() {
    let (registry, site, slow) = bench();
    registry.fault(Fault::on(Method::GET, &slow).does(DELAY));
    let mut run = UnderWay::start(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    run.until("the small image is done", || {
        site.path("data/working-dir/.lock").exists()
            && status(&site)["newest"]["copied"] == json!(1)
    });
    run.kill();
    let quick = registry.image("org/quick", "v1").unwrap().to_string();
    let expected = [(quick, "copied".to_owned())];
    assert_eq!(outcomes(&site, "data/working-dir/logs", ".jsonl"), expected);
    assert_eq!(outcomes(&site, "data/working-dir/runs", ".journal.jsonl"), expected);
    // The remaining socket does not respond any more, and causes no error.
    let why = site.command("status file://data --stop").output().unwrap();
    assert!(String::from_utf8(why.stderr).unwrap().contains("no run is in progress in "));
    registry.clear_faults();
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
}

#[test]
fn every_image_of_a_run_is_in_its_audit_log_once_also_blocked_and_lost_ones() {
    let (registry, site, _) = bench();
    let name = |name: &str| registry.image(name, "v1").unwrap().to_string();
    let (quick, slow, gone) = (name("org/quick"), name("org/slow"), name("org/gone"));
    site.image_set(
        "isc.yaml",
        &format!(
            "  additionalImages:\n  - name: {quick}\n  - name: {slow}\n  - name: {gone}\n  \
             blockedImages:\n  - name: .*slow.*\n"
        ),
    );
    let line = format!("-c isc.yaml {PLAIN} file://data");
    assert_eq!(site.run(&line).code, 8);
    let logged = |outcome: &str| {
        let outcome = outcome.to_owned();
        [
            (slow.clone(), "blocked".to_owned()),
            (gone.clone(), "failed".to_owned()),
            (quick.clone(), outcome),
        ]
        .into_iter()
        .collect::<std::collections::BTreeSet<_>>()
    };
    let found = outcomes(&site, "data/working-dir/logs", ".jsonl");
    assert_eq!(found.len(), 3);
    assert_eq!(found.into_iter().collect::<std::collections::BTreeSet<_>>(), logged("copied"));
    assert_eq!(site.run(&line).code, 8);
    let found = outcomes(&site, "data/working-dir/logs", ".jsonl");
    assert_eq!(found.into_iter().collect::<std::collections::BTreeSet<_>>(), logged("present"));
    let seen = status(&site);
    assert!(seen["missing"][0]["origin"].to_string().contains(&gone), "{seen}");
}

#[test]
fn a_second_run_waits_for_the_first_when_requested() {
    let (registry, site, slow) = bench();
    registry.fault(Fault::on(Method::GET, &slow).does(DELAY));
    let line = format!("-c isc.yaml {PLAIN} file://data");
    let mut first = UnderWay::start(&site, &line);
    first.until("it has the lock", || {
        fs::read(site.path("data/working-dir/.lock")).is_ok_and(|text| !text.is_empty())
    });
    let refused = site.run(&line);
    assert_eq!(refused.code, 1);
    let pid = format!("process {}", first.pid());
    assert!(refused.errors().contains(&pid), "{}", refused.err);
    registry.clear_faults();
    let mut second = UnderWay::start(&site, &format!("{line} --wait"));
    second.until("it has started", || true);
    first.kill();
    let ran = second.end();
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    assert_eq!(ran.total("images"), 2);
}

#[test]
fn a_folder_that_is_not_a_workspace_has_no_status() {
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    let refused = site.command("status file://data").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("is not a workspace: it has no folder working-dir"), "{why}");
}
