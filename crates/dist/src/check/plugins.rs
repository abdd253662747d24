//! Plugins: manifests validated by the tool of krew, installed by krew from the archive as on a
//! site without internet access, and run by kubectl.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use test_tools::Tool;

use crate::command;
use crate::job::{self, Artefacts};

pub(crate) fn check(artefacts: &Artefacts) -> Result<()> {
    let validate = test_tools::path(Tool::KrewValidate)?;
    let krew = test_tools::path(Tool::Krew)?;
    let kubectl = test_tools::path(Tool::Kubectl)?;
    for contents in artefacts.contents.iter().filter(|one| one.built.architecture.is_native()) {
        let program = contents.built.program;
        let Some(plugin) = program.plugin else { continue };
        let manifest = artefacts.folder.join(format!("{plugin}.yaml"));
        let mut command = Command::new(&validate);
        command::output(command.arg("-skip-install").arg("-manifest").arg(&manifest))
            .context("validating the manifest for krew")?;
        let root = artefacts.work.path().join(format!("krew-{plugin}"));
        let archive = artefacts.folder.join(job::file_name(contents, &artefacts.release, "tar.gz"));
        let mut command = Command::new(&krew);
        command.arg("install").arg("--manifest").arg(&manifest).arg("--archive").arg(&archive);
        command::output(command.env("KREW_ROOT", &root).env("KREW_NO_UPGRADE_CHECK", "1"))?;
        let version = run(&kubectl, &root.join("bin"), plugin)?;
        ensure!(
            version.starts_with(program.name),
            "expected the version of {} from `kubectl {plugin} --version`, found `{version}`",
            program.name
        );
        println!("    krew: {plugin} is valid, installs from the archive, and runs as a plugin");
    }
    Ok(())
}

/// Runs a plugin that is in `folder`.
fn run(kubectl: &Path, folder: &Path, plugin: &str) -> Result<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let search = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    let mut command = Command::new(kubectl);
    command.args([plugin, "--version"]);
    command.env("PATH", std::env::join_paths(search).context("adding plugins to the PATH")?);
    command::output(&mut command)
}
