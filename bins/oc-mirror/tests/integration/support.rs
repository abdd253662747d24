//! A machine that the program runs on, and the tools that verify its results.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod browser;
pub(crate) mod charts;
pub(crate) mod console;
pub(crate) mod deletion;
pub(crate) mod faulty_disk;
pub(crate) mod forky_skopeo;
pub(crate) mod mounted;
pub(crate) mod oc_mirror_v2;
pub(crate) mod operators;
pub(crate) mod releases;
pub(crate) mod serving;
pub(crate) mod under_way;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use lab::certificates::Authority;
use lab::netns::Isolated;
use lab::registry::Credentials;
use serde_json::Value;
use tempfile::TempDir;

/// The lab's plain registries are reached without TLS.
pub(crate) const PLAIN: &str = "--src-tls-verify=false --dest-tls-verify=false";

/// A separate machine: a home, configurations, workspaces, no proxies.
/// Programs run in its directory, so relative names are names in it.
#[derive(Debug)]
pub(crate) struct Site {
    directory: TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        let site = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir_all(site.path("home/tmp")).unwrap();
        site
    }

    /// A file or directory of this machine.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file and the directories above it.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The text of a file.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Writes a configuration; `mirror` is the text below `mirror:`, indented by two spaces.
    pub(crate) fn image_set(&self, name: &str, mirror: &str) {
        self.write(name, &image_set(mirror));
    }

    /// Writes a configuration that mirrors these images.
    pub(crate) fn images(&self, name: &str, images: &[impl ToString]) {
        let lines = images.iter().map(|image| format!("  - name: {}\n", image.to_string()));
        self.image_set(name, &format!("  additionalImages:\n{}", lines.collect::<String>()));
    }

    /// Configures in registries.conf that images of `name` are found at `location`, without TLS.
    pub(crate) fn redirect(&self, name: &str, location: SocketAddr) {
        let path = self.path("home/.config/containers/registries.conf");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let known = fs::read_to_string(&path).unwrap_or_default();
        fs::write(&path, known + &redirection(name, &location.to_string())).unwrap();
    }

    /// Trusts a registry with a certificate of this authority, in the way of podman.
    pub(crate) fn trust(&self, registry: SocketAddr, authority: &Authority) {
        let folder = format!("home/.config/containers/certs.d/{registry}");
        authority.write_certs_dir(&self.path(&folder), None).unwrap();
    }

    /// Logs in to a registry with skopeo, which writes the file `--authfile` reads.
    pub(crate) fn log_in(&self, file: &str, registry: SocketAddr, credentials: &Credentials) {
        let (file, registry) = (self.path(file), registry.to_string());
        self.skopeo(&[
            "login",
            "--authfile",
            file.to_str().unwrap(),
            "--username",
            &credentials.user,
            "--password",
            &credentials.password,
            &registry,
        ]);
    }

    /// Prepares to run the program with these arguments, separated by blanks.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oc-mirror"));
        command.args(line.split_whitespace());
        self.place(&mut command);
        command
    }

    /// The same inside a network namespace.
    pub(crate) fn command_in(&self, isolated: &Isolated, line: &str) -> Command {
        let mut command = isolated.command(env!("CARGO_BIN_EXE_oc-mirror"));
        command.args(line.split_whitespace());
        self.place(&mut command);
        command
    }

    /// Runs the program with a JSON report.
    pub(crate) fn run(&self, line: &str) -> Ran {
        Ran::of(self.command(&format!("--output=json {line}")).output().unwrap())
    }

    /// Runs the program and expects it to succeed.
    pub(crate) fn succeeds(&self, line: &str) -> Ran {
        let ran = self.run(line);
        assert_eq!(ran.code, 0, "{line}\n{}\n{}", ran.err, ran.out);
        ran
    }

    /// Runs skopeo and returns what it printed.
    pub(crate) fn skopeo(&self, args: &[&str]) -> String {
        String::from_utf8(self.judge("skopeo", &[&["--insecure-policy"], args].concat())).unwrap()
    }

    /// The manifest that skopeo gets for `reference`, byte by byte.
    pub(crate) fn raw(&self, reference: &str, options: &[&str]) -> Vec<u8> {
        let args = [&["--insecure-policy", "inspect", "--raw"], options, &[reference]].concat();
        self.judge("skopeo", &args)
    }

    /// Pulls a whole image with skopeo, which checks every digest.
    pub(crate) fn pull(&self, reference: &str, options: &[&str]) {
        let into = tempfile::tempdir_in(self.directory.path()).unwrap();
        let into = format!("dir:{}", into.path().display());
        let copy = ["copy", "--quiet", "--all", "--preserve-digests"];
        self.skopeo(&[&copy, options, &[reference, &into]].concat());
    }

    /// Runs another program and expects it to succeed.
    pub(crate) fn judge(&self, program: &str, args: &[&str]) -> Vec<u8> {
        let output = self.try_judge(program, args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program} {args:?}: {message}");
        output.stdout
    }

    /// Runs another program on this machine.
    pub(crate) fn try_judge(&self, program: &str, args: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(args);
        self.place(&mut command);
        command.output().unwrap_or_else(|error| panic!("running {program}: {error}"))
    }

    fn place(&self, command: &mut Command) {
        let home = self.path("home");
        command
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join(".config"))
            .env("XDG_RUNTIME_DIR", home.join("run"))
            .env("TMPDIR", home.join("tmp"))
            .stdin(Stdio::null());
    }
}

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The report, which is all of standard output.
    pub(crate) fn report(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("no report ({error}): {}\n{}", self.out, self.err))
    }

    /// A number of the report's totals.
    pub(crate) fn total(&self, name: &str) -> u64 {
        self.report()["totals"][name].as_u64().unwrap_or_else(|| panic!("no total {name}"))
    }

    /// The text of every error in the report, with its hint.
    pub(crate) fn errors(&self) -> String {
        let report = self.report();
        let errors = report["errors"].as_array().unwrap().iter();
        let lines = errors.flat_map(|e| [e["message"].as_str(), e["hint"].as_str()]).flatten();
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The report's line of the image whose origin contains `part`.
    pub(crate) fn image(&self, part: &str) -> Value {
        let report = self.report();
        let images = report["images"].as_array().unwrap();
        let found = images.iter().find(|image| image["origin"].to_string().contains(part));
        found.unwrap_or_else(|| panic!("{part} is not in {images:#?}")).clone()
    }
}

/// A configuration; `mirror` is the text below `mirror:`, indented by two spaces.
pub(crate) fn image_set(mirror: &str) -> String {
    format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n{mirror}"
    )
}

/// A passage of registries.conf: images of `name` are found at `location`, without TLS.
pub(crate) fn redirection(name: &str, location: &str) -> String {
    format!("[[registry]]\nprefix = {name:?}\nlocation = {location:?}\ninsecure = true\n")
}

/// Copies a directory as users do.
pub(crate) fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(status.success(), "copying {} to {}", from.display(), to.display());
}

/// The names of a directory's files that are not hidden, in order.
pub(crate) fn visible_names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

/// The cluster resources in a directory without the lines that contain time and target.
pub(crate) fn timeless_resources(directory: &Path, target: &str) -> BTreeMap<String, String> {
    let timeless = |name: String| {
        let text = fs::read_to_string(directory.join(&name)).unwrap().replace(target, "TARGET");
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("createdAt")).collect();
        (name, lines.join("\n"))
    };
    visible_names(directory).into_iter().map(timeless).collect()
}

/// The archive chunks in a directory, in order.
pub(crate) fn chunks(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut chunks: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "tar")).collect();
    chunks.sort();
    chunks
}
