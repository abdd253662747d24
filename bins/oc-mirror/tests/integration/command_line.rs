//! The built program as a user or a script meets it: texts, streams and exit codes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program in an environment of its own: nothing of the machine's registries or proxies.
fn program(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oc-mirror"));
    command.args(line.split_whitespace()).env_clear().stdin(Stdio::null());
    command
}

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn said(output: Output) -> Said {
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(line: &str) -> Said {
    said(program(line).output().unwrap())
}

fn configuration(dir: &Path, mirror: &str) -> PathBuf {
    let path = dir.join("isc.yaml");
    let head = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\n";
    fs::write(&path, format!("{head}{mirror}")).unwrap();
    path
}

#[test]
fn help_and_version_need_no_v2_and_succeed_on_standard_output() {
    for line in ["--help", "-h", "help", "--help --v2", "serve --help", "help serve"] {
        let said = run(line);
        assert_eq!(said.code, Some(0), "{line}: {}", said.err);
        assert!(said.out.contains("Usage:") && said.err.is_empty(), "{line}");
    }
    for line in ["--version", "-v", "version", "version --v2", "version --short"] {
        let said = run(line);
        assert_eq!(said.code, Some(0), "{line}: {}", said.err);
        assert!(said.out.contains(env!("CARGO_PKG_VERSION")), "{line}: {}", said.out);
    }
}

#[test]
fn help_shows_no_flag_that_has_no_effect() {
    let help = run("--help").out;
    assert!(help.contains("--parallel-images") && help.contains("--src-tls-verify"));
    assert!(help.contains("--cache-dir") && !help.contains("--port"), "{help}");
}

#[test]
fn wrong_usage_exits_1_and_says_so_on_standard_error_only() {
    for (line, expected) in [
        ("", "no destination was given"),
        ("file:///data", "the --config flag is mandatory"),
        ("--nonsense", "--nonsense"),
        ("-c isc.yaml /data", "neither file:// nor docker://"),
        ("-c isc.yaml file:///data --parallel-images 0", "--parallel-images"),
        ("-c isc.yaml file:///data --v1", "--v1 is not supported"),
        ("list operators --catalogs", "--catalogs needs --version"),
        ("describe x", "`describe` is not part of this version"),
        ("delete --generate docker://reg", "--generate needs --config"),
        ("delete --generate -c disc.yaml", "no destination was given"),
        ("delete --generate -c disc.yaml file:///data", "is not a registry"),
        ("delete docker://reg", "--delete-yaml-file is mandatory"),
        ("delete --delete-yaml-file nowhere.yaml docker://reg", "nowhere.yaml"),
        ("delete --delete-yaml-file x --delete-v1-images docker://reg", "only with --generate"),
        ("delete --generate -c d.yaml --dry-run docker://reg", "which deletes nothing"),
        ("prune docker://reg", "nothing to delete was given"),
        ("completion tcsh", "tcsh"),
        ("serve", "DIR"),
        ("serve /data --tls-cert x", "--tls-key"),
    ] {
        let said = run(line);
        assert_eq!(said.code, Some(1), "{line}: {}", said.err);
        assert!(said.err.contains(expected), "{line}: {}", said.err);
        assert_eq!(said.out, "", "{line}");
    }
}

#[test]
fn errors_carry_the_mark_that_scripts_grep_for() {
    let said = run("-c isc.yaml docker://reg --since never");
    let lines: Vec<&str> = said.err.lines().filter(|line| line.contains("  [ERROR]  : ")).collect();
    assert_eq!(lines.len(), 2, "{}", said.err);
}

#[test]
fn a_port_has_no_effect_and_a_warning() {
    let said = run("-c missing.yaml file:///data -p 55000 --cache-dir /x");
    // The run goes on to its configuration, which does not exist.
    assert!(said.err.contains("missing.yaml: No such file"), "{}", said.err);
    let warns =
        |line: &str| line.contains("  [WARN]   : ") && line.contains("--port has no effect");
    assert!(said.err.lines().any(warns), "{}", said.err);
}

#[test]
fn log_lines_of_a_run_go_to_standard_output_unless_the_report_is_json() {
    let dir = tempfile::tempdir().unwrap();
    let isc = dir.path().join("isc.yaml");
    let text = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\n\
                mirror: {additionalImages: [{name: \"127.0.0.1:1/a/b:1\"}]}\n";
    fs::write(&isc, text).unwrap();
    let line = format!(
        "-c {} --retry-times 0 file://{}",
        isc.display(),
        dir.path().join("data").display()
    );
    let said = run(&line);
    assert!(said.out.contains("[INFO]   : workflow mode: mirrorToDisk"), "{}", said.out);
    assert!(said.out.contains("[ERROR]"), "{}", said.out);
    assert!(!said.err.contains("[INFO]") && !said.err.contains("[ERROR]"), "{}", said.err);
    let said = run(&format!("--output=json {line}"));
    assert!(said.err.contains("[INFO]   : workflow mode: mirrorToDisk"), "{}", said.err);
    assert!(said.out.starts_with('{') && !said.out.contains("[INFO]"), "{}", said.out);
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let missing = dir.path().join("missing.yaml");
    let said = run(&format!("-c {} file://{}", missing.display(), data.display()));
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("missing.yaml: No such file"), "{}", said.err);
    assert!(!data.exists(), "nothing is made for a run that does not start");
}

#[test]
fn every_mistake_of_a_configuration_is_told_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let config = configuration(
        dir.path(),
        "mirror:\n  additionalImagse: []\n  blockedImages:\n  - nam: x\n",
    );
    let data = dir.path().join("data");
    let said = run(&format!("-c {} file://{}", config.display(), data.display()));
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("isc.yaml:4:3: "), "{}", said.err);
    assert!(said.err.contains("isc.yaml:6:"), "{}", said.err);
    assert!(said.err.contains("additionalImages"), "the nearest key is offered: {}", said.err);
    assert!(said.err.contains("[ERROR]  : invalid configuration"), "{}", said.err);
    assert!(!data.exists());
}

#[test]
fn a_section_that_cannot_be_mirrored_yet_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let config = configuration(dir.path(), "mirror:\n  samples:\n  - name: ruby\n");
    let data = dir.path().join("data");
    let said = run(&format!("-c {} file://{}", config.display(), data.display()));
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("mirror.samples is not supported by this version"), "{}", said.err);
    assert!(!data.exists());
}

#[test]
fn a_registries_d_that_cannot_be_honoured_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.yaml"), "docker:\n  a.io:\n    lookaside: ftp://x\n").unwrap();
    let said = run(&format!("-c isc.yaml file:///data --registries.d {}", dir.path().display()));
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("a.yaml: docker.a.io: lookaside: expected https://"), "{}", said.err);
}

#[test]
fn a_mistyped_directory_to_push_from_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let config = configuration(dir.path(), "mirror:\n  additionalImages:\n  - name: a.io/b:1\n");
    let from = dir.path().join("dta");
    let line = format!("-c {} --from file://{} docker://reg", config.display(), from.display());
    let said = run(&line);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("no tar archives matching"), "{}", said.err);
    assert!(said.err.contains("dta, which is not a directory"), "{}", said.err);
    assert!(!from.exists());
}

#[test]
fn a_directory_without_images_is_not_served() {
    let dir = tempfile::tempdir().unwrap();
    let said = run(&format!("serve file://{} --listen 127.0.0.1:0", dir.path().display()));
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("holds no images"), "{}", said.err);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for line in ["completion bash", "--help", "version --output json"] {
        let mut child =
            program(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let message: Vec<String> = stderr.lines().map(Result::unwrap).collect();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{line}: {message:?}");
        assert!(message.is_empty(), "{line}: {message:?}");
    }
}

#[test]
fn completion_scripts_are_accepted_by_the_shell() {
    let script = run("completion bash").out;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("oc-mirror.bash");
    fs::write(&path, script).unwrap();
    let status = Command::new("bash").arg("-n").arg(&path).status().unwrap();
    assert!(status.success());
}
