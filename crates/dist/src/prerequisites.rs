//! What a run needs besides compilers: packagers, tools of the checks, packages of the distribution,
//! root. Everything is checked before the first compiler starts: compiling takes most of an hour, and
//! its result must not wait for a tool.

use anyhow::{Result, bail};
use test_tools::{DIST_PACKAGES, PACKAGES, Package, Tool};

use crate::command;
use crate::job::Job;
use crate::toolchain;

/// What of a run determines what it needs.
#[derive(Debug, Clone, Copy, Default)]
struct Needs {
    /// Whether packages are written.
    packages: bool,
    /// Whether the must-gather image is written.
    must_gather: bool,
    signature: bool,
    check: bool,
    /// Whether debug programs are packaged.
    debug: bool,
    /// Whether programs of another architecture are run.
    emulation: bool,
}

impl Needs {
    fn of(job: &Job, check: bool) -> Self {
        Self {
            packages: !job.only_images,
            must_gather: job.programs.iter().any(|program| program.name == "nmstate-operator"),
            signature: job.key.is_some(),
            check,
            debug: job.debug_programs.is_some(),
            emulation: check && job.architectures.iter().any(|one| !one.is_native()),
        }
    }

    fn tools(self) -> Vec<Tool> {
        let groups: [(bool, &[Tool]); 5] = [
            (self.packages, &[Tool::CargoDeb, Tool::CargoGenerateRpm]),
            (self.must_gather || self.check, &[Tool::Kubectl]),
            (self.signature || self.check, &[Tool::Cosign]),
            (self.check, &[Tool::Krew, Tool::KrewValidate]),
            // The checks of debug programs run in CI, which does not build it.
            (self.check && !self.debug, &[Tool::Oc]),
        ];
        groups
            .iter()
            .filter(|(is_needed, _)| *is_needed)
            .flat_map(|(_, tools)| *tools)
            .copied()
            .collect()
    }

    /// Programs of the distribution.
    fn programs(self) -> Vec<&'static str> {
        let groups: [(bool, &[&str]); 3] = [
            (self.must_gather, &["mmdebstrap"]),
            (self.check, &["busybox", "docker-registry", "rpm", "skopeo", "umoci"]),
            (self.emulation, &["qemu-aarch64-static"]),
        ];
        groups
            .iter()
            .filter(|(is_needed, _)| *is_needed)
            .flat_map(|(_, names)| *names)
            .copied()
            .collect()
    }

    fn root(self) -> Option<&'static str> {
        if self.check {
            Some(
                "checking needs root: packages are installed into trees and images run in namespaces",
            )
        } else if self.must_gather {
            Some("the must-gather image needs root: Debian packages are extracted")
        } else {
            None
        }
    }
}

/// Fails with everything that is missing and the commands that install it.
pub(crate) fn ensure_present(job: &Job, check: bool) -> Result<()> {
    let needs = Needs::of(job, check);
    let mut missing = Vec::new();
    if let Some(reason) = needs.root()
        && !is_root()?
    {
        missing.push(reason.to_owned());
    }
    if job.debug_programs.is_none() {
        missing.extend(toolchain::missing(&job.root, &job.architectures)?);
    }
    missing.extend(needs.tools().into_iter().filter_map(|tool| {
        let is_absent = test_tools::path(tool).is_err();
        is_absent.then(|| format!("{tool} is not installed; run `cargo xtask tools --dist`"))
    }));
    let installed = |program: &&str| test_tools::is_installed(program);
    missing.extend(needs.programs().iter().filter(|one| !installed(one)).map(|one| absent(one)));
    if !missing.is_empty() {
        bail!("parts that the run needs are missing:\n  {}", missing.join("\n  "));
    }
    Ok(())
}

fn absent(program: &str) -> String {
    let packages = PACKAGES.iter().chain(&DIST_PACKAGES);
    match packages.into_iter().find(|package| package.program == program) {
        Some(Package { name, purpose, .. }) => {
            format!("{program} ({purpose}) is not installed; run `apt-get install {name}`")
        }
        None => format!("{program} is not installed"),
    }
}

fn is_root() -> Result<bool> {
    let mut id = std::process::Command::new("id");
    Ok(command::output(id.arg("-u"))?.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_run_uses_is_needed() {
        let images = Needs::default();
        assert_eq!(images.tools(), []);
        assert_eq!(images.programs(), [""; 0]);
        assert_eq!(images.root(), None);
        let full = Needs {
            packages: true,
            must_gather: true,
            check: true,
            emulation: true,
            ..Needs::default()
        };
        assert!(full.tools().contains(&Tool::Oc));
        assert!(full.programs().contains(&"qemu-aarch64-static"));
        assert!(full.root().is_some());
        let short = Needs { debug: true, emulation: false, ..full };
        assert!(!short.tools().contains(&Tool::Oc));
        assert!(!short.programs().contains(&"qemu-aarch64-static"));
    }

    #[test]
    fn every_program_has_the_command_that_installs_it() {
        let full = Needs { must_gather: true, check: true, emulation: true, ..Needs::default() };
        for program in full.programs() {
            let message = absent(program);
            assert!(message.contains("; run `apt-get install "), "{message}");
        }
    }
}
