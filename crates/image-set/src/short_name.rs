//! Names of images without a registry. The configuration itself has only completed names.

use located_yaml::{Keys, Node, load};
use oci::ImageRef;

use crate::finding::EntryPosition;

/// A name without a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortName {
    pub at: EntryPosition,
    /// As it is written, without `docker://`.
    pub name: String,
    pub image: ImageRef,
}

/// The names without a registry of a text that is a valid configuration: of additional images,
/// catalogs and the release.
pub fn short_names(text: &str) -> Vec<ShortName> {
    let Some(root) = load(text, Keys::IgnoreCase).root else { return Vec::new() };
    let Some(mirror) = value(&root, "mirror") else { return Vec::new() };
    let items = |list: &str| value(mirror, list).map(Node::items).unwrap_or_default();
    let images = items("additionalImages").iter().filter_map(|image| value(image, "name"));
    let catalogs = items("operators").iter().filter_map(|entry| value(entry, "catalog"));
    let release = value(mirror, "platform").and_then(|platform| value(platform, "release"));
    images.chain(catalogs).chain(release).filter_map(short_name).collect()
}

fn short_name(node: &Node) -> Option<ShortName> {
    let text = node.text()?;
    let name = text.strip_prefix("docker://").unwrap_or(text);
    if name.starts_with("oci:") || !ImageRef::is_short(name) {
        return None;
    }
    Some(ShortName { at: node.at.into(), name: name.to_owned(), image: name.parse().ok()? })
}

/// Keys are read whatever their case.
fn value<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let found = node.entries().iter().find(|entry| entry.key.eq_ignore_ascii_case(key));
    found.map(|entry| &entry.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_registry_are_found_with_their_place() {
        let text = "mirror:\n  platform: {release: 'org/release:1'}\n  operators:\n  - catalog: \
                    index:v1\n  - catalog: oci:///catalog\n  additionalImages:\n  - name: busybox:1\n  \
                    - name: docker://org/app:1\n  - Name: quay.io/a/b:1\n  - name: localhost/x:1\n";
        let found: Vec<(String, String)> = short_names(text)
            .into_iter()
            .map(|short| (format!("{}: {}", short.at, short.name), short.image.to_string()))
            .collect();
        let expected = [
            ("7:11: busybox:1", "docker.io/library/busybox:1"),
            ("8:11: org/app:1", "docker.io/org/app:1"),
            ("4:14: index:v1", "docker.io/library/index:v1"),
            ("2:23: org/release:1", "docker.io/org/release:1"),
        ];
        assert_eq!(found, expected.map(|(at, image)| (at.to_owned(), image.to_owned())));
    }
}
