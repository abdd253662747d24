//! The images that selected bundles need, and which bundle needs which.

use std::collections::{BTreeMap, BTreeSet};

use oci::{Digest, ImageRef, ReferenceError};

use crate::filter::{BundleName, Filtered};

/// All images of a selection.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RelatedImages {
    /// Each once, in the order of their names.
    pub images: Vec<WantedImage>,
    /// What is listed, and cannot be mirrored.
    pub unusable: Vec<UnusableImage>,
}

/// An image, and what requires it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedImage {
    pub image: ImageRef,
    /// Whether it is a bundle's own image.
    pub is_bundle: bool,
    /// The bundles that need it, each with the names under which it does. A name may be empty.
    pub wanted_by: BTreeMap<BundleName, BTreeSet<String>>,
}

/// A reference that is not an image which can be mirrored. Its bundle cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the bundle {} needs the image {text:?}, which cannot be mirrored: {why}", wanted_by.bundle)]
pub struct UnusableImage {
    pub text: String,
    pub wanted_by: BundleName,
    pub why: NoImage,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoImage {
    #[error(transparent)]
    Reference(ReferenceError),
    #[error("it has neither tag nor digest")]
    Unpinned,
    #[error("it is a folder on the machine that built the catalog")]
    Layout,
}

/// Collects the images of all selected bundles: what each lists, and its own, listed or not.
pub fn related_images(filtered: &Filtered<'_, '_>) -> RelatedImages {
    let mut wanted: BTreeMap<ImageRef, WantedImage> = BTreeMap::new();
    let mut unusable = Vec::new();
    for (package, bundle) in filtered.bundles() {
        let wanted_by =
            || BundleName { package: package.name.to_string(), bundle: bundle.name.to_string() };
        let own = bundle.image.as_deref();
        let listed = bundle.related_images.iter().map(|related| (&*related.name, &*related.image));
        let mut refused = BTreeSet::new();
        for (name, text) in own.map(|image| ("", image)).into_iter().chain(listed) {
            match parse(text) {
                Ok(None) => {}
                Ok(Some(image)) => {
                    let entry = wanted.entry(image.clone()).or_insert_with(|| WantedImage {
                        image,
                        is_bundle: false,
                        wanted_by: BTreeMap::new(),
                    });
                    entry.is_bundle |= own == Some(text);
                    let names = entry.wanted_by.entry(wanted_by()).or_default();
                    if !name.is_empty() {
                        names.insert(name.to_owned());
                    }
                }
                Err(why) if refused.insert(text) => {
                    unusable.push(UnusableImage {
                        text: text.to_owned(),
                        wanted_by: wanted_by(),
                        why,
                    });
                }
                Err(_) => {}
            }
        }
    }
    RelatedImages { images: wanted.into_values().collect(), unusable }
}

/// `None` for an entry without an image, which some catalogs have.
fn parse(text: &str) -> Result<Option<ImageRef>, NoImage> {
    if text.is_empty() {
        return Ok(None);
    }
    if text.starts_with("oci://") {
        return Err(NoImage::Layout);
    }
    let bare = text.strip_prefix("docker://").unwrap_or(text);
    let image: ImageRef = bare.parse().map_err(NoImage::Reference)?;
    if image.pointer().is_none() {
        return Err(NoImage::Unpinned);
    }
    Ok(Some(image))
}

/// The folder for an image of a bundle: its name there, or `sha256-<hex>` when it has none, one that
/// is not a safe file name, or one that another image of the bundle has `taken`.
pub fn folder_name(name: &str, digest: &Digest, taken: &mut BTreeSet<String>) -> String {
    let folder =
        if is_safe(name) && !taken.contains(name) { name.to_owned() } else { digest.as_tag_text() };
    taken.insert(folder.clone());
    folder
}

fn is_safe(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    !name.is_empty()
        && name.len() <= 128
        && name.bytes().all(plain)
        && !name.starts_with(['.', '-'])
        && !name.starts_with("sha256-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_the_images_name_where_that_is_a_safe_one() {
        let digest = Digest::of(b"x");
        let mut taken = BTreeSet::new();
        let mut folder = |name: &str| folder_name(name, &digest, &mut taken);
        assert_eq!(folder("operator"), "operator");
        assert_eq!(folder("kube-rbac-proxy_1.2"), "kube-rbac-proxy_1.2");
        for name in ["operator", "", "..", ".hidden", "a/b", "-x", "ä", &"x".repeat(129)] {
            assert_eq!(folder(name), digest.as_tag_text(), "{name}");
        }
    }
}
