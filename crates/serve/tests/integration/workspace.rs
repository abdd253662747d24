//! A workspace as a mirror run writes it, served.
use crate::fixture;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fixture::{Format, RunningServer, TestContent};
use mirror_plan::{ImageRecord, Mode};
use oci::Tag;
use serde_json::json;
use serve::{LoadError, Options, Server, Warning, WorkspaceSource};
use workspace::{RunStart, RunStatus, Workspace};

/// Moves content and records into a workspace, by one run.
fn mirror(content: &TestContent, to: &Path) -> Workspace {
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
    for entry in fs::read_dir(content.dir.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        workspace.blobs().put(&oci::Digest::of(&bytes), &bytes).unwrap();
    }
    for image in &content.images {
        workspace.save_record(&image.record).unwrap();
    }
    run.end(RunStatus::Complete, Vec::new()).unwrap();
    workspace
}

fn origin_of(record: &mut ImageRecord, reference: &str) {
    record.origin = mirror_plan::Origin::Registry(reference.parse().unwrap());
}

#[test]
fn images_have_the_names_they_would_have_in_a_target() {
    let mut content = TestContent::new();
    let tagged = content.image(Format::Oci, "amd64", b"tagged");
    let pinned = content.image(Format::Docker, "amd64", b"pinned");
    let tag = Tag::of_digest(&pinned.digest);
    origin_of(content.add_image("x:x", vec![tagged.clone()], vec![]), "quay.io/team/app:v1");
    let reference = format!("registry.example:5000/other@{}", pinned.digest);
    origin_of(content.add_image("x:x", vec![pinned], vec![]), &reference);
    let directory = tempfile::tempdir().unwrap();
    let source = WorkspaceSource::new(mirror(&content, directory.path()));
    let loaded = source.load().unwrap();
    assert_eq!(loaded.warnings, []);
    let server = RunningServer::start(loaded.snapshot, Options::default());
    let repositories = server.get("/v2/_catalog").json();
    assert_eq!(repositories, json!({"repositories": ["other", "team/app"]}));
    assert_eq!(server.get("/v2/other/tags/list").json()["tags"], json!([tag]));
    let response = server.get("/v2/team/app/manifests/v1");
    assert_eq!(response.header("docker-content-digest"), Some(&*tagged.digest.to_string()));
    let layer = tagged.blobs.last().unwrap().digest;
    assert_eq!(server.get(&format!("/v2/team/app/blobs/{layer}")).body, b"tagged");
}

#[test]
fn names_from_configurations_are_used() {
    let mut content = TestContent::new();
    let image = content.image(Format::Oci, "amd64", b"layer");
    content.add_image("apps/a:v1", vec![image], vec![]);
    let names = ["mine/one:1", "mine/two:2"].map(|name| name.parse().unwrap());
    content.images[0].record.names = names.into();
    let directory = tempfile::tempdir().unwrap();
    let workspace = mirror(&content, directory.path());
    let loaded = WorkspaceSource::new(workspace).load().unwrap();
    let repositories: Vec<&str> =
        loaded.snapshot.repositories().map(oci::Repository::as_str).collect();
    assert_eq!(repositories, ["mine/one", "mine/two"]);
}

#[test]
fn an_unreadable_record_causes_a_warning_and_the_others_are_served() {
    let mut content = TestContent::new();
    let image = content.image(Format::Oci, "amd64", b"layer");
    content.add_image("apps/a:v1", vec![image.clone()], vec![]);
    content.add_image("apps/b:v1", vec![image], vec![]);
    let directory = tempfile::tempdir().unwrap();
    let workspace = mirror(&content, directory.path());
    let spoiled = workspace.layout_of(&content.images[0].record.origin).join("image.json");
    fs::write(&spoiled, b"{").unwrap();
    let loaded = WorkspaceSource::new(workspace).load().unwrap();
    let [Warning::Unreadable { reason }] = &*loaded.warnings else {
        panic!("{:?}", loaded.warnings)
    };
    assert!(reason.contains("image.json"), "{reason}");
    let repositories: Vec<&str> =
        loaded.snapshot.repositories().map(oci::Repository::as_str).collect();
    assert_eq!(repositories, ["apps/b"]);
}

#[test]
fn a_directory_that_is_not_there_is_an_error_and_an_empty_one_is_an_empty_registry() {
    let directory = tempfile::tempdir().unwrap();
    let loaded = WorkspaceSource::new(Workspace::open(directory.path())).load().unwrap();
    assert_eq!(loaded.snapshot.repositories().count(), 0);
    let nowhere = directory.path().join("nowhere");
    let error = WorkspaceSource::new(Workspace::open(&nowhere)).load().unwrap_err();
    assert!(matches!(error, LoadError::Missing(path) if path == nowhere));
    assert!(!nowhere.exists());
}

#[tokio::test]
async fn a_run_that_ended_is_served_without_a_restart() {
    let mut content = TestContent::new();
    let image = content.image(Format::Oci, "amd64", b"first");
    content.add_image("apps/a:v1", vec![image], vec![]);
    let directory = tempfile::tempdir().unwrap();
    let source = WorkspaceSource::new(mirror(&content, directory.path()));
    let loaded = source.load().unwrap();
    let local = ([127, 0, 0, 1], 0).into();
    let server = Server::bind(local, loaded.snapshot, Options::default()).await.unwrap();
    let snapshot = server.snapshot();
    let every = Duration::from_millis(20);
    let expected = "apps/b".parse().unwrap();
    let rerun = async {
        let image = content.image(Format::Oci, "amd64", b"second");
        content.add_image("apps/b:v1", vec![image], vec![]);
        assert!(!snapshot.get().has_repository(&expected));
        mirror(&content, directory.path());
        let deadline = Instant::now() + Duration::from_secs(300);
        while !snapshot.get().has_repository(&expected) {
            assert!(Instant::now() < deadline, "the new image did not appear");
            tokio::time::sleep(every).await;
        }
    };
    tokio::select! {
        () = server.run(rerun) => {}
        () = source.follow(snapshot.clone(), loaded.revision, every) => {}
    }
}
