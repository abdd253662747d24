//! Documents in folders: `<role>/<host>.yml`, or `<host>.yml` with the role in its name.

use std::collections::{BTreeMap, BTreeSet};

use machine_config::{NameError, Role};

use super::{Inventory, Placed, Stem, StemError};

/// A file below the folder that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// From that folder, with slashes.
    pub path: String,
    pub bytes: Vec<u8>,
}

/// What is wrong with where a file is, or how it is called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    #[error("{path}: {source}; rename the file")]
    Name { path: String, source: StemError },
    #[error("{path}: its folder is to be named after a role: {source}")]
    Folder { path: String, source: NameError },
    #[error("{path}: too deep; files belong into the folder of their role: <role>/<host>.yml")]
    TooDeep { path: String },
    #[error(
        "{path}: which role? Its name begins with neither `master-` nor `worker-`; move it into a \
         folder of the role's name, or give --role"
    )]
    NoRole { path: String },
    #[error("{first} and {second}: a host has one document; remove one of the two")]
    Twice { first: String, second: String },
}

/// Puts every `.yml` and `.yaml` file of the folder `top` in its place; others are not looked at.
/// `role` is that of files that are in no folder of a role.
///
/// A `cluster.yml` outside of all roles is for every role there is; `master` and `worker` when no
/// host says a role.
pub fn from_files(
    top: &str,
    files: &[FoundFile],
    role: Option<&Role>,
) -> Result<Inventory, Vec<FileProblem>> {
    let mut problems = Vec::new();
    let mut placed: BTreeMap<(Role, Stem), &FoundFile> = BTreeMap::new();
    let mut for_all: Vec<&FoundFile> = Vec::new();
    let mut sorted: Vec<_> = files.iter().filter(|file| is_document(&file.path)).collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    for file in sorted {
        match place(&file.path, role) {
            Ok((Some(role), stem)) => {
                if let Some(first) = placed.insert((role, stem), file) {
                    let (first, second) = (first.path.clone(), file.path.clone());
                    problems.push(FileProblem::Twice { first, second });
                }
            }
            Ok((None, _)) => for_all.push(file),
            Err(problem) => problems.push(problem),
        }
    }
    if let [first, second, ..] = for_all.as_slice() {
        let (first, second) = (first.path.clone(), second.path.clone());
        problems.push(FileProblem::Twice { first, second });
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    if let Some(file) = for_all.first() {
        let mut roles: BTreeSet<Role> = placed.keys().map(|(role, _)| role.clone()).collect();
        if roles.is_empty() {
            roles = [Role::master(), Role::worker()].into();
        }
        for role in roles {
            placed.entry((role, Stem::cluster())).or_insert(file);
        }
    }
    let mut inventory = Inventory::default();
    for ((role, stem), file) in placed {
        let document = Placed::from_file(&role, &format!("{top}/{}", file.path), &file.bytes);
        inventory.insert(role, stem, document);
    }
    Ok(inventory)
}

/// The role and name of a file; no role for one that is for all.
fn place(path: &str, default: Option<&Role>) -> Result<(Option<Role>, Stem), FileProblem> {
    let named = |name: &str| {
        let stem = name.strip_suffix(".yml").or(name.strip_suffix(".yaml")).unwrap_or(name);
        stem.parse::<Stem>().map_err(|source| FileProblem::Name { path: path.to_owned(), source })
    };
    match path.split('/').collect::<Vec<_>>().as_slice() {
        [name] => {
            let stem = named(name)?;
            let role = default.cloned().or_else(|| stem.role());
            if role.is_none() && !stem.is_cluster() {
                return Err(FileProblem::NoRole { path: path.to_owned() });
            }
            Ok((role, stem))
        }
        [folder, name] => match folder.parse() {
            Ok(role) => Ok((Some(role), named(name)?)),
            Err(source) => Err(FileProblem::Folder { path: path.to_owned(), source }),
        },
        _ => Err(FileProblem::TooDeep { path: path.to_owned() }),
    }
}

fn is_document(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    !name.starts_with('.') && (name.ends_with(".yml") || name.ends_with(".yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(paths: &[&str], role: Option<&str>) -> Result<Vec<String>, Vec<String>> {
        let files: Vec<_> = paths
            .iter()
            .map(|path| FoundFile { path: (*path).to_owned(), bytes: path.as_bytes().to_owned() })
            .collect();
        let role = role.map(|role| role.parse().unwrap());
        match from_files("hosts", &files, role.as_ref()) {
            Ok(inventory) => Ok(inventory
                .documents()
                .map(|(role, stem, placed)| {
                    format!("{role}/{stem} {}", placed.origin.strip_prefix("hosts/").unwrap())
                })
                .collect()),
            Err(problems) => Err(problems.iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn folders_are_roles_and_names_may_say_one() {
        for (paths, role, wanted) in [
            (
                &["master/a.yml", "worker/b.yaml", "infra/c.yml"][..],
                None,
                &["infra/c infra/c.yml", "master/a master/a.yml", "worker/b worker/b.yaml"][..],
            ),
            (
                &["master-0.yml", "worker-0.yaml"],
                None,
                &["master/master-0 master-0.yml", "worker/worker-0 worker-0.yaml"],
            ),
            (
                &["a.yml", "worker-0.yml"],
                Some("infra"),
                &["infra/a a.yml", "infra/worker-0 worker-0.yml"],
            ),
            (&["cluster.yml"], None, &["master/cluster cluster.yml", "worker/cluster cluster.yml"]),
            (&["cluster.yml"], Some("infra"), &["infra/cluster cluster.yml"]),
            (
                &["cluster.yml", "worker/cluster.yml", "master-0.yml"],
                None,
                &[
                    "master/cluster cluster.yml",
                    "master/master-0 master-0.yml",
                    "worker/cluster worker/cluster.yml",
                ],
            ),
            (
                &["worker/b.yml", "README.md", ".hidden.yml", "worker/.b.yml"],
                None,
                &["worker/b worker/b.yml"],
            ),
        ] {
            assert_eq!(placed(paths, role).unwrap(), wanted, "{paths:?}");
        }
    }

    #[test]
    fn what_has_no_place_is_said() {
        for (paths, wanted) in [
            (
                &["worker-0.yml", "worker-0.yaml"][..],
                "worker-0.yaml and worker-0.yml: a host has one document; remove one of the two",
            ),
            (
                &["cluster.yml", "cluster.yaml"],
                "cluster.yaml and cluster.yml: a host has one document; remove one of the two",
            ),
            (
                &["db1.yml"],
                "db1.yml: which role? Its name begins with neither `master-` nor `worker-`; move it \
                 into a folder of the role's name, or give --role",
            ),
            (
                &["worker/a.example.com.yml"],
                "worker/a.example.com.yml: \"a.example.com\" is no short host name; nodes look for \
                 `hostname -s`: small letters, digits and `-`, nothing behind a dot; rename the file",
            ),
            (
                &["worker/applied.yml"],
                "worker/applied.yml: a host cannot be called `applied`: that is the name of a node's \
                 flag file; rename the file",
            ),
            (
                &["a/b/c.yml"],
                "a/b/c.yml: too deep; files belong into the folder of their role: <role>/<host>.yml",
            ),
        ] {
            assert_eq!(placed(paths, None).unwrap_err(), [wanted], "{paths:?}");
        }
        let [problem] = placed(&["My Hosts/a.yml"], None).unwrap_err().try_into().unwrap();
        assert!(problem.starts_with("My Hosts/a.yml: its folder is to be named after a role: "));
    }
}
