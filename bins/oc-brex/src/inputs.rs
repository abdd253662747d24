//! Documents on the disk: files, folders of hosts, MachineConfigs, install-configs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use br_ex::hosts::{CLUSTER, HostDocument, Naming};
use br_ex::{Document, Surroundings, install_config};
use command_line::say;
use located_yaml::{Keys, Node, load};

/// No file that we read is larger; whatever is, is something else.
const MAX_SIZE: u64 = 32 << 20;

/// A document, and where it comes from.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    /// Its path on the node, when it is inside of a MachineConfig.
    pub(crate) inner: Option<String>,
    /// The host it is for; `None` when that is not known.
    pub(crate) host: Option<String>,
    pub(crate) document: HostDocument,
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) list: Vec<Input>,
    /// What an install-config says about the cluster.
    pub(crate) surroundings: Surroundings,
}

impl Inputs {
    /// Reads files and folders. `role` is that of hosts whose place or name does not tell.
    pub(crate) fn read(paths: &[PathBuf], role: Option<&str>) -> Result<Self> {
        let mut inputs = Self::default();
        for path in paths {
            let kind = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
            if kind.is_dir() {
                inputs.read_folder(path, role)?;
            } else {
                inputs.read_file(path, Place::Alone)?;
            }
        }
        if inputs.list.is_empty() {
            let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            bail!(
                "there is no br-ex document in {}; name NMState documents, folders with \
                 <role>/<host>.yml or <host>.yml, MachineConfigs or an install-config",
                names.join(", ")
            );
        }
        Ok(inputs)
    }

    fn read_folder(&mut self, folder: &Path, role: Option<&str>) -> Result<()> {
        let mut files = Vec::new();
        for (path, is_folder) in entries(folder)? {
            if !is_folder {
                files.push(path);
                continue;
            }
            let role = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for (path, is_folder) in entries(&path)? {
                if is_folder {
                    say(&format!("note: not read: {}", path.display()));
                } else {
                    self.read_file(&path, Place::Role(&role))?;
                }
            }
        }
        let roles: Vec<String> = files.iter().map(|path| role_of(path, role)).collect();
        for (path, own) in files.iter().zip(&roles) {
            if is_for_all(path) {
                // It goes to every role, and is beside the hosts of each.
                let mut others: Vec<&String> = roles
                    .iter()
                    .zip(&files)
                    .filter(|(_, path)| !is_for_all(path))
                    .map(|it| it.0)
                    .collect();
                others.sort();
                others.dedup();
                let all = [own];
                let others = if others.is_empty() { &all[..] } else { &others[..] };
                for role in others {
                    self.read_file(path, Place::Role(role))?;
                }
            } else {
                self.read_file(path, Place::Role(own))?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, path: &Path, place: Place<'_>) -> Result<()> {
        let bytes = read(path)?;
        let text = String::from_utf8_lossy(&bytes);
        let root = load(&text, Keys::Exact).root;
        let kind = root.as_ref().and_then(|root| root.get("kind")).and_then(Node::text);
        match (kind, &root) {
            (Some("MachineConfig"), _) => self.read_machine_config(path, &text),
            (None, Some(root)) if install_config::is_install_config(root) => {
                self.read_install_config(path, &text)
            }
            _ => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let document = Document::parse(&bytes);
                let (naming, role) = match place {
                    Place::Role(role) if kind.is_none() => (Naming::File, role),
                    Place::Role(_) | Place::Alone => (Naming::Loose, ""),
                };
                let document = HostDocument { role: role.to_owned(), name, naming, document };
                let host = (naming == Naming::File && !document.is_for_all())
                    .then(|| document.host().to_owned());
                self.list.push(Input { path: path.to_owned(), inner: None, host, document });
                Ok(())
            }
        }
    }

    fn read_machine_config(&mut self, path: &Path, text: &str) -> Result<()> {
        let reading = || format!("reading {}", path.display());
        for config in machine_config::parse_all(text).with_context(reading)?.machine_configs {
            let is_ours =
                |file: &&machine_config::File| file.path.is_within(machine_config::BR_EX_FOLDER);
            for file in config.files.iter().filter(is_ours) {
                let document = HostDocument {
                    role: config
                        .role
                        .as_ref()
                        .map_or_else(String::new, |role| role.as_str().to_owned()),
                    name: file.path.file_name().to_owned(),
                    naming: Naming::FileOnNode,
                    document: Document::parse(file.contents.bytes()),
                };
                let host = (!document.is_for_all()).then(|| document.host().to_owned());
                let inner = Some(file.path.as_str().to_owned());
                self.list.push(Input { path: path.to_owned(), inner, host, document });
            }
        }
        Ok(())
    }

    fn read_install_config(&mut self, path: &Path, text: &str) -> Result<()> {
        let config =
            install_config::parse(text).with_context(|| format!("reading {}", path.display()))?;
        for document in config.documents() {
            let host = Some(document.name.clone());
            self.list.push(Input { path: path.to_owned(), inner: None, host, document });
        }
        self.surroundings = config.surroundings;
        Ok(())
    }
}

/// How a file was found.
#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    Alone,
    /// In a folder of hosts.
    Role(&'a str),
}

/// Whether a file is for all hosts.
fn is_for_all(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == CLUSTER)
}

/// The role that a host's name begins with, or else the given one.
fn role_of(path: &Path, role: Option<&str>) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let by_name = ["master", "worker"]
        .into_iter()
        .find(|role| stem.strip_prefix(role).is_some_and(|rest| rest.starts_with('-')));
    by_name.or(role).unwrap_or_default().to_owned()
}

/// The files and folders of a folder, in the order of their names; hidden ones and
/// files that are no YAML are left out, the latter not without a word.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, bool)>> {
    let reading = || format!("reading {}", folder.display());
    let mut list = Vec::new();
    for entry in fs::read_dir(folder).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        let is_folder = fs::metadata(&path).with_context(reading)?.is_dir();
        let is_hidden = path.file_name().is_some_and(|it| it.as_encoded_bytes().starts_with(b"."));
        let is_yaml = path.extension().is_some_and(|it| it == "yml" || it == "yaml");
        match (is_hidden, is_folder || is_yaml) {
            (true, _) => {}
            (false, true) => list.push((path, is_folder)),
            (false, false) => say(&format!(
                "note: not read: {} ends neither in .yml nor in .yaml",
                path.display()
            )),
        }
    }
    list.sort();
    Ok(list)
}

/// Reads a file of a size that such a file may have.
fn read(path: &Path) -> Result<Vec<u8>> {
    let reading = || format!("reading {}", path.display());
    let size = fs::metadata(path).with_context(reading)?.len();
    if size > MAX_SIZE {
        bail!("reading {}: it has {size} bytes, more than any file that is meant", path.display());
    }
    fs::read(path).with_context(reading)
}
