//! Which manifests of an index a list of platforms selects. Pure.

use oci::{Descriptor, Digest, Manifest, Platform};

/// Annotation by which a builder's attestation names the manifest it is about.
const ABOUT: &str = "vnd.docker.reference.digest";

/// The children to take and those to leave out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selection<'a> {
    pub(crate) taken: Vec<&'a Descriptor>,
    pub(crate) left_out: Vec<Digest>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no instances found for platform {wanted}; the list has {has}")]
pub struct NoInstance {
    pub(crate) wanted: String,
    pub(crate) has: String,
}

/// Selects from what `manifest` lists. An image manifest has nothing to
/// select from, and is taken whatever its platform.
pub(crate) fn select_from<'a>(
    manifest: &'a Manifest,
    platforms: &[Platform],
) -> Result<Selection<'a>, NoInstance> {
    match manifest {
        Manifest::Index { manifests, .. } => select(manifests, platforms),
        Manifest::Image { .. } => Ok(Selection { taken: Vec::new(), left_out: Vec::new() }),
    }
}

/// Selects from `children`. No platforms select everything; a platform that nothing
/// matches is an error, as an empty list would appear to be success.
fn select<'a>(
    children: &'a [Descriptor],
    platforms: &[Platform],
) -> Result<Selection<'a>, NoInstance> {
    if platforms.is_empty() {
        return Ok(Selection { taken: children.iter().collect(), left_out: Vec::new() });
    }
    let matches = |platform: &Platform, child: &Descriptor| {
        child.platform.as_ref().is_some_and(|held| platform.accepts(held))
    };
    if let Some(missed) =
        platforms.iter().find(|platform| !children.iter().any(|c| matches(platform, c)))
    {
        let mut has: Vec<String> =
            children.iter().filter_map(|c| c.platform.as_ref()).map(Platform::to_string).collect();
        has.sort();
        has.dedup();
        return Err(NoInstance { wanted: missed.to_string(), has: has.join(", ") });
    }
    let chosen = |child: &Descriptor| platforms.iter().any(|platform| matches(platform, child));
    let kept: Vec<String> =
        children.iter().filter(|c| chosen(c)).map(|c| c.digest.to_string()).collect();
    // An attestation is listed without a real platform; it is selected with its image.
    let about_kept =
        |child: &Descriptor| child.annotations.get(ABOUT).is_some_and(|about| kept.contains(about));
    let (taken, rest): (Vec<_>, Vec<_>) =
        children.iter().partition(|child| chosen(child) || about_kept(child));
    Ok(Selection { taken, left_out: rest.into_iter().map(|child| child.digest).collect() })
}

#[cfg(test)]
mod tests {
    use oci::MediaType;

    use super::*;

    fn child(name: &str, platform: Option<&str>) -> Descriptor {
        let mut child = Descriptor::new(
            MediaType::new(MediaType::OCI_MANIFEST),
            Digest::of(name.as_bytes()),
            1,
        );
        child.platform = platform.map(|text| text.parse().unwrap());
        child
    }

    #[test]
    fn no_selection_selects_everything() {
        let children = [child("a", Some("linux/amd64")), child("b", None)];
        let selection = select(&children, &[]).unwrap();
        assert_eq!((selection.taken.len(), selection.left_out.len()), (2, 0));
    }

    #[test]
    fn an_image_that_is_not_a_list_is_taken_whatever_its_platform() {
        let about = oci::About::default();
        let image = Manifest::Image { config: child("a", None), layers: Vec::new(), about };
        let selection = select_from(&image, &[Platform::new("linux", "amd64")]).unwrap();
        assert_eq!((selection.taken.len(), selection.left_out.len()), (0, 0));
    }

    #[test]
    fn a_selected_platform_includes_its_attestation() {
        let amd = child("amd", Some("linux/amd64"));
        let mut about_amd = child("about", Some("unknown/unknown"));
        about_amd.annotations.insert(ABOUT.into(), amd.digest.to_string());
        let arm = child("arm", Some("linux/arm64/v8"));
        let children = [amd.clone(), arm.clone(), about_amd.clone()];
        let selection = select(&children, &[Platform::new("linux", "amd64")]).unwrap();
        assert_eq!(selection.taken, [&amd, &about_amd]);
        assert_eq!(selection.left_out, [arm.digest]);
    }

    #[test]
    fn a_platform_that_is_absent_lists_those_that_exist() {
        let children = [child("a", Some("linux/s390x")), child("b", Some("linux/amd64"))];
        let platforms = [Platform::new("linux", "amd64"), Platform::new("linux", "arm64")];
        assert_eq!(
            select(&children, &platforms).unwrap_err().to_string(),
            "no instances found for platform linux/arm64; the list has linux/amd64, linux/s390x"
        );
    }
}
