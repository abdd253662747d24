//! The cluster resources that a run generated.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use workspace::Workspace;

use super::Fault;

/// More of a file is not shown.
const MAX_SHOWN: u64 = 128 << 10;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// The files of the directory, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceList {
    pub(crate) directory: PathBuf,
    pub(crate) files: Vec<ResourceFile>,
}

/// The text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceText {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// Whether there is more than is shown.
    pub(crate) is_cut: bool,
}

pub(crate) fn list(workspace: &Workspace) -> Result<ResourceList, Fault> {
    let directory = workspace.cluster_resources();
    let fault = |error: io::Error| Fault::failed("reading the cluster resources", &error);
    let mut files = Vec::new();
    match fs::read_dir(&directory) {
        Ok(entries) => {
            for entry in entries {
                let entry = entry.map_err(fault)?;
                let about = entry.metadata().map_err(fault)?;
                // A hidden file is a note of the program, not a manifest.
                if entry.file_name().to_string_lossy().starts_with('.') {
                    continue;
                }
                if let (true, Ok(name)) = (about.is_file(), entry.file_name().into_string()) {
                    files.push(ResourceFile { name, bytes: about.len() });
                }
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(fault(error)),
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(ResourceList { directory, files })
}

/// The file with this name, which must be in the list: text of a request never becomes a path.
pub(crate) fn read(workspace: &Workspace, name: &str) -> Result<ResourceText, Fault> {
    let list = list(workspace)?;
    let known = list.files.iter().find(|file| file.name == name);
    let known = known.ok_or_else(|| Fault::Absent(format!("cluster resource {name} not found")))?;
    let path = list.directory.join(&known.name);
    let mut bytes = Vec::new();
    let fault = |error: io::Error| Fault::failed("reading the cluster resource", &error);
    fs::File::open(&path).map_err(fault)?.take(MAX_SHOWN).read_to_end(&mut bytes).map_err(fault)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(ResourceText { path, text, is_cut: known.bytes > MAX_SHOWN })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_and_nothing_else_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        assert!(list(&workspace).unwrap().files.is_empty());
        let folder = workspace.cluster_resources();
        fs::create_dir_all(folder.join("folder")).unwrap();
        fs::write(folder.join("idms-oc-mirror.yaml"), "kind: ImageDigestMirrorSet\n").unwrap();
        fs::write(folder.join(".generated"), "idms-oc-mirror.yaml\n").unwrap();
        fs::write(dir.path().join("secret"), "hush").unwrap();
        let names: Vec<String> =
            list(&workspace).unwrap().files.into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["idms-oc-mirror.yaml"]);
        let printed = read(&workspace, "idms-oc-mirror.yaml").unwrap();
        assert_eq!(
            (printed.text.as_str(), printed.is_cut),
            ("kind: ImageDigestMirrorSet\n", false)
        );
        for name in ["../../secret", "folder", "", "/etc/passwd", ".generated"] {
            assert!(matches!(read(&workspace, name), Err(Fault::Absent(_))), "{name}");
        }
    }
}
