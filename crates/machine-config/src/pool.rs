//! What the nodes of a pool get: all its MachineConfigs, one over the other.

use std::collections::BTreeMap;

use crate::file::{File, FilePath};
use crate::machine_config::MachineConfig;
use crate::name::{MachineConfigName, Role};
use crate::unit::Unit;

/// The MachineConfigs of a pool in the order in which they are merged.
#[derive(Debug, Clone)]
pub struct Pool<'a> {
    configs: Vec<&'a MachineConfig>,
}

/// A file as a node of the pool has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RenderedFile<'a> {
    pub file: &'a File,
    pub from: &'a MachineConfigName,
}

/// A file that a later MachineConfig replaces entirely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overridden<'a> {
    pub path: &'a FilePath,
    pub loser: &'a MachineConfigName,
    pub winner: &'a MachineConfigName,
}

impl<'a> Pool<'a> {
    /// The pool of `role` out of all MachineConfigs of a cluster.
    ///
    /// Nodes of a custom pool are workers, too: they get the workers' configuration first
    /// and their own over it. Within a role the names decide.
    pub fn new(role: &Role, all: impl IntoIterator<Item = &'a MachineConfig>) -> Self {
        let mut configs: Vec<&MachineConfig> = all
            .into_iter()
            .filter(|config| !config.is_rendered())
            .filter(|config| match &config.role {
                Some(of) => of == role || (role.is_custom() && *of == Role::worker()),
                None => false,
            })
            .collect();
        let is_workers = |config: &MachineConfig| config.role == Some(Role::worker());
        configs.sort_by_key(|config| (!is_workers(config), config.name.clone()));
        Self { configs }
    }

    /// First to last; later ones win.
    pub fn order(&self) -> &[&'a MachineConfig] {
        &self.configs
    }

    /// The files that a node has in the end.
    pub fn files(&self) -> BTreeMap<&'a FilePath, RenderedFile<'a>> {
        let mut files = BTreeMap::new();
        for config in &self.configs {
            for file in &config.files {
                files.insert(&file.path, RenderedFile { file, from: &config.name });
            }
        }
        files
    }

    /// The bytes of JSON of the MachineConfig that the operator renders: each file and unit once,
    /// and everything else of every MachineConfig.
    pub(crate) fn rendered_json_len(&self) -> usize {
        let mut rest = 0;
        let mut units: BTreeMap<&str, &Unit> = BTreeMap::new();
        for config in &self.configs {
            let mut bare: MachineConfig = (*config).clone();
            bare.files.clear();
            bare.units.clear();
            rest += bare.to_json().len();
            units.extend(config.units.iter().map(|unit| (unit.name.as_str(), unit)));
        }
        let files = self.files();
        let of_files = files.values().map(|it| it.file.to_value().to_string().len() + 1);
        let of_units = units.values().map(|unit| unit.to_value().to_string().len() + 1);
        rest + of_files.sum::<usize>() + of_units.sum::<usize>()
    }

    /// What is given more than once, in the order in which it is replaced.
    pub fn overridden(&self) -> Vec<Overridden<'a>> {
        let mut holders: BTreeMap<&FilePath, &MachineConfigName> = BTreeMap::new();
        let mut overridden = Vec::new();
        for config in &self.configs {
            for file in &config.files {
                if let Some(loser) = holders.insert(&file.path, &config.name) {
                    overridden.push(Overridden { path: &file.path, loser, winner: &config.name });
                }
            }
        }
        overridden
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::Encoding;

    fn config(name: &str, role: &str, path: &str, text: &str) -> MachineConfig {
        let mut config = MachineConfig::new(name.parse().unwrap(), role.parse().unwrap());
        config.files.push(File::new(path.parse().unwrap(), text.as_bytes(), Encoding::Plain));
        config
    }

    #[test]
    fn a_pool_of_ones_own_has_the_workers_files_under_its_own() {
        let all = [
            config("05-infra", "infra", "/etc/x", "infra"),
            config("99-worker", "worker", "/etc/x", "worker 99"),
            config("10-worker", "worker", "/etc/x", "worker 10"),
            config("00-master", "master", "/etc/x", "master"),
        ];
        let infra = Pool::new(&"infra".parse().unwrap(), &all);
        let names: Vec<_> = infra.order().iter().map(|config| config.name.as_str()).collect();
        assert_eq!(names, ["10-worker", "99-worker", "05-infra"]);
        let files = infra.files();
        let (path, rendered) = files.first_key_value().unwrap();
        assert_eq!((path.as_str(), rendered.file.contents.bytes()), ("/etc/x", &b"infra"[..]));
        assert_eq!(rendered.from.as_str(), "05-infra");
        let replaced: Vec<_> =
            infra.overridden().iter().map(|it| (it.loser.as_str(), it.winner.as_str())).collect();
        assert_eq!(replaced, [("10-worker", "99-worker"), ("99-worker", "05-infra")]);
    }

    #[test]
    fn the_rendered_size_counts_every_file_of_the_pool_once() {
        let size = |all: &[MachineConfig]| Pool::new(&Role::worker(), all).rendered_json_len();
        let text = "x".repeat(30_000);
        let one = config("10-a", "worker", "/etc/a", &text);
        let encoded = 40_000;
        assert!(size(std::slice::from_ref(&one)) > encoded);
        // Another file counts, the same path again does not, nor does another pool.
        let two = [one.clone(), config("20-b", "worker", "/etc/b", &text)];
        assert!(size(&two) > 2 * encoded);
        let same = [one.clone(), config("20-b", "worker", "/etc/a", &text)];
        assert!(size(&same) < 2 * encoded);
        let other = [one.clone(), config("20-b", "master", "/etc/b", &text)];
        assert_eq!(size(&other), size(&[one]));
    }

    #[test]
    fn masters_and_workers_get_their_own_only() {
        let all = [
            config("00-master", "master", "/etc/m", ""),
            config("00-worker", "worker", "/etc/w", ""),
            config("rendered-worker-0123", "worker", "/etc/r", ""),
        ];
        for (role, expected) in [(Role::master(), "/etc/m"), (Role::worker(), "/etc/w")] {
            let paths: Vec<_> = Pool::new(&role, &all).files().into_keys().collect();
            assert_eq!(paths.iter().map(|path| path.as_str()).collect::<Vec<_>>(), [expected]);
        }
    }
}
