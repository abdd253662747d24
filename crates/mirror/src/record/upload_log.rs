//! Uploads that a run began, in files of the workspace: a later run continues them, also after a
//! kill.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use oci::Digest;
use registry::{Location, Url};
use serde::{Deserialize, Serialize};
use workspace::Workspace;

/// Registries remove uploads that are not continued; after a week, at the latest.
const OLDEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// More than any address has.
const MAX_FILE: u64 = 64 << 10;

/// The uploads of a workspace, one file each. Failing to write one loses no more than the chance to
/// continue that upload.
#[derive(Debug)]
pub(crate) struct UploadFiles {
    directory: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    to: String,
    digest: Digest,
    url: String,
}

impl UploadFiles {
    /// Opens the uploads of a workspace, without those that expired at their registries.
    pub(crate) fn open(workspace: &Workspace) -> Self {
        let files = Self { directory: workspace.working_dir().join("uploads") };
        let entries = fs::read_dir(&files.directory).into_iter().flatten().flatten();
        for entry in entries {
            let age = entry.metadata().and_then(|meta| meta.modified()).map(|time| time.elapsed());
            if matches!(age, Ok(Ok(age)) if age > OLDEST) {
                let _ = fs::remove_file(entry.path());
            }
        }
        files
    }

    fn path(&self, to: &Location, digest: &Digest) -> PathBuf {
        let name = Digest::of(format!("{to} {digest}").as_bytes());
        self.directory.join(format!("{}.json", name.hex()))
    }
}

impl registry::UploadLog for UploadFiles {
    fn find(&self, to: &Location, digest: &Digest) -> Option<Url> {
        let path = self.path(to, digest);
        if fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?.len() > MAX_FILE {
            return None;
        }
        let begun: Begun = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        let is_it = begun.to == to.to_string() && begun.digest == *digest;
        is_it.then(|| begun.url.parse().ok()).flatten()
    }

    fn begin(&self, to: &Location, digest: &Digest, url: &Url) {
        let begun = Begun { to: to.to_string(), digest: *digest, url: url.to_string() };
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(&self.directory)?;
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(self.path(to, digest))?;
            file.write_all(&serde_json::to_vec(&begun)?)
        };
        if let Err(error) = write() {
            tracing::debug!(
                "an upload could not be noted in {}: {error}",
                self.directory.display()
            );
        }
    }

    fn end(&self, to: &Location, digest: &Digest) {
        let _ = fs::remove_file(self.path(to, digest));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use registry::UploadLog;

    use super::*;

    #[test]
    fn an_upload_exists_until_it_ends_and_only_for_its_user() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let files = UploadFiles::open(&workspace);
        let at = |text: &str| {
            let image: oci::ImageRef = text.parse().unwrap();
            Location::new(image.registry, image.repository)
        };
        let (to, digest) = (at("r.io:5000/a/b"), Digest::of(b"x"));
        let url: Url = "https://r.io:5000/v2/a/b/blobs/uploads/1?_state=s".parse().unwrap();
        assert_eq!(files.find(&to, &digest), None);
        files.begin(&to, &digest, &url);
        let later = UploadFiles::open(&workspace);
        assert_eq!(later.find(&to, &digest), Some(url));
        assert_eq!(later.find(&at("r.io:5000/a/c"), &digest), None);
        let file = fs::read_dir(&later.directory).unwrap().next().unwrap().unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(file.path(), b"{").unwrap();
        assert_eq!(later.find(&to, &digest), None);
        later.end(&to, &digest);
        assert!(!file.path().exists());
    }
}
