//! Names without a registry, such as `busybox`.
//!
//! skopeo and oc-mirror v2 read them as names at docker.io whatever `registries.conf` contains; podman
//! and CRI-O resolve them by its aliases and search list. Where both agree, the name is used. Where
//! they do not, another image than the user expects would be mirrored, so the name is rejected.

use std::collections::BTreeMap;
use std::path::PathBuf;

use oci::ImageRef;

use super::{ConfError, RegistriesConf};
use crate::environment::Environment;

/// What all files together contain about names without a registry.
#[derive(Debug, Default)]
pub struct ShortNames {
    /// The full name of each name, and the file that defines it.
    pub(super) aliases: BTreeMap<String, (PathBuf, String)>,
    /// Registries to search, and the file that lists them.
    pub(super) search: Option<(PathBuf, Vec<String>)>,
}

/// A name that other programs resolve to another image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShortNameError {
    #[error(
        "the short name {name:?} is ambiguous: it is {completed} by default, but {target} by the alias in {}; write the full name",
        file.display()
    )]
    Alias { name: String, completed: String, target: String, file: PathBuf },
    #[error(
        "the short name {name:?} is ambiguous: it is {completed} by default, but {} searches {}; write the full name",
        file.display(),
        registries.join(", ")
    )]
    Search { name: String, completed: String, registries: Vec<String>, file: PathBuf },
}

impl ShortNames {
    /// Reads the same files as a client does.
    pub fn open(environment: &Environment) -> Result<Self, ConfError> {
        Ok(RegistriesConf::open(environment)?.short_names)
    }

    /// Checks that a name without a registry means the image at docker.io.
    pub fn check(&self, name: &str, image: &ImageRef) -> Result<(), ShortNameError> {
        let completed = image.name();
        let repository = without_pointer(name);
        if let Some((file, target)) = self.aliases.get(repository) {
            // An alias to docker.io may be written as short as the name itself.
            let is_same = target.parse().is_ok_and(|target: ImageRef| target.name() == completed);
            return match is_same {
                true => Ok(()),
                false => Err(ShortNameError::Alias {
                    name: name.to_owned(),
                    completed,
                    target: target.clone(),
                    file: file.clone(),
                }),
            };
        }
        match &self.search {
            Some((file, registries)) if registries.iter().any(|host| !is_docker_io(host)) => {
                Err(ShortNameError::Search {
                    name: name.to_owned(),
                    completed,
                    registries: registries.clone(),
                    file: file.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn merge(&mut self, later: Self) {
        for (name, (file, target)) in later.aliases {
            // An empty alias removes one of an earlier file.
            match target.is_empty() {
                true => drop(self.aliases.remove(&name)),
                false => drop(self.aliases.insert(name, (file, target))),
            }
        }
        if later.search.is_some() {
            self.search = later.search;
        }
    }
}

/// Aliases are for names without tag and digest.
pub(super) fn check_alias(name: &str, target: &str) -> Result<(), String> {
    if !ImageRef::is_short(name) || without_pointer(name) != name {
        return Err(format!(
            "the alias {name:?} must be a name without registry, tag and digest, such as \"busybox\""
        ));
    }
    let is_full = target.is_empty()
        || !ImageRef::is_short(target)
            && target.parse().is_ok_and(|target: ImageRef| target.pointer().is_none());
    match is_full {
        true => Ok(()),
        false => Err(format!(
            "the alias {name:?} has the value {target:?}; expected registry/repository without tag and digest"
        )),
    }
}

/// The name without tag and digest.
fn without_pointer(name: &str) -> &str {
    let name = name.split('@').next().unwrap_or(name);
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}

fn is_docker_io(host: &str) -> bool {
    matches!(host, "docker.io" | "index.docker.io")
}
