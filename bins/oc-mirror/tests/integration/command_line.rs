//! The built program as a user or a script meets it: texts, streams and exit codes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program in its own environment: nothing of the machine's registries or proxies.
fn program(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oc-mirror"));
    command.args(line.split_whitespace()).env_clear().stdin(Stdio::null());
    command
}

struct Printed {
    code: Option<i32>,
    out: String,
    err: String,
}

fn printed(output: Output) -> Printed {
    Printed {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(line: &str) -> Printed {
    printed(program(line).output().unwrap())
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
        let printed = run(line);
        assert_eq!(printed.code, Some(0), "{line}: {}", printed.err);
        assert!(printed.out.contains("Usage:") && printed.err.is_empty(), "{line}");
    }
    for line in ["--version", "-v", "version", "version --v2", "version --short"] {
        let printed = run(line);
        assert_eq!(printed.code, Some(0), "{line}: {}", printed.err);
        assert!(printed.out.contains(env!("CARGO_PKG_VERSION")), "{line}: {}", printed.out);
    }
}

#[test]
fn help_shows_no_flag_that_has_no_effect() {
    let help = run("--help").out;
    assert!(help.contains("--parallel-images") && help.contains("--src-tls-verify"));
    assert!(help.contains("--cache-dir") && !help.contains("--port"), "{help}");
}

#[test]
fn wrong_usage_exits_1_and_reports_on_standard_error_only() {
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
        let printed = run(line);
        assert_eq!(printed.code, Some(1), "{line}: {}", printed.err);
        assert!(printed.err.contains(expected), "{line}: {}", printed.err);
        assert_eq!(printed.out, "", "{line}");
    }
}

#[test]
fn errors_have_the_mark_that_scripts_grep_for() {
    let printed = run("-c isc.yaml docker://reg --since never");
    let lines: Vec<&str> =
        printed.err.lines().filter(|line| line.contains("  [ERROR]  : ")).collect();
    assert_eq!(lines.len(), 2, "{}", printed.err);
}

#[test]
fn a_port_has_no_effect_and_a_warning() {
    let printed = run("-c missing.yaml file:///data -p 55000 --cache-dir /x");
    // The run continues to its configuration, which does not exist.
    assert!(printed.err.contains("missing.yaml: No such file"), "{}", printed.err);
    let warns =
        |line: &str| line.contains("  [WARN]   : ") && line.contains("--port has no effect");
    assert!(printed.err.lines().any(warns), "{}", printed.err);
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
    let printed = run(&line);
    assert!(printed.out.contains("[INFO]   : workflow mode: mirrorToDisk"), "{}", printed.out);
    assert!(printed.out.contains("[ERROR]"), "{}", printed.out);
    assert!(!printed.err.contains("[INFO]") && !printed.err.contains("[ERROR]"), "{}", printed.err);
    let printed = run(&format!("--output=json {line}"));
    assert!(printed.err.contains("[INFO]   : workflow mode: mirrorToDisk"), "{}", printed.err);
    assert!(printed.out.starts_with('{') && !printed.out.contains("[INFO]"), "{}", printed.out);
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let missing = dir.path().join("missing.yaml");
    let printed = run(&format!("-c {} file://{}", missing.display(), data.display()));
    assert_eq!(printed.code, Some(1));
    assert!(printed.err.contains("missing.yaml: No such file"), "{}", printed.err);
    assert!(!data.exists(), "nothing is made for a run that does not start");
}

#[test]
fn every_mistake_of_a_configuration_is_reported_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let config = configuration(
        dir.path(),
        "mirror:\n  additionalImagse: []\n  blockedImages:\n  - nam: x\n",
    );
    let data = dir.path().join("data");
    let printed = run(&format!("-c {} file://{}", config.display(), data.display()));
    assert_eq!(printed.code, Some(1));
    assert!(printed.err.contains("isc.yaml:4:3: "), "{}", printed.err);
    assert!(printed.err.contains("isc.yaml:6:"), "{}", printed.err);
    assert!(
        printed.err.contains("additionalImages"),
        "the nearest key is offered: {}",
        printed.err
    );
    assert!(printed.err.contains("[ERROR]  : invalid configuration"), "{}", printed.err);
    assert!(!data.exists());
}

#[test]
fn a_section_that_cannot_be_mirrored_yet_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let config = configuration(dir.path(), "mirror:\n  samples:\n  - name: ruby\n");
    let data = dir.path().join("data");
    let printed = run(&format!("-c {} file://{}", config.display(), data.display()));
    assert_eq!(printed.code, Some(1));
    assert!(
        printed.err.contains("mirror.samples is not supported by this version"),
        "{}",
        printed.err
    );
    assert!(!data.exists());
}

#[test]
fn a_registries_d_that_cannot_be_honoured_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.yaml"), "docker:\n  a.io:\n    lookaside: ftp://x\n").unwrap();
    let printed = run(&format!("-c isc.yaml file:///data --registries.d {}", dir.path().display()));
    assert_eq!(printed.code, Some(1));
    assert!(
        printed.err.contains("a.yaml: docker.a.io: lookaside: expected https://"),
        "{}",
        printed.err
    );
}

#[test]
fn a_mistyped_directory_to_push_from_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let config = configuration(dir.path(), "mirror:\n  additionalImages:\n  - name: a.io/b:1\n");
    let from = dir.path().join("dta");
    let line = format!("-c {} --from file://{} docker://reg", config.display(), from.display());
    let printed = run(&line);
    assert_eq!(printed.code, Some(1));
    assert!(printed.err.contains("no tar archives matching"), "{}", printed.err);
    assert!(printed.err.contains("dta, which is not a directory"), "{}", printed.err);
    assert!(!from.exists());
}

#[test]
fn a_directory_without_images_is_not_served() {
    let dir = tempfile::tempdir().unwrap();
    let printed = run(&format!("serve file://{} --listen 127.0.0.1:0", dir.path().display()));
    assert_eq!(printed.code, Some(1));
    assert!(printed.err.contains("holds no images"), "{}", printed.err);
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
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
