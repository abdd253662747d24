//! Images: read by skopeo, unpacked by umoci, run in namespaces.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::sandbox;
use crate::architecture::Architecture;
use crate::job::Artefacts;
use crate::{command, image};

pub(crate) fn check(artefacts: &Artefacts) -> Result<()> {
    let mut architectures: Vec<Architecture> =
        artefacts.contents.iter().map(|one| one.built.architecture).collect();
    architectures.sort();
    architectures.dedup();
    for (name, path) in &artefacts.images {
        let raw = skopeo(&["inspect", "--raw"], path, &[])?;
        let index: Value = serde_json::from_str(&raw).context("reading the index")?;
        let mut found: Vec<&str> = index["manifests"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|manifest| manifest["platform"]["architecture"].as_str())
            .collect();
        found.sort_unstable();
        let mut expected: Vec<&str> = architectures.iter().map(|one| one.go()).collect();
        expected.sort_unstable();
        ensure!(found == expected, "expected {expected:?} in the index of {name}, found {found:?}");
        for architecture in &architectures {
            check_one(artefacts, name, path, *architecture)
                .with_context(|| format!("checking the image {name} for {architecture}"))?;
        }
        let size = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?.len();
        println!("    image {name}: {}, {} MiB, runs", expected.join(" and "), size >> 20);
    }
    Ok(())
}

fn skopeo(words: &[&str], archive: &Path, rest: &[String]) -> Result<String> {
    let mut skopeo = Command::new("skopeo");
    let image = format!("oci-archive:{}", archive.display());
    command::output(skopeo.args(words).arg(image).args(rest))
}

fn check_one(
    artefacts: &Artefacts,
    name: &str,
    archive: &Path,
    architecture: Architecture,
) -> Result<()> {
    let work = artefacts.work.path().join(format!("image-{name}-{architecture}"));
    fs::create_dir_all(&work).context("creating a folder")?;
    let select = format!("--override-arch={}", architecture.go());
    let layout = format!("oci:{}:checked", work.join("layout").display());
    skopeo(&["copy", "--quiet", &select], archive, &[layout])?;
    let config = skopeo(&["inspect", "--config", &select], archive, &[])?;
    let config: Value = serde_json::from_str(&config).context("reading the configuration")?;
    let labels = &config["config"]["Labels"];
    for (label, expected) in [
        ("org.opencontainers.image.revision", artefacts.release.commit.as_str()),
        ("org.opencontainers.image.version", &artefacts.release.version()),
        ("org.opencontainers.image.title", name),
    ] {
        ensure!(
            labels[label] == expected,
            "expected label {label}={expected}, found {}",
            labels[label]
        );
    }
    let bundle = work.join("bundle");
    let mut umoci = Command::new("umoci");
    umoci.arg("unpack").arg("--image").arg(format!("{}:checked", work.join("layout").display()));
    command::output(umoci.arg(&bundle))?;
    let root = bundle.join("rootfs");
    let user = config["config"]["User"].as_str().unwrap_or_default();
    match name {
        "must-gather" => check_must_gather(&root, architecture),
        _ => {
            ensure!(user == image::USER, "expected user {}, found `{user}`", image::USER);
            sandbox::ensure_absent(&root, &["bin/sh", "usr/bin/sh", "bin/bash", "usr/bin/bash"])?;
            let entrypoint = config["config"]["Entrypoint"][0].as_str().unwrap_or_default();
            let version = sandbox::output(&root, architecture, user, &[entrypoint, "--version"])?;
            ensure!(version.starts_with(name), "expected the version of {name}, found `{version}`");
            if name == "nmstate-operator" {
                ensure!(
                    labels["io.openshift.release.operator"] == "true",
                    "the image is not marked as part of a payload"
                );
                ensure!(
                    root.join("manifests/image-references").is_file(),
                    "/manifests is incomplete"
                );
            }
            Ok(())
        }
    }
}

/// What `oc adm must-gather` does in the image: a shell that watches the volume and starts
/// /usr/bin/gather, then tar that copies the result.
fn check_must_gather(root: &Path, architecture: Architecture) -> Result<()> {
    if !architecture.is_native() {
        // The shell would start programs of the other architecture, which needs binfmt_misc.
        let text =
            sandbox::output(root, architecture, "0:0", &["/bin/bash", "-c", "echo $BASH_VERSION"])?;
        ensure!(!text.trim().is_empty(), "bash does not run");
        return Ok(());
    }
    let script = "\
        df -P / | awk 'NR==2 {print $5}' | sed 's/%//' >/tmp/usage 2>/dev/null || true; \
        setsid -w bash -c '/usr/bin/gather /must-gather' ; \
        sync; ps -o sess --no-headers | sort -u >/dev/null; \
        tar -C /must-gather -cf - . | tar -tf -";
    let listed = sandbox::output(root, architecture, "0:0", &["/bin/bash", "-c", script])?;
    // Without a cluster the script collects the errors.
    for file in ["./nmstate/nmstates.error", "./nmstate/namespace.yaml"] {
        ensure!(listed.lines().any(|line| line == file), "expected {file} among:\n{listed}");
    }
    Ok(())
}
