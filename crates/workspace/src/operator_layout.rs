//! Operators under the names that catalogs give them: the files of catalogs, the images of bundles.
//!
//! ```text
//! DIR/operator-index-cache/redhat-operator-index/v4.16-linux-amd64/configs/…
//! DIR/operator-images/elasticsearch-operator/elasticsearch-operator.v5.8.1/kibana/
//! ```

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use mirror_plan::ImageRecord;
use oci::Digest;

use crate::Workspace;
use crate::disk_error::{At, DiskError, unless_absent};
use crate::layout::has_no_links;

const CACHE: &str = "operator-index-cache";
const IMAGES: &str = "operator-images";
/// Beside the files, of which image they are. Written last, so that it covers all of them.
const DIGEST: &str = "digest";

impl Workspace {
    /// Lays an image of a bundle out as an image of its own. All its content is shared with `blobs`.
    pub fn lay_out_operator_image(
        &self,
        package: &str,
        bundle: &str,
        image: &str,
        record: &ImageRecord,
    ) -> Result<PathBuf, DiskError> {
        self.lay_out(&[IMAGES, package, bundle, image], record)
    }

    /// Keeps the files of the catalog `name`, below `folder`, which is named after a tag and a
    /// platform. Those of another image, by its `digest`, are replaced once the new ones are
    /// complete.
    pub fn save_index<'f>(
        &self,
        name: &str,
        folder: &str,
        digest: &Digest,
        files: impl Iterator<Item = (&'f str, &'f [u8])>,
    ) -> Result<PathBuf, DiskError> {
        let path = self.root().join(self.place(&[CACHE, name, folder])?);
        let known = fs::read_to_string(path.join(DIGEST)).ok();
        if known.as_deref() == Some(&*digest.to_string()) && !path.is_symlink() {
            return Ok(path);
        }
        let draft = self.root().join(self.place(&[CACHE, name, &format!(".new-{folder}")])?);
        unless_absent(fs::remove_dir_all(&draft)).at("removing", &draft)?;
        let configs = draft.join("configs");
        fs::create_dir_all(&configs).at("creating", &configs)?;
        for (file, bytes) in files {
            let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
            if file.is_empty() || !Path::new(file).components().all(is_plain) {
                let odd = format!("{file:?} is not a valid file name in a catalog");
                return Err(DiskError::new("writing in", &configs, std::io::Error::other(odd)));
            }
            let at = configs.join(file);
            let parent = at.parent().unwrap_or(&configs);
            fs::create_dir_all(parent).at("creating", parent)?;
            fs::write(&at, bytes).at("writing", &at)?;
        }
        let marker = draft.join(DIGEST);
        fs::write(&marker, digest.to_string()).at("writing", &marker)?;
        remove(&path)?;
        fs::rename(&draft, &path).at("writing", &path)?;
        Ok(path)
    }

    /// Records that the files of the catalog in `folder` are those in the folder `same`. A filesystem
    /// without links gets a copy.
    pub fn link_index(&self, name: &str, folder: &str, same: &str) -> Result<PathBuf, DiskError> {
        let path = self.root().join(self.place(&[CACHE, name, folder])?);
        self.place(&[same])?;
        if fs::read_link(&path).is_ok_and(|to| to == Path::new(same)) {
            return Ok(path);
        }
        remove(&path)?;
        match symlink(same, &path) {
            Err(error) if has_no_links(&error) => {
                copy(&path.with_file_name(same), &path)?;
            }
            linked => linked.at("writing", &path)?,
        }
        Ok(path)
    }
}

/// Copies a folder of files and folders.
fn copy(from: &Path, to: &Path) -> Result<(), DiskError> {
    fs::create_dir_all(to).at("creating", to)?;
    for entry in fs::read_dir(from).at("reading", from)? {
        let entry = entry.at("reading", from)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().at("reading", &source)?.is_dir() {
            true => copy(&source, &target)?,
            false => fs::copy(&source, &target).map(drop).at("writing", &target)?,
        }
    }
    Ok(())
}

/// Removes a folder, or a link to one.
fn remove(path: &Path) -> Result<(), DiskError> {
    let removed = match path.is_symlink() {
        true => fs::remove_file(path),
        false => fs::remove_dir_all(path),
    };
    unless_absent(removed).at("removing", path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_copied_with_all_below_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/file"), b"x").unwrap();
        copy(&dir.path().join("a"), &dir.path().join("c")).unwrap();
        assert_eq!(fs::read(dir.path().join("c/b/file")).unwrap(), b"x");
    }

    fn save(workspace: &Workspace, folder: &str, digest: &[u8], files: &[(&str, &str)]) -> PathBuf {
        let files = files.iter().map(|(path, text)| (*path, text.as_bytes()));
        workspace.save_index("index", folder, &Digest::of(digest), files).unwrap()
    }

    #[test]
    fn the_files_of_a_catalog_replace_those_of_an_older_one() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let path = save(&workspace, "v1-linux-amd64", b"one", &[("a/b.json", "old"), ("c", "")]);
        assert_eq!(path, dir.path().join("operator-index-cache/index/v1-linux-amd64"));
        save(&workspace, "v1-linux-amd64", b"two", &[("a/b.json", "new")]);
        assert_eq!(fs::read_to_string(path.join("configs/a/b.json")).unwrap(), "new");
        assert!(!path.join("configs/c").exists());
        // What is known to be there is not written again.
        save(&workspace, "v1-linux-amd64", b"two", &[]);
        assert!(path.join("configs/a/b.json").exists());
    }

    #[test]
    fn platforms_with_the_same_files_share_them() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        save(&workspace, "v1-linux-amd64", b"one", &[("a", "text")]);
        for _ in 0..2 {
            let path = workspace.link_index("index", "v1-linux-arm64", "v1-linux-amd64").unwrap();
            assert_eq!(fs::read_to_string(path.join("configs/a")).unwrap(), "text");
        }
        // Then they have different ones.
        let path = save(&workspace, "v1-linux-arm64", b"one", &[("a", "other")]);
        assert_eq!(fs::read_to_string(path.join("configs/a")).unwrap(), "other");
        let first = dir.path().join("operator-index-cache/index/v1-linux-amd64/configs/a");
        assert_eq!(fs::read_to_string(first).unwrap(), "text");
    }

    #[test]
    fn nothing_is_written_outside() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(&dir.path().join("inside"));
        let digest = Digest::of(b"one");
        for file in ["../x", "/x", "a/../../x", ""] {
            let files = [(file, &b""[..])];
            assert!(workspace.save_index("i", "f", &digest, files.into_iter()).is_err(), "{file}");
        }
        for name in ["..", "a/b", ""] {
            let files = [("x", &b""[..])];
            assert!(workspace.save_index(name, "f", &digest, files.into_iter()).is_err());
            assert!(workspace.link_index("i", "f", name).is_err());
        }
    }
}
