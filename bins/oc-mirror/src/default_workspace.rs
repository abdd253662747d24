//! The workspace of commands that do not name one: below the directory for state of the user, one
//! for each place that is mirrored to or from. It is kept, because the next run continues from it.

use std::path::{Path, PathBuf};

use crate::arguments::MirrorArguments;

/// Below the directory for state of the user.
const WORKSPACES: &str = "oc-mirror/workspaces";

impl MirrorArguments {
    /// Names a workspace if none was named, and the command can do without: with an object store,
    /// and with Jobs that mirror to a registry. Returns its directory.
    pub(crate) fn choose_workspace(
        &mut self,
        state: Option<&Path>,
        is_job: bool,
    ) -> Option<PathBuf> {
        if self.workspace.as_ref().is_some_and(|workspace| !workspace.is_empty()) {
            return None;
        }
        let [destination] = &self.destinations[..] else { return None };
        let name = directory_name(destination, self.from.as_deref(), is_job)?;
        let directory = state?.join(WORKSPACES).join(name);
        self.workspace = Some(format!("file://{}", directory.display()));
        Some(directory)
    }
}

/// `from-s3/BUCKET/PREFIX`, `s3/BUCKET/PREFIX` or `docker/REGISTRY/NAMESPACE`
fn directory_name(destination: &str, from: Option<&str>, is_job: bool) -> Option<PathBuf> {
    let from = from.filter(|from| !from.is_empty());
    let (kind, place) = match (from, destination) {
        (Some(from), _) => ("from-s3", from.strip_prefix("s3://")?),
        (None, to) if to.starts_with("s3://") => ("s3", to.strip_prefix("s3://")?),
        (None, to) if is_job => ("docker", to.strip_prefix("docker://")?),
        (None, _) => return None,
    };
    let parts = place.split('/').filter(|part| !part.is_empty());
    // What is not a valid location is reported when it is used.
    let parts = parts.map(|part| (!part.starts_with('.')).then_some(part));
    let parts: PathBuf = parts.collect::<Option<PathBuf>>()?;
    (!parts.as_os_str().is_empty()).then(|| Path::new(kind).join(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_workspace_of_its_own() {
        let name = |to: &str, from: Option<&str>, is_job| {
            directory_name(to, from, is_job).map(|path| path.display().to_string())
        };
        let known = |text: &str| Some(text.to_owned());
        assert_eq!(name("s3://b/x/", None, false), known("s3/b/x"));
        assert_eq!(name("docker://r:5000/o", Some("s3://b/x"), false), known("from-s3/b/x"));
        assert_eq!(name("docker://r:5000/o", None, true), known("docker/r:5000/o"));
        // These need a workspace that the user names, as in oc-mirror v2.
        assert_eq!(name("docker://r:5000/o", None, false), None);
        assert_eq!(name("docker://r", Some("file:///d"), true), None);
        assert_eq!(name("file:///d", None, true), None);
        for odd in ["s3://", "s3://b/../x", "s3://../x"] {
            assert_eq!(name(odd, None, false), None, "{odd}");
        }
    }
}
