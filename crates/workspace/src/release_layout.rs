//! Images under the names that a release gives them, as OCI layouts.
//!
//! ```text
//! DIR/releases-cache/4.16.3-x86_64/release-manifests/image-references
//! DIR/release-images/4.16.3-x86_64/etcd/
//! DIR/working-dir/release-images/ocp-release/4.16.3-x86_64/
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use mirror_plan::ImageRecord;

use crate::Workspace;
use crate::atomic_file::{self, Durability};
use crate::disk_error::DiskError;
use crate::layout;

impl Workspace {
    /// Lays a component of a release out as an image of its own. All its
    /// content is shared with `blobs`.
    pub fn lay_out_component(
        &self,
        release: &str,
        component: &str,
        record: &ImageRecord,
    ) -> Result<PathBuf, DiskError> {
        self.lay_out(&["release-images", release, component], record)
    }

    /// Lays out the payload of a release where users of oc-mirror find it.
    pub fn lay_out_payload(
        &self,
        repository: &str,
        tag: &str,
        record: &ImageRecord,
    ) -> Result<PathBuf, DiskError> {
        self.lay_out(&["working-dir", "release-images", repository, tag], record)
    }

    /// Lays out the image of the update graph where users of oc-mirror find it.
    pub fn lay_out_graph(&self, record: &ImageRecord) -> Result<PathBuf, DiskError> {
        self.lay_out(&["working-dir", "graph-preparation"], record)
    }

    /// Keeps a manifest of a release: `releases-cache/<release>/release-manifests/<name>`.
    pub fn save_release_manifest(
        &self,
        release: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<PathBuf, DiskError> {
        let place = self.place(&["releases-cache", release, "release-manifests", name])?;
        let path = self.root().join(place);
        if fs::read(&path).ok().as_deref() != Some(bytes) {
            atomic_file::write(&path, bytes, Durability::Later)?;
        }
        Ok(path)
    }

    pub(crate) fn lay_out(
        &self,
        parts: &[&str],
        record: &ImageRecord,
    ) -> Result<PathBuf, DiskError> {
        let place = self.place(parts)?;
        let path = self.root().join(&place);
        // A release has hundreds of images, and most runs add nothing new.
        let digest = record.tree.root().digest.to_string();
        let same = |text: String| text.contains(&digest);
        if !fs::read_to_string(path.join("index.json")).is_ok_and(same) {
            layout::write(self.root(), &place, record, &|to, at| symlink(to, at))?;
        }
        Ok(path)
    }

    /// A place below the workspace. Names of releases and operators come from
    /// elsewhere, so none may be more than a name.
    pub(crate) fn place(&self, parts: &[&str]) -> Result<PathBuf, DiskError> {
        let is_name =
            |part: &&str| !matches!(*part, "" | "." | "..") && !part.contains(['/', '\\', '\0']);
        if let Some(bad) = parts.iter().find(|part| !is_name(part)) {
            let why = io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{bad:?} is not a valid directory name"),
            );
            return Err(DiskError::new("writing in", self.root(), why));
        }
        Ok(parts.iter().collect::<PathBuf>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_component_is_a_layout_that_skopeo_reads() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let record = sample::image(workspace.blobs(), "q.io/a:1", b"layer");
        let layout = workspace.lay_out_component("4.16.3-x86_64", "etcd", &record).unwrap();
        assert_eq!(layout, dir.path().join("release-images/4.16.3-x86_64/etcd"));
        let output = std::process::Command::new("skopeo")
            .args(["inspect", &format!("oci:{}", layout.display())])
            .output()
            .expect("skopeo is installed");
        let seen: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(seen["Digest"], record.tree.root().digest.to_string());
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let record = sample::image(workspace.blobs(), "q.io/a:1", b"layer");
        for name in ["", "..", "a/b", "../../x", "/etc"] {
            assert!(workspace.lay_out_component(name, "etcd", &record).is_err(), "{name:?}");
            assert!(workspace.lay_out_component("4.1.0", name, &record).is_err(), "{name:?}");
            assert!(workspace.save_release_manifest(name, "x", b"").is_err(), "{name:?}");
        }
        assert!(!dir.path().join("release-images").exists());
    }
}
