use mirror::{Failure, Totals};
use mirror_plan::Origin;

use super::*;

fn image(kind: Kind, name: &str, outcome: Outcome) -> ImageLine {
    ImageLine {
        kind,
        origin: Origin::Registry(format!("quay.io/a/{name}").parse().unwrap()),
        destination: format!("reg:5000/a/{name}"),
        digest: None,
        bytes: 1,
        outcome,
        notes: Vec::new(),
        needed_by: Vec::new(),
    }
}

fn failed(error: &str) -> Outcome {
    Outcome::Failed { error: error.into() }
}

fn failed_for(error: &str, remedy: Remedy) -> Outcome {
    Outcome::Failed { error: mirror::Reason::new(error, remedy) }
}

#[test]
fn a_hint_is_given_only_where_it_helps() {
    let printed = |remedies: &[Remedy]| {
        let mut report = Report::new("mirrorToDisk");
        let lines = remedies.iter().enumerate();
        report.images = lines
            .map(|(n, remedy)| {
                image(Kind::Additional, &format!("x:{n}"), failed_for("no", *remedy))
            })
            .collect();
        let text = show(&report);
        (text.contains("run the same command again"), text.contains("blockedImages"))
    };
    assert_eq!(printed(&[Remedy::RunAgain]), (true, false));
    assert_eq!(printed(&[Remedy::CheckName]), (false, true));
    assert_eq!(printed(&[Remedy::CheckAccess, Remedy::Unknown]), (false, false));
}

fn show(report: &Report) -> String {
    let chunk_sizes = BTreeMap::from([("/data/mirror_000004.tar".into(), 4 << 30)]);
    let context = ReportContext {
        log: Some(Path::new("/data/working-dir/logs/oc-mirror-20260102_030405.log")),
        chunk_sizes: &chunk_sizes,
        config: Path::new("isc.yaml"),
        stored_in: None,
    };
    let text = render(report, &context);
    // An object store replaces the transfer of files.
    let stored = ReportContext { stored_in: Some("s3://b/x".to_owned()), ..context };
    let carried = text.contains("--from file://DIRECTORY");
    assert_eq!(render(report, &stored).contains("--from s3://b/x docker://REGISTRY"), carried);
    text
}

#[test]
fn a_complete_run_to_disk_lists_what_to_transfer_and_the_next_command() {
    let mut report = Report::new("mirrorToDisk");
    report.run = Some(3);
    report.images = vec![
        image(Kind::Additional, "x:1", Outcome::Copied),
        image(Kind::Additional, "y:1", Outcome::Present),
    ];
    report.archive = Some(ArchiveLine {
        run: 3,
        base: Some(2),
        chunks: vec!["/data/mirror_000004.tar".into(), "/data/mirror_000005.tar".into()],
        bytes: (7 << 30) + (1 << 29),
    });
    report.files = vec!["/data/working-dir/isc_pinned_x.yaml".into()];
    report.totals =
        Totals { blobs: 12, bytes: 8 << 30, seconds: 64.0, images: 2, ..Totals::default() };
    assert_eq!(
        show(&report),
        "\
=== Results ===
2 / 2 additional images mirrored successfully
Archive of run 3, builds on run 2: 2 chunks, 7.5 GiB
  /data/mirror_000004.tar  4.0 GiB
  /data/mirror_000005.tar
Transfer these chunks to the other side and, unless they are there, those of run 2 and what it builds on. There, run:
  oc-mirror -c isc.yaml --from file://DIRECTORY docker://REGISTRY
Files written:
  /data/working-dir/isc_pinned_x.yaml
Log: /data/working-dir/logs/oc-mirror-20260102_030405.log
mirrorToDisk run 3 complete
8.0 GiB in 12 blobs, 1m04s, 128.0 MiB/s
"
    );
}

#[test]
fn failures_come_with_reasons_hints_and_the_error_file() {
    let mut report = Report::new("mirrorToDisk");
    report.ending = Ending::Partial;
    report.images = vec![
        image(Kind::Bundle, "b:1", failed("unauthorized")),
        image(Kind::Additional, "x:1", Outcome::Copied),
        image(
            Kind::Additional,
            "y:1",
            failed_for("reading the manifest:\n404\u{1b}[31m", Remedy::CheckName),
        ),
        image(
            Kind::Additional,
            "z:1",
            failed_for("connection refused (after 6 attempts)", Remedy::RunAgain),
        ),
    ];
    report.images[1].notes = vec!["a referrer is kept by digest only".into()];
    report.errors = vec![
        Failure::new(Exit::GENERIC, "writing /data: No space left on device")
            .with_hint("free 3 GiB"),
    ];
    report.warnings = vec!["the target is slow".into()];
    report.archive = Some(ArchiveLine {
        run: 1,
        base: None,
        chunks: vec!["/data/mirror_000004.tar".into()],
        bytes: 4 << 30,
    });
    let resources = "/data/working-dir/cluster-resources";
    report.files = vec![
        format!("{resources}/idms-oc-mirror.yaml").into(),
        "/data/working-dir/logs/mirroring_errors_20260102_030405.txt".into(),
    ];
    assert_eq!(
        show(&report),
        "\
=== Results ===
0 / 1 operator images mirrored: Some operator images failed to be mirrored - please check the logs (1 failed)
  failed: quay.io/a/b:1: unauthorized
1 / 3 additional images mirrored: Some additional images failed to be mirrored - please check the logs (2 failed)
  failed: quay.io/a/y:1: reading the manifest:
    404\u{fffd}[31m
  failed: quay.io/a/z:1: connection refused (after 6 attempts)
error: writing /data: No space left on device
  hint: free 3 GiB
hint: if the cause is temporary, run the same command again; images that have arrived are not copied twice
hint: remove an image that no longer exists from the configuration, or list it in blockedImages
Notes:
  quay.io/a/x:1: a referrer is kept by digest only
Warnings:
  the target is slow
Archive of run 1: 1 chunk, 4.0 GiB; it lacks the images that failed, and its index lists them
  /data/mirror_000004.tar  4.0 GiB
Transfer these chunks to the other side. There, run:
  oc-mirror -c isc.yaml --from file://DIRECTORY docker://REGISTRY
Cluster resources:
  /data/working-dir/cluster-resources/idms-oc-mirror.yaml
Apply them to the cluster:
  oc apply -f /data/working-dir/cluster-resources
Errors: /data/working-dir/logs/mirroring_errors_20260102_030405.txt
Log: /data/working-dir/logs/oc-mirror-20260102_030405.log
mirrorToDisk partial
nothing was transferred, 0.0s
"
    );
}

#[test]
fn a_dry_run_reports_what_would_be_done() {
    let mut report = Report::new("diskToMirror");
    report.ending = Ending::Planned;
    report.images = vec![
        image(Kind::Additional, "x:1", Outcome::Pending),
        image(Kind::Additional, "y:1", Outcome::Present),
    ];
    let dir = "/data/working-dir/dry-run";
    report.files = vec![
        format!("{dir}/cluster-resources/itms-oc-mirror.yaml").into(),
        format!("{dir}/mapping.txt").into(),
    ];
    assert_eq!(
        show(&report),
        "\
=== Results ===
2 additional images selected: 1 to copy, 1 already there
Cluster resources:
  /data/working-dir/dry-run/cluster-resources/itms-oc-mirror.yaml
Files written:
  /data/working-dir/dry-run/mapping.txt
Log: /data/working-dir/logs/oc-mirror-20260102_030405.log
diskToMirror dry run: nothing was mirrored
"
    );
}

#[test]
fn an_interrupted_run_reports_what_was_not_reached_and_how_to_continue() {
    let mut report = Report::new("mirrorToDisk");
    report.ending = Ending::Interrupted;
    report.images = vec![
        image(Kind::Additional, "x:1", Outcome::Copied),
        image(Kind::Additional, "y:1", Outcome::Pending),
        image(Kind::Additional, "z:1", failed("no")),
    ];
    let text = show(&report);
    assert!(text.contains("please check the logs (1 failed, 1 not reached)\n"), "{text}");
    assert!(text.ends_with("interrupted: run the same command again to continue\n"), "{text}");
}

#[test]
fn a_retry_is_suggested_only_where_it_can_help() {
    let printed = |error: &str, remedy: Remedy| {
        let mut report = Report::new("mirrorToDisk");
        report.ending = Ending::Partial;
        report.images = vec![image(Kind::Additional, "y:1", failed_for(error, remedy))];
        show(&report)
    };
    let again = "run the same command again";
    let remove = "remove an image that no longer exists";
    let lost = printed("quay.io/a/y:1 does not exist at its registry", Remedy::CheckName);
    assert!(!lost.contains(again) && lost.contains(remove), "{lost}");
    let busy = printed("the registry responded 503 (after 6 attempts)", Remedy::RunAgain);
    assert!(busy.contains(again) && !busy.contains(remove), "{busy}");
}
