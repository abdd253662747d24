//! Documents in folders: `<role>/<host>.yml`, or `<host>.yml` with the role in its name.

use std::collections::{BTreeMap, BTreeSet};

use machine_config::{NameError, Role};

use super::{DocumentName, DocumentNameError, Inventory, InventoryDocument};

/// A file below the folder that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// From that folder, with slashes.
    pub path: String,
    pub bytes: Vec<u8>,
}

/// Why a file cannot be used where it is, or under its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    #[error("{path}: {source}; rename the file")]
    Name { path: String, source: DocumentNameError },
    #[error("{path}: expected a folder named after a role: {source}")]
    Folder { path: String, source: NameError },
    #[error("{path}: too deep; expected <role>/<host>.yml")]
    TooDeep { path: String },
    #[error("{first} and {second}: a host has one document; remove one of the two")]
    Twice { first: String, second: String },
}

impl FileProblem {
    /// The file to change, from the folder that was given.
    pub fn path(&self) -> &str {
        match self {
            Self::Name { path, .. } | Self::Folder { path, .. } | Self::TooDeep { path } => path,
            Self::Twice { second, .. } => second,
        }
    }
}

/// The documents of a folder by role and host, and the files without a role or host.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    pub inventory: Inventory,
    pub problems: Vec<FileProblem>,
    /// Paths of documents whose role is not known; they are placed in both roles.
    pub without_role: Vec<String>,
}

impl Placement {
    /// The documents, if every file has a role and host.
    pub fn into_inventory(self) -> Result<Inventory, Vec<FileProblem>> {
        if self.problems.is_empty() { Ok(self.inventory) } else { Err(self.problems) }
    }
}

/// Whose document a file is.
enum Owner {
    Host(Role, DocumentName),
    /// A host whose role is neither its folder nor in its name.
    HostOfAnyRole(DocumentName),
    /// `cluster.yml` outside of all roles.
    Cluster,
}

/// Assigns every `.yml` and `.yaml` file of the folder `top`; other files are ignored.
/// `role` is that of files that are not in the folder of a role.
///
/// A `cluster.yml` outside of all roles is for every role there is; `master` and `worker` if no
/// host has a role. A host without a role is placed in both: the name of its node selects it.
pub fn place_files(top: &str, files: &[FoundFile], role: Option<&Role>) -> Placement {
    let mut placement = Placement::default();
    let mut placed: BTreeMap<(Role, DocumentName), &FoundFile> = BTreeMap::new();
    let mut for_all: Vec<&FoundFile> = Vec::new();
    let mut sorted: Vec<_> = files.iter().filter(|file| is_document(&file.path)).collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    for file in sorted {
        let mut insert = |role: Role, stem: DocumentName| match placed.insert((role, stem), file) {
            Some(first) if first.path != file.path => {
                let (first, second) = (first.path.clone(), file.path.clone());
                let problem = FileProblem::Twice { first, second };
                if !placement.problems.contains(&problem) {
                    placement.problems.push(problem);
                }
            }
            _ => {}
        };
        match owner(&file.path, role) {
            Ok(Owner::Host(role, stem)) => insert(role, stem),
            Ok(Owner::HostOfAnyRole(stem)) => {
                for role in [Role::master(), Role::worker()] {
                    insert(role, stem.clone());
                }
                placement.without_role.push(file.path.clone());
            }
            Ok(Owner::Cluster) => for_all.push(file),
            Err(problem) => placement.problems.push(problem),
        }
    }
    if let [first, second, ..] = for_all.as_slice() {
        let (first, second) = (first.path.clone(), second.path.clone());
        placement.problems.push(FileProblem::Twice { first, second });
    }
    if let Some(file) = for_all.first() {
        let mut roles: BTreeSet<Role> = placed.keys().map(|(role, _)| role.clone()).collect();
        if roles.is_empty() {
            roles = [Role::master(), Role::worker()].into();
        }
        for role in roles {
            placed.entry((role, DocumentName::cluster())).or_insert(file);
        }
    }
    for ((role, stem), file) in placed {
        let document =
            InventoryDocument::from_file(&role, &format!("{top}/{}", file.path), &file.bytes);
        placement.inventory.insert(role, stem, document);
    }
    placement
}

fn owner(path: &str, default: Option<&Role>) -> Result<Owner, FileProblem> {
    let named = |name: &str| {
        let stem = name.strip_suffix(".yml").or(name.strip_suffix(".yaml")).unwrap_or(name);
        stem.parse::<DocumentName>()
            .map_err(|source| FileProblem::Name { path: path.to_owned(), source })
    };
    match path.split('/').collect::<Vec<_>>().as_slice() {
        [name] => {
            let stem = named(name)?;
            Ok(match default.cloned().or_else(|| stem.role()) {
                Some(role) => Owner::Host(role, stem),
                None if stem.is_cluster() => Owner::Cluster,
                None => Owner::HostOfAnyRole(stem),
            })
        }
        [folder, name] => match folder.parse() {
            Ok(role) => Ok(Owner::Host(role, named(name)?)),
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
        match place_files("hosts", &files, role.as_ref()).into_inventory() {
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
    fn folders_are_roles_and_names_may_contain_one() {
        for (paths, role, expected) in [
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
            (&["db1.yml"], None, &["master/db1 db1.yml", "worker/db1 db1.yml"]),
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
            assert_eq!(placed(paths, role).unwrap(), expected, "{paths:?}");
        }
    }

    #[test]
    fn files_without_a_place_are_reported() {
        for (paths, expected) in [
            (
                &["worker-0.yml", "worker-0.yaml"][..],
                "worker-0.yaml and worker-0.yml: a host has one document; remove one of the two",
            ),
            (
                &["cluster.yml", "cluster.yaml"],
                "cluster.yaml and cluster.yml: a host has one document; remove one of the two",
            ),
            (
                &["worker/a.example.com.yml"],
                "worker/a.example.com.yml: \"a.example.com\" is not a short host name; nodes look \
                 for `hostname -s`: lower-case letters, digits and `-`, nothing after a dot; rename \
                 the file",
            ),
            (
                &["worker/applied.yml"],
                "worker/applied.yml: a host cannot be named `applied`: that is the name of the \
                 flag file on nodes; rename the file",
            ),
            (&["a/b/c.yml"], "a/b/c.yml: too deep; expected <role>/<host>.yml"),
        ] {
            assert_eq!(placed(paths, None).unwrap_err(), [expected], "{paths:?}");
        }
        let [problem] = placed(&["My Hosts/a.yml"], None).unwrap_err().try_into().unwrap();
        assert!(problem.starts_with("My Hosts/a.yml: expected a folder named after a role: "));
    }
}
