//! A full disk, and a build folder on another filesystem. The disks are tmpfs in a mount namespace,
//! which needs root, as the tests of nodes do.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A program that writes the documents that every program of ours writes.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void document(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (name[strlen(name) - 1] == '/') {
        mkdir(path, 0755);
        return;
    }
    FILE *file = fopen(path, "w");
    fputs("text\n", file);
    fclose(file);
}

int main(int count, char **words) {
    if (count != 4 || strcmp(words[1], "generate-docs") != 0) return 1;
    char parent[4096];
    snprintf(parent, sizeof parent, "%s", words[3]);
    *strrchr(parent, '/') = 0;
    mkdir(parent, 0755);
    mkdir(words[3], 0755);
    document(words[3], "man/");
    document(words[3], "man/oc-mirror.1");
    document(words[3], "completions/");
    document(words[3], "completions/oc-mirror");
    document(words[3], "completions/_oc-mirror");
    document(words[3], "completions/oc-mirror.fish");
    return 0;
}
"#;

fn write_program(folder: &Path) {
    fs::create_dir_all(folder).expect("creating a folder");
    let source = folder.join("program.c");
    fs::write(&source, PROGRAM).expect("writing the source");
    let mut compiler = Command::new("cc");
    compiler.arg("-o").arg(folder.join("oc-mirror")).arg(&source);
    assert!(compiler.status().expect("starting cc").success());
}

/// Runs `dist`, which writes the image of the program in `folder/programs`, with an empty disk of
/// this size at `folder/disk`. Afterwards `then` is run, while the disk still exists.
fn dist_with_disk(folder: &Path, size: &str, before: &str, out: &str, then: &str) -> Output {
    write_program(&folder.join("programs"));
    fs::create_dir_all(folder.join("disk")).expect("creating a folder");
    let script = format!(
        "mount -t tmpfs -o size={size} tmpfs disk; {before}
        \"$DIST\" --only-images --program oc-mirror --debug-programs programs --out {out}
        code=$?; {then}; exit $code"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--", "sh", "-uc", &script]);
    command.env("DIST", env!("CARGO_BIN_EXE_dist")).env("LC_ALL", "C").current_dir(folder);
    command.output().expect("starting unshare")
}

#[test]
fn a_full_disk_is_reported_and_keeps_the_artefacts_of_an_earlier_run() {
    let folder = tempfile::tempdir().unwrap();
    let before = "export CARGO_TARGET_DIR=$PWD/target; mkdir disk/out; \
                  echo old >disk/out/earlier.tar; (cd disk/out; sha256sum earlier.tar >SHA256SUMS)";
    let then = "ls -A disk/out; cat disk/out/earlier.tar";
    let ended = dist_with_disk(folder.path(), "64k", before, "disk/out", then);
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    assert!(errors.contains("No space left on device"), "{errors}");
    let file = concat!("oc-mirror-", env!("CARGO_PKG_VERSION"));
    assert!(errors.contains(file), "expected the name of the file: {errors}");
    let listed = String::from_utf8(ended.stdout).unwrap();
    assert!(listed.ends_with("SHA256SUMS\nearlier.tar\nold\n"), "{listed}");
}

#[test]
fn the_build_folder_may_be_on_another_filesystem() {
    let folder = tempfile::tempdir().unwrap();
    let before = "export CARGO_TARGET_DIR=$PWD/disk/target";
    let then = "ls -A disk/target; cd out && ls -A && sha256sum --check --strict SHA256SUMS";
    let ended = dist_with_disk(folder.path(), "64m", before, "out", then);
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{errors}");
    let listed = String::from_utf8(ended.stdout).unwrap();
    assert!(listed.contains("-oci.tar: OK"), "{listed}");
    assert!(!listed.contains(".partial"), "{listed}");
}
