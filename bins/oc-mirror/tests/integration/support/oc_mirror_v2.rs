//! What oc-mirror v2 leaves on a disk: a cache that docker-registry wrote, a working directory, and
//! archives of both in the order in which oc-mirror v2 writes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::docker_registry::{DockerRegistry, Settings};
use tempfile::TempDir;

use super::Site;

/// A machine on which oc-mirror v2 ran.
pub(crate) struct OcMirrorV2 {
    folder: TempDir,
    cache: Option<DockerRegistry>,
}

impl OcMirrorV2 {
    pub(crate) fn new() -> Self {
        Self::in_directory(&std::env::temp_dir())
    }

    /// The same on its own disk.
    pub(crate) fn in_directory(directory: &Path) -> Self {
        let folder = tempfile::tempdir_in(directory).unwrap();
        let storage = Some(folder.path().join(".oc-mirror/.cache"));
        let cache = DockerRegistry::start(&Settings { storage, ..Settings::default() }).unwrap();
        Self { folder, cache: Some(cache) }
    }

    /// The directory that `--cache-dir` names.
    pub(crate) fn cache_dir(&self) -> &Path {
        self.folder.path()
    }

    /// The workspace: the directory with `working-dir`.
    pub(crate) fn workspace(&self) -> &Path {
        self.folder.path()
    }

    fn storage(&self) -> PathBuf {
        self.folder.path().join(".oc-mirror/.cache")
    }

    /// Copies an image into the cache, as oc-mirror v2 does: over HTTP, into its embedded registry.
    pub(crate) fn copy(&self, site: &Site, from: &str, name: &str) {
        let cache = self.cache.as_ref().expect("the cache is still served");
        site.skopeo(&[
            "copy",
            "--quiet",
            "--all",
            "--preserve-digests",
            "--src-tls-verify=false",
            "--dest-tls-verify=false",
            &format!("docker://{from}"),
            &format!("docker://{}/{name}", cache.address()),
        ]);
    }

    /// Writes a file below `working-dir`.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.folder.path().join("working-dir").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// oc-mirror v2 has ended: nothing serves the cache any more.
    pub(crate) fn end(&mut self) {
        self.cache = None;
    }

    /// A file of the cache, by its path below `docker/registry/v2`.
    pub(crate) fn cached(&self, name: &str) -> PathBuf {
        self.storage().join("docker/registry/v2").join(name)
    }

    pub(crate) fn blob(&self, digest: &oci::Digest) -> PathBuf {
        let hex = digest.hex();
        self.cached(&format!("blobs/sha256/{}/{hex}/data", &hex[..2]))
    }

    /// Archives the cache without blobs that `delivered` has, and the working directory, into
    /// `chunks` files: all links first, then blobs, then the working directory.
    pub(crate) fn archive(
        &self,
        to: &Path,
        chunks: usize,
        format: &str,
        delivered: &[PathBuf],
    ) -> Vec<PathBuf> {
        fs::create_dir_all(to).unwrap();
        let mut names: Vec<(PathBuf, String)> = Vec::new();
        let storage = self.storage();
        for part in ["docker/registry/v2/repositories", "docker/registry/v2/blobs"] {
            let files = files(&storage, part).into_iter().filter(|file| !delivered.contains(file));
            names.extend(files.map(|file| (storage.clone(), file.display().to_string())));
        }
        if self.folder.path().join("working-dir").is_dir() {
            let files = files(self.folder.path(), "working-dir");
            let root = self.folder.path().to_owned();
            names.extend(files.into_iter().map(|file| (root.clone(), file.display().to_string())));
        }
        let each = names.len().div_ceil(chunks);
        let mut made = Vec::new();
        for (number, part) in names.chunks(each).enumerate() {
            let path = to.join(format!("mirror_{:06}.tar", number + 1));
            let mut tar = Command::new("tar");
            tar.arg(format!("--format={format}")).arg("-cf").arg(&path);
            for (root, name) in part {
                tar.arg("-C").arg(root).arg(name);
            }
            assert!(tar.status().unwrap().success());
            made.push(path);
        }
        made
    }

    /// All blobs of the cache, as [`OcMirrorV2::archive`] names them.
    pub(crate) fn blobs(&self) -> Vec<PathBuf> {
        files(&self.storage(), "docker/registry/v2/blobs")
    }
}

/// All plain files below a folder, relative to `root`, sorted. Uploads are not content.
fn files(root: &Path, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_owned();
        match path.is_dir() {
            true => found.extend(files(root, name.to_str().unwrap())),
            false => found.push(name),
        }
    }
    found.sort();
    found
}
