//! A workspace as its owner's tools leave it, served.
use crate::stand;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mirror_plan::{ImageRecord, Mode};
use oci::Tag;
use serde_json::json;
use serve::{Note, Offer, OfferError, Options, Server};
use stand::{Format, Serving, Stock};
use workspace::{RunStart, RunStatus, Workspace};

/// Moves content and records into a workspace, by one run.
fn mirror(stock: &Stock, to: &Path) -> Workspace {
    let workspace = Workspace::open(to);
    let lock = workspace.lock(&[]).unwrap();
    let start = RunStart {
        mode: Mode::MirrorToDisk,
        started: "2026-01-01T00:00:00Z".parse().unwrap(),
        program: "test",
        arguments: &[],
        configuration: None,
        target: None,
    };
    let run = workspace.begin_run(&lock, &start).unwrap();
    for entry in fs::read_dir(stock.dir.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        workspace.blobs().put(&oci::Digest::of(&bytes), &bytes).unwrap();
    }
    for image in &stock.images {
        workspace.save_record(&image.record).unwrap();
    }
    run.end(RunStatus::Complete, Vec::new()).unwrap();
    workspace
}

fn origin_of(record: &mut ImageRecord, reference: &str) {
    record.origin = mirror_plan::Origin::Registry(reference.parse().unwrap());
}

#[test]
fn images_have_the_names_a_target_would_give_them() {
    let mut stock = Stock::new();
    let tagged = stock.image(Format::Oci, "amd64", b"tagged");
    let pinned = stock.image(Format::Docker, "amd64", b"pinned");
    let tag = Tag::of_digest(&pinned.digest);
    origin_of(stock.place("x:x", vec![tagged.clone()], vec![]), "quay.io/team/app:v1");
    let reference = format!("registry.example:5000/other@{}", pinned.digest);
    origin_of(stock.place("x:x", vec![pinned], vec![]), &reference);
    let directory = tempfile::tempdir().unwrap();
    let offer = Offer::new(mirror(&stock, directory.path()));
    let stocked = offer.stock().unwrap();
    assert_eq!(stocked.notes, []);
    let serving = Serving::start(stocked.shelf, Options::default());
    let repositories = serving.get("/v2/_catalog").json();
    assert_eq!(repositories, json!({"repositories": ["other", "team/app"]}));
    assert_eq!(serving.get("/v2/other/tags/list").json()["tags"], json!([tag]));
    let answer = serving.get("/v2/team/app/manifests/v1");
    assert_eq!(answer.header("docker-content-digest"), Some(&*tagged.digest.to_string()));
    let layer = tagged.blobs.last().unwrap().digest;
    assert_eq!(serving.get(&format!("/v2/team/app/blobs/{layer}")).body, b"tagged");
}

#[test]
fn names_that_configurations_gave_are_used() {
    let mut stock = Stock::new();
    let image = stock.image(Format::Oci, "amd64", b"layer");
    stock.place("apps/a:v1", vec![image], vec![]);
    let names = ["mine/one:1", "mine/two:2"].map(|name| name.parse().unwrap());
    stock.images[0].record.names = names.into();
    let directory = tempfile::tempdir().unwrap();
    let workspace = mirror(&stock, directory.path());
    let stocked = Offer::new(workspace).stock().unwrap();
    let repositories: Vec<&str> =
        stocked.shelf.repositories().map(oci::Repository::as_str).collect();
    assert_eq!(repositories, ["mine/one", "mine/two"]);
}

#[test]
fn a_spoiled_record_is_noted_and_hides_no_other() {
    let mut stock = Stock::new();
    let image = stock.image(Format::Oci, "amd64", b"layer");
    stock.place("apps/a:v1", vec![image.clone()], vec![]);
    stock.place("apps/b:v1", vec![image], vec![]);
    let directory = tempfile::tempdir().unwrap();
    let workspace = mirror(&stock, directory.path());
    let spoiled = workspace.layout_of(&stock.images[0].record.origin).join("image.json");
    fs::write(&spoiled, b"{").unwrap();
    let stocked = Offer::new(workspace).stock().unwrap();
    let [Note::Unreadable { reason }] = &*stocked.notes else { panic!("{:?}", stocked.notes) };
    assert!(reason.contains("image.json"), "{reason}");
    let repositories: Vec<&str> =
        stocked.shelf.repositories().map(oci::Repository::as_str).collect();
    assert_eq!(repositories, ["apps/b"]);
}

#[test]
fn a_directory_that_is_not_there_is_an_error_and_an_empty_one_is_an_empty_registry() {
    let directory = tempfile::tempdir().unwrap();
    let stocked = Offer::new(Workspace::open(directory.path())).stock().unwrap();
    assert_eq!(stocked.shelf.repositories().count(), 0);
    let nowhere = directory.path().join("nowhere");
    let error = Offer::new(Workspace::open(&nowhere)).stock().unwrap_err();
    assert!(matches!(error, OfferError::Missing(path) if path == nowhere));
    assert!(!nowhere.exists());
}

#[tokio::test]
async fn a_run_that_ended_is_served_without_a_restart() {
    let mut stock = Stock::new();
    let image = stock.image(Format::Oci, "amd64", b"first");
    stock.place("apps/a:v1", vec![image], vec![]);
    let directory = tempfile::tempdir().unwrap();
    let offer = Offer::new(mirror(&stock, directory.path()));
    let stocked = offer.stock().unwrap();
    let local = ([127, 0, 0, 1], 0).into();
    let server = Server::bind(local, stocked.shelf, Options::default()).await.unwrap();
    let shelf = server.shelf();
    let every = Duration::from_millis(20);
    let wanted = "apps/b".parse().unwrap();
    let rerun = async {
        let image = stock.image(Format::Oci, "amd64", b"second");
        stock.place("apps/b:v1", vec![image], vec![]);
        assert!(!shelf.get().has_repository(&wanted));
        mirror(&stock, directory.path());
        let deadline = Instant::now() + Duration::from_secs(300);
        while !shelf.get().has_repository(&wanted) {
            assert!(Instant::now() < deadline, "the new image did not appear");
            tokio::time::sleep(every).await;
        }
    };
    tokio::select! {
        () = server.run(rerun) => {}
        () = offer.follow(shelf.clone(), stocked.seen, every) => {}
    }
}
