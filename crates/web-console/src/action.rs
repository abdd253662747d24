//! What the console starts: command lines of this program. Pure.

use std::path::{Path, PathBuf};

use mirror_plan::Target;

/// How registries are reached, as given to the console and passed on to every run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryFlags {
    pub authfile: Option<PathBuf>,
    pub source: SideFlags,
    pub destination: SideFlags,
}

impl RegistryFlags {
    /// For commands that only read from source registries.
    pub(crate) fn source_arguments(&self) -> Vec<String> {
        let mut words = Words::default();
        words.registries(self, true, false);
        words.0
    }
}

/// How the registries of one side are reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SideFlags {
    /// Allow plain HTTP and certificates that cannot be verified.
    pub is_insecure: bool,
    pub cert_dir: Option<PathBuf>,
}

/// A command with everything that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    MirrorToDisk {
        config: PathBuf,
        dry_run: bool,
    },
    DiskToMirror {
        config: PathBuf,
        target: Target,
        dry_run: bool,
    },
    MirrorToMirror {
        config: PathBuf,
        target: Target,
        dry_run: bool,
    },
    Verify,
    Repair,
    /// Writes what would be deleted.
    PlanDeletion {
        config: PathBuf,
        target: Target,
    },
    /// Deletes what a list names.
    Delete {
        list: PathBuf,
        target: Target,
    },
}

/// Distinguishes the lists of the console from those of commands.
pub(crate) const DELETE_ID: &str = "console";

impl Action {
    /// For people.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::MirrorToDisk { dry_run: true, .. } => "Plan: mirror to disk",
            Self::DiskToMirror { dry_run: true, .. } => "Plan: disk to mirror",
            Self::MirrorToMirror { dry_run: true, .. } => "Plan: mirror to mirror",
            Self::MirrorToDisk { .. } => "Mirror to disk",
            Self::DiskToMirror { .. } => "Disk to mirror",
            Self::MirrorToMirror { .. } => "Mirror to mirror",
            Self::Verify => "Verify",
            Self::Repair => "Repair",
            Self::PlanDeletion { .. } => "Plan a deletion",
            Self::Delete { .. } => "Delete",
        }
    }

    /// The arguments of `oc-mirror` for the workspace `directory` (`file://DIR`).
    pub(crate) fn arguments(&self, directory: &str, flags: &RegistryFlags) -> Vec<String> {
        let mut words = Words::default();
        let docker = |target: &Target| format!("docker://{target}");
        match self {
            Self::MirrorToDisk { config, dry_run } => {
                words.pair("-c", config).flag("--dry-run", *dry_run);
                words.registries(flags, true, false).word(directory);
            }
            Self::DiskToMirror { config, target, dry_run } => {
                words.pair("-c", config).flag("--dry-run", *dry_run);
                words.registries(flags, false, true);
                words.word("--from").word(directory).word(&docker(target));
            }
            Self::MirrorToMirror { config, target, dry_run } => {
                words.pair("-c", config).flag("--dry-run", *dry_run);
                words.registries(flags, true, true);
                words.word("--workspace").word(directory).word(&docker(target));
            }
            Self::Verify => {
                words.word("verify").word(directory);
            }
            Self::Repair => {
                words.word("repair").registries(flags, true, false).word(directory);
            }
            Self::PlanDeletion { config, target } => {
                words.word("delete").word("--generate").word("--delete-id").word(DELETE_ID);
                words.pair("-c", config).registries(flags, false, true);
                words.word("--workspace").word(directory).word(&docker(target));
            }
            Self::Delete { list, target } => {
                words.word("delete").pair("--delete-yaml-file", list);
                words.registries(flags, false, true);
                words.word("--workspace").word(directory).word(&docker(target));
            }
        }
        words.0
    }
}

#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn word(&mut self, word: &str) -> &mut Self {
        self.0.push(word.to_owned());
        self
    }

    fn flag(&mut self, flag: &str, is_set: bool) -> &mut Self {
        if is_set { self.word(flag) } else { self }
    }

    fn pair(&mut self, flag: &str, path: &Path) -> &mut Self {
        self.word(flag).word(&path.display().to_string())
    }

    /// Only the flags of the sides that a command has.
    fn registries(&mut self, flags: &RegistryFlags, source: bool, destination: bool) -> &mut Self {
        if let Some(authfile) = &flags.authfile {
            self.pair("--authfile", authfile);
        }
        for (side, name, is_used) in
            [(&flags.source, "src", source), (&flags.destination, "dest", destination)]
        {
            if is_used && side.is_insecure {
                self.word(&format!("--{name}-tls-verify=false"));
            }
            if let (true, Some(folder)) = (is_used, &side.cert_dir) {
                self.pair(&format!("--{name}-cert-dir"), folder);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(action: &Action, flags: &RegistryFlags) -> String {
        action.arguments("file:///data", flags).join(" ")
    }

    #[test]
    fn every_action_is_a_command_line_of_the_program() {
        let config = PathBuf::from("/data/isc.yaml");
        let target: Target = "docker://reg:5000/ocp".parse().unwrap();
        let flags = RegistryFlags {
            authfile: Some("/auth.json".into()),
            source: SideFlags { is_insecure: true, cert_dir: None },
            destination: SideFlags { is_insecure: false, cert_dir: Some("/certs".into()) },
        };
        let disk = Action::MirrorToDisk { config: config.clone(), dry_run: true };
        assert_eq!(
            line(&disk, &flags),
            "-c /data/isc.yaml --dry-run --authfile /auth.json --src-tls-verify=false file:///data"
        );
        let push = Action::DiskToMirror { config, target: target.clone(), dry_run: false };
        assert_eq!(
            line(&push, &flags),
            "-c /data/isc.yaml --authfile /auth.json --dest-cert-dir /certs --from file:///data docker://reg:5000/ocp"
        );
        assert_eq!(line(&Action::Verify, &flags), "verify file:///data");
        let delete = Action::Delete { list: "/data/list.yaml".into(), target };
        assert_eq!(
            line(&delete, &RegistryFlags::default()),
            "delete --delete-yaml-file /data/list.yaml --workspace file:///data docker://reg:5000/ocp"
        );
    }
}
