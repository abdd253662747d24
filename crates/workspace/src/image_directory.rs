//! The path of an image's layout below `images/`.

use std::path::{Path, PathBuf};

use mirror_plan::Origin;
use oci::Digest;

/// The tag a reference means that names none.
const DEFAULT_TAG: &str = "latest";
/// How much of a layout's own name stays readable in ours.
const READABLE: usize = 64;

/// The directory of one image, relative to a workspace. Made of parsed names
/// only, so it cannot leave the workspace, and different for every origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageDirectory(PathBuf);

impl ImageDirectory {
    pub fn of(origin: &Origin) -> Self {
        let mut path = PathBuf::from("images");
        match origin {
            Origin::Registry(image) => {
                // No host has an underscore, no path component starts with one:
                // neither ports nor `_tags` can be taken for something else.
                path.push(image.registry.as_str().replace(':', "_"));
                path.push(image.repository.as_str());
                match (&image.digest, &image.tag) {
                    (Some(digest), None) => path.extend(["_digests", &digest.as_tag_text()]),
                    (Some(digest), Some(tag)) => {
                        path.extend(["_digests", &format!("{}.{tag}", digest.as_tag_text())]);
                    }
                    (None, Some(tag)) => path.extend(["_tags", tag.as_str()]),
                    (None, None) => path.extend(["_tags", DEFAULT_TAG]),
                }
            }
            Origin::Layout(layout) => {
                path.push("oci");
                path.push(name_of(layout));
            }
            // No host is called so: it would need a dot or a port.
            Origin::Made(name) => path.extend(["made", name.as_str()]),
        }
        path.shrink_to_fit();
        Self(path)
    }

    /// Relative to the workspace.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

/// A name for a layout anywhere on disk: its own last name as far as that is
/// harmless, and the hash of the whole path.
fn name_of(layout: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let hash = Digest::of(layout.as_os_str().as_bytes()).hex();
    let own = layout.file_name().unwrap_or_default().to_string_lossy();
    let harmless = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let readable: String = own.chars().take(READABLE).map(harmless).collect();
    format!("{readable}-{hash}")
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn place(text: &str) -> String {
        let origin = Origin::Registry(text.parse().unwrap());
        ImageDirectory::of(&origin).as_path().to_str().unwrap().to_owned()
    }

    #[test]
    fn registry_images_are_found_by_their_name() {
        assert_eq!(place("reg:5000/a/b:1.2"), "images/reg_5000/a/b/_tags/1.2");
        assert_eq!(place("busybox"), "images/docker.io/library/busybox/_tags/latest");
        assert_eq!(place("[::1]:5000/a:t"), "images/[__1]_5000/a/_tags/t");
        assert_eq!(
            place(&format!("q.io/a@sha256:{HEX}")),
            format!("images/q.io/a/_digests/sha256-{HEX}")
        );
        assert_eq!(
            place(&format!("q.io/a:v1@sha256:{HEX}")),
            format!("images/q.io/a/_digests/sha256-{HEX}.v1")
        );
    }

    #[test]
    fn what_was_made_here_is_found_by_its_own_name() {
        let origin = Origin::Made("openshift/graph-image".parse().unwrap());
        let place = ImageDirectory::of(&origin);
        assert_eq!(place.as_path(), Path::new("images/made/openshift/graph-image"));
    }

    #[test]
    fn layouts_with_the_same_last_name_have_different_places() {
        let of = |path: &str| ImageDirectory::of(&Origin::Layout(path.into()));
        assert_ne!(of("/a/image"), of("/b/image"));
        assert_ne!(of("/a/im/age"), of("/a/im-age"));
    }

    #[test]
    fn no_layout_path_leads_out_of_the_workspace() {
        for path in ["../../etc/passwd", "/", "", "/x/..", "/x/\u{0}\n", "/x/a b;c"] {
            let place = ImageDirectory::of(&Origin::Layout(path.into()));
            let parts: Vec<_> = place.as_path().components().collect();
            assert!(parts.iter().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
            assert_eq!(parts.len(), 3, "{path:?}");
        }
    }
}
