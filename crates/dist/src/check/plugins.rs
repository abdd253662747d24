//! Plugins: manifests validated by the tool of krew, installed by krew from the archive as on a
//! site without internet access, and run by kubectl and oc.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use test_tools::Tool;

use super::programs;
use crate::command;
use crate::job::{self, Artefacts};

pub(crate) fn check(artefacts: &Artefacts, is_debug: bool) -> Result<()> {
    let validate = test_tools::path(Tool::KrewValidate)?;
    let krew = test_tools::path(Tool::Krew)?;
    let kubectl = test_tools::path(Tool::Kubectl)?;
    // CI, which checks debug programs, does not build oc.
    let oc = if is_debug { None } else { Some(test_tools::path(Tool::Oc)?) };
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
        let of_krew = root.join("bin");
        ensure_runs(&kubectl, &of_krew, plugin, program.name)?;
        let mut callers = "kubectl";
        if let Some(oc) = &oc {
            // As sites without krew have it: a program on the PATH.
            let unpacked = programs::unpack(artefacts, contents)?;
            let folder = unpacked.parent().context("the program is not in a folder")?;
            ensure_runs(oc, folder, plugin, program.name)?;
            ensure_runs(oc, &of_krew, plugin, program.name)?;
            callers = "kubectl and oc";
        }
        println!(
            "    krew: {plugin} is valid, installs from the archive, runs as a plugin of {callers}"
        );
    }
    Ok(())
}

/// Runs the plugin that is in `folder`, by kubectl or oc.
fn ensure_runs(caller: &Path, folder: &Path, plugin: &str, name: &str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let search = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    let mut command = Command::new(caller);
    command.args([plugin, "--version"]);
    command.env("PATH", std::env::join_paths(search).context("adding plugins to the PATH")?);
    let version = command::output(&mut command)?;
    ensure!(
        version.starts_with(name),
        "expected the version of {name} from `{} {plugin} --version`, found `{version}`",
        caller.display()
    );
    Ok(())
}
