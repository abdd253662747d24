use mirror_plan::ImageRecord;

use super::*;
use crate::audit::{AuditedImage, AuditedOutcome};
use crate::journal::JournalEvent;
use mirror_plan::Mode;

use crate::runs::RunStart;
use crate::sample;

struct Bench {
    _dir: tempfile::TempDir,
    workspace: Workspace,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        Self { _dir: dir, workspace }
    }

    /// A run of `configuration` that mirrors these images, each with a layer of its own.
    fn run(&self, configuration: &str, images: &[&str], status: RunStatus) -> Vec<ImageRecord> {
        let workspace = &self.workspace;
        let lock = workspace.lock(&[]).unwrap();
        let start = RunStart {
            mode: Mode::MirrorToDisk,
            started: jiff::Timestamp::now(),
            program: "test",
            arguments: &[],
            configuration: Some((configuration, "")),
            target: None,
        };
        let run = workspace.begin_run(&lock, &start).unwrap();
        let mut records = Vec::new();
        for name in images {
            let record = sample::image(workspace.blobs(), name, name.as_bytes());
            workspace.save_record(&record).unwrap();
            let image = AuditedImage {
                source: record.origin.to_string(),
                destination: None,
                digest: None,
                bytes: 0,
                outcome: AuditedOutcome::Copied,
                error: None,
            };
            run.journal().append(JournalEvent::Image(image)).unwrap();
            records.push(record);
        }
        run.end(status, Vec::new()).unwrap();
        records
    }

    fn collect(&self) -> GarbagePlan {
        let lock = self.workspace.lock(&[]).unwrap();
        let plan = self.workspace.plan_garbage().unwrap();
        self.workspace.free_garbage(&lock, &plan).unwrap();
        assert!(self.workspace.plan_garbage().unwrap().is_empty(), "nothing is left to free");
        let sound = self.workspace.verify(&|_, _| {}).unwrap();
        assert!(sound.is_sound(), "{sound:?}");
        plan
    }

    fn holds(&self, layer: &str) -> bool {
        self.workspace.blobs().has(&Digest::of(layer.as_bytes()), None).unwrap()
    }
}

const COMPLETE: RunStatus = RunStatus::Complete;

#[test]
fn images_that_a_configuration_dropped_are_freed_with_their_layouts_and_content() {
    let bench = Bench::new();
    let first = bench.run("isc.yaml", &["q.io/a:1", "q.io/b:1"], COMPLETE);
    bench.run("isc.yaml", &["q.io/a:1"], COMPLETE);
    let layout = bench.workspace.layout_of(&first[1].origin);
    assert!(layout.exists());
    let plan = bench.workspace.plan_garbage().unwrap();
    let images: Vec<_> = plan.images.iter().map(|(origin, _)| origin.to_string()).collect();
    assert_eq!(images, [first[1].origin.to_string()]);
    // Manifest, config and layer of the dropped image.
    assert_eq!((plan.blobs.len(), plan.images_kept), (3, 1));
    assert!(layout.exists(), "a plan changes nothing");
    bench.collect();
    assert!(!layout.exists() && !layout.parent().unwrap().exists());
    assert!(bench.holds("q.io/a:1") && !bench.holds("q.io/b:1"));
}

#[test]
fn every_configuration_of_the_workspace_counts() {
    let bench = Bench::new();
    bench.run("one.yaml", &["q.io/a:1"], COMPLETE);
    bench.run("two.yaml", &["q.io/b:1"], COMPLETE);
    assert!(bench.collect().is_empty());
    assert!(bench.holds("q.io/a:1") && bench.holds("q.io/b:1"));
}

#[test]
fn a_run_that_did_not_end_well_drops_nothing() {
    for status in [RunStatus::Interrupted, RunStatus::Paused, RunStatus::Failed] {
        let bench = Bench::new();
        bench.run("isc.yaml", &["q.io/a:1", "q.io/b:1"], COMPLETE);
        bench.run("isc.yaml", &["q.io/a:1"], status);
        assert!(bench.collect().is_empty(), "{status:?}");
    }
}

#[test]
fn content_of_a_tag_that_moved_is_freed() {
    let bench = Bench::new();
    bench.run("isc.yaml", &["q.io/a:1"], COMPLETE);
    let moved = sample::image(bench.workspace.blobs(), "q.io/a:1", b"new");
    bench.workspace.save_record(&moved).unwrap();
    let plan = bench.collect();
    assert_eq!((plan.images.len(), plan.blobs.len()), (0, 3));
    assert!(bench.holds("new") && !bench.holds("q.io/a:1"));
}

#[test]
fn images_of_no_run_documents_and_what_targets_name_stay() {
    let bench = Bench::new();
    bench.run("isc.yaml", &["q.io/a:1"], COMPLETE);
    let unknown = sample::image(bench.workspace.blobs(), "q.io/c:1", b"c");
    bench.workspace.save_record(&unknown).unwrap();
    bench.workspace.save_document("graphs/x.json", b"{}").unwrap();
    let target = Digest::of(b"at the target");
    bench.workspace.blobs().put(&target, b"at the target").unwrap();
    let targets = bench.workspace.working_dir().join("targets");
    fs::create_dir_all(&targets).unwrap();
    fs::write(targets.join("reg.json"), format!(r#"{{"digest":"{target}"}}"#)).unwrap();
    assert!(bench.collect().is_empty());
    fs::remove_file(targets.join("reg.json")).unwrap();
    assert_eq!(bench.collect().blobs, [(target, 13)]);
}

#[test]
fn downloads_stay_while_a_run_can_continue_them() {
    for (status, stays) in [(RunStatus::Paused, true), (COMPLETE, false)] {
        let bench = Bench::new();
        bench.run("isc.yaml", &["q.io/a:1"], status);
        let digest = Digest::of(b"half");
        bench.workspace.blobs().begin(&digest, 4).unwrap().write(b"ha").unwrap();
        assert_eq!(bench.collect().partial.is_empty(), stays, "{status:?}");
    }
}

#[test]
fn layouts_under_further_names_are_removed_with_their_image() {
    let bench = Bench::new();
    let images = bench.run("isc.yaml", &["q.io/a:1", "q.io/b:1"], COMPLETE);
    let layouts: Vec<PathBuf> = images
        .iter()
        .map(|image| {
            let name = image.tree.root().digest.hex();
            bench.workspace.lay_out_operator_image("pack", "pack.v1", &name, image).unwrap()
        })
        .collect();
    bench.run("isc.yaml", &["q.io/a:1"], COMPLETE);
    assert_eq!(bench.collect().layouts, layouts[1..]);
    assert!(layouts[0].exists() && !layouts[1].exists());
}

/// After any number of steps, the rest of the work is found again and no record lacks content.
#[test]
fn a_collection_that_was_cut_short_is_continued_by_the_next() {
    let bench = Bench::new();
    bench.run("isc.yaml", &["q.io/a:1", "q.io/b:1"], COMPLETE);
    bench.run("isc.yaml", &["q.io/a:1"], COMPLETE);
    let plan = bench.workspace.plan_garbage().unwrap();
    // Killed after the record and one blob.
    fs::remove_file(plan.images[0].1.join(crate::records::FILE)).unwrap();
    bench.workspace.blobs().remove(&plan.blobs[0].0).unwrap();
    assert!(bench.workspace.verify(&|_, _| {}).unwrap().is_sound());
    let rest = bench.collect();
    assert_eq!(rest.blobs.len(), plan.blobs.len() - 1);
}

#[test]
fn a_record_that_cannot_be_read_prevents_the_collection() {
    let bench = Bench::new();
    let images = bench.run("isc.yaml", &["q.io/a:1"], COMPLETE);
    let path = bench.workspace.layout_of(&images[0].origin).join(crate::records::FILE);
    fs::write(path, b"{").unwrap();
    assert!(matches!(bench.workspace.plan_garbage(), Err(GarbageError::Record(_))));
}

#[test]
fn a_directory_that_is_not_a_workspace_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = Workspace::open(dir.path()).plan_garbage().unwrap_err();
    assert!(matches!(error, GarbageError::NotAWorkspace(_)), "{error}");
}
