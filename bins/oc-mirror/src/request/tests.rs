use registry::Retry;

use super::*;
use crate::arguments::Arguments;

fn parse(line: &str) -> Result<Request, Vec<Problem>> {
    let words = ["oc-mirror"].into_iter().chain(line.split_whitespace());
    let arguments = Arguments::read(words.map(Into::into)).unwrap();
    request(&arguments.mirror)
}

fn settings(line: &str) -> Settings {
    let words = ["oc-mirror"].into_iter().chain(line.split_whitespace());
    let arguments = Arguments::read(words.map(Into::into)).unwrap();
    let process = ProcessEnvironment::default();
    let configuration = Configuration {
        path: "isc.yaml".into(),
        text: String::new(),
        set: image_set::ImageSetConfiguration::default(),
    };
    request(&arguments.mirror).unwrap().settings(
        &arguments.mirror,
        &process,
        (configuration, None),
        (process.releases.sources(mirror::SignatureCheck::Enforce).unwrap(), None),
        &arguments.mirror.pace.pace(None, jiff::Timestamp::now()).unwrap(),
        vec![line.to_owned()],
    )
}

fn messages(line: &str) -> Vec<String> {
    parse(line).unwrap_err().into_iter().map(|problem| problem.message).collect()
}

#[test]
fn contradictions_are_refused_with_the_reason() {
    const DISK: &str = "-c isc.yaml file:///data";
    const PUSH: &str = "-c isc.yaml --from file:///data docker://reg";
    const COPY: &str = "-c isc.yaml --workspace file:///data docker://reg";
    for (line, wanted) in [
        ("file:///data".to_owned(), "the --config flag is mandatory"),
        (format!("{DISK} --dry-run --dry-run-manifest-lists"), "cannot be used together"),
        (format!("{DISK} --since 2026-13-01"), "expected YYYY-MM-DD"),
        (format!("{DISK} --since 2026-1-01"), "expected YYYY-MM-DD"),
        (format!("{DISK} --since yesterday"), "expected YYYY-MM-DD"),
        (format!("{DISK} --allow-incomplete"), "disk to mirror only"),
        (format!("{COPY} --allow-incomplete"), "disk to mirror only"),
        (format!("{PUSH} --no-archive"), "--no-archive has a meaning for mirror to disk only"),
        (format!("{COPY} --remove-archives-before 3"), "mirror to disk only"),
        (format!("{DISK} --no-archive --remove-archives-before 3"), "cannot be used together"),
        (format!("{DISK} --remove-signatures --refresh-signatures"), "cannot be used together"),
        (format!("{DISK} --policy p.json"), "--policy is used together with --secure-policy only"),
        (format!("{DISK} --v1"), "--v1 is not supported"),
        (format!("{DISK} --archive-partial"), "only together with --until"),
        (format!("{DISK} --strict-dry-run"), "--strict-dry-run has an effect only together"),
        (format!("{DISK} --src-creds a:b --src-no-creds"), "cannot be used together"),
    ] {
        let found = messages(&line);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].contains(wanted), "{line}: {found:?}");
    }
}

#[test]
fn every_problem_of_a_line_is_reported_at_once() {
    let found = messages("--force --since now --src-username me /data");
    assert_eq!(found.len(), 5, "{found:?}");
}

#[test]
fn since_with_from_is_worth_a_warning_only() {
    let request = parse("-c x --from file:///d docker://r --since 2026-01-31").unwrap();
    assert!(request.warnings[0].contains("--since has no effect"), "{:?}", request.warnings);
    let request = parse("-c x file:///d --since 2026-01-31").unwrap();
    assert!(request.warnings.is_empty());
}

#[test]
fn a_policy_is_enforced_only_when_that_is_requested() {
    let choice = |flags: &str| parse(&format!("-c x file:///d {flags}")).unwrap().policy;
    assert_eq!(choice(""), PolicyChoice::None);
    assert_eq!(choice("--secure-policy=false --policy="), PolicyChoice::None);
    assert_eq!(choice("--secure-policy"), PolicyChoice::Default);
    assert_eq!(choice("--secure-policy --policy="), PolicyChoice::Default);
    assert_eq!(choice("--secure-policy --policy p.json"), PolicyChoice::File("p.json".into()));
}

#[test]
fn flags_become_settings() {
    let settings = settings(
        "-c isc.yaml file:///data --parallel-images 8 --parallel-layers 3 --retry-times 2 \
         --retry-delay 500ms --image-timeout 10m --max-nested-paths 2 --since 2026-01-31 \
         --remove-archives-before 7 --refresh-signatures --icsp --dry-run-manifest-lists \
         --src-tls-verify=false --strict-archive",
    );
    assert_eq!(settings.workflow.name(), "mirrorToDisk");
    assert_eq!((settings.parallel_images.get(), settings.parallel_layers.get()), (8, 3));
    let retry = Retry { times: 2, delay: Some(Duration::from_millis(500)) };
    assert_eq!((settings.source.retry, settings.destination.retry), (retry, retry));
    assert_eq!(settings.source.per_host.get(), 24);
    assert_eq!(settings.transfer_timeout, Some(Duration::from_secs(600)));
    assert_eq!(settings.max_nested_paths, NonZeroUsize::new(2));
    assert_eq!(settings.archiving.since, Some(jiff::civil::date(2026, 1, 31)));
    assert_eq!(settings.archiving.remove_before, Some(7));
    assert!(settings.archiving.write && settings.refresh_attachments);
    assert!(settings.content_source_policy);
    assert_eq!(settings.dry_run, DryRun::PlanWithLists);
    assert_eq!(settings.attachments, Attachments::Carry);
    assert!(!settings.source.tls_verify && settings.destination.tls_verify);
}

#[test]
fn what_is_not_given_has_its_default() {
    let settings = settings("-c isc.yaml --workspace file:///data docker://reg --since=");
    let retry = Retry { times: 5, delay: None };
    assert_eq!(settings.source.retry, retry);
    assert_eq!(settings.transfer_timeout, None);
    assert_eq!(settings.max_nested_paths, None);
    assert_eq!(settings.archiving.since, None);
    assert_eq!(settings.dry_run, DryRun::No);
    assert!(settings.archiving.write && !settings.allow_incomplete);
}

#[test]
fn shards_are_for_runs_that_transfer_content() {
    let messages = |line: &str| -> String {
        let problems = parse(line).unwrap_err();
        problems.iter().map(|problem| format!("{problem}\n")).collect()
    };
    for line in [
        "-c x --shards 4 --workspace file://d docker://r",
        "-c x --shards 4 file://d",
        "-c x --shards 4 --from file://d docker://r",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
    for flag in ["--through-workspace", "--dry-run"] {
        let problems = messages(&format!("-c x --shards 4 {flag} --workspace file://d docker://r"));
        let expected = format!("--shards and {flag} cannot be used together");
        assert!(problems.contains(&expected), "{problems}");
    }
    // Budgets are for all shards together.
    let digest = oci::Digest::of(b"part");
    for (budget, expected) in
        [("", 80), ("--dest-limit-requests 8", 2), ("--dest-limit-requests 3", 1)]
    {
        let line = format!(
            "-c x --shards 4 {budget} --shard-part p --shard-digest {digest} --shard-index 0 --parallel-images 8 --parallel-layers 10 --workspace file://d docker://r"
        );
        let settings = settings(&line);
        assert_eq!(settings.destination.per_host.get(), expected, "{budget}");
        assert_eq!(settings.source.per_host.get(), 80);
    }
    let whole = settings("-c x --shards 4 --dest-limit-requests 8 --workspace file://d docker://r");
    assert_eq!(whole.destination.per_host.get(), 8);
    for count in ["0", "257", "x"] {
        let line = ["oc-mirror", "-c", "x", "--shards", count, "docker://r"];
        let error = Arguments::read(line.into_iter().map(Into::into)).unwrap_err().to_string();
        assert!(error.contains("expected a number from 1 to 256"), "{error}");
    }
}
