//! What one entry redirects, and to where.

use oci::ImageRef;

use super::Scope;

/// The source and the mirror of the entry that `image`, kept at `mirror`, needs.
pub(super) fn redirect(image: &ImageRef, mirror: &ImageRef, scope: Scope) -> (String, String) {
    if scope == Scope::Namespace && keeps_path(image, mirror) {
        (namespace(image), namespace(mirror))
    } else {
        (image.name(), mirror.name())
    }
}

/// Whether the mirror's path ends with that of the image, component by
/// component: `x-org/app` does not end with `org/app`.
fn keeps_path(image: &ImageRef, mirror: &ImageRef) -> bool {
    let mut kept = mirror.repository.components().rev();
    image.repository.components().rev().all(|component| kept.next() == Some(component))
}

/// Registry and path without the last component; the registry alone where
/// there is only one.
fn namespace(image: &ImageRef) -> String {
    match image.repository.as_str().rsplit_once('/') {
        Some((namespace, _)) => format!("{}/{namespace}", image.registry),
        None => image.registry.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_as_wide_as_the_kept_path_allows() {
        for (image, mirror, source, target) in [
            ("quay.io/org/app:1", "r.io/ns/org/app:1", "quay.io/org", "r.io/ns/org"),
            ("quay.io/org/app:1", "r.io/org/app:1", "quay.io/org", "r.io/org"),
            ("quay.io/app:1", "r.io/app:1", "quay.io", "r.io"),
            ("quay.io/app:1", "r.io/ns/app:1", "quay.io", "r.io/ns"),
            ("busybox:1", "r.io/ns/library/busybox:1", "docker.io/library", "r.io/ns/library"),
            ("quay.io/a/b/c:1", "r.io/a/b/c:1", "quay.io/a/b", "r.io/a/b"),
            ("quay.io/org/app:1", "r.io/other/app:1", "quay.io/org/app", "r.io/other/app"),
            ("quay.io/org/app:1", "r.io/x-org/app:1", "quay.io/org/app", "r.io/x-org/app"),
            ("quay.io/org/app:1", "r.io/app:1", "quay.io/org/app", "r.io/app"),
        ] {
            let (image, mirror) = (image.parse().unwrap(), mirror.parse().unwrap());
            let entry = redirect(&image, &mirror, Scope::Namespace);
            assert_eq!(entry, (source.into(), target.into()), "{image}");
            let entry = redirect(&image, &mirror, Scope::Repository);
            assert_eq!(entry, (image.name(), mirror.name()), "{image}");
        }
    }
}
