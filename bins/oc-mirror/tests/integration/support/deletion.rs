//! What deletions leave at a registry, verified with skopeo.

use std::collections::BTreeMap;

use oci::Digest;
use serde_json::Value;

use super::{Ran, Site};

pub(crate) const PLAIN_TARGET: &str = "--dest-tls-verify=false";

/// The tags of a repository with their digests; none where it does not exist.
pub(crate) fn tags(site: &Site, at: &str, repository: &str) -> BTreeMap<String, Digest> {
    let name = format!("docker://{at}/{repository}");
    let listed = site.try_judge("skopeo", &["list-tags", "--tls-verify=false", &name]);
    if !listed.status.success() {
        return BTreeMap::new();
    }
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let tags = listed["Tags"].as_array().cloned().unwrap_or_default();
    tags.iter()
        .map(|tag| tag.as_str().unwrap())
        .map(|tag| {
            let raw = site.raw(&format!("{name}:{tag}"), &["--tls-verify=false"]);
            (tag.to_owned(), Digest::of(&raw))
        })
        .collect()
}

/// Pulls every tag of a repository completely.
pub(crate) fn pull_all(site: &Site, at: &str, repository: &str) {
    for tag in tags(site, at, repository).keys() {
        site.pull(&format!("docker://{at}/{repository}:{tag}"), &["--src-tls-verify=false"]);
    }
}

/// Runs a command and expects its exit code.
pub(crate) fn ends(site: &Site, line: &str, code: i32) -> Ran {
    let ran = Ran::of(site.command(line).output().unwrap());
    assert_eq!(ran.code, code, "{line}\n{}\n{}", ran.err, ran.out);
    ran
}

/// A configuration of what to delete; `delete` is the text below `delete:`, indented by two spaces.
pub(crate) fn delete_set(delete: &str) -> String {
    format!(
        "kind: DeleteImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\ndelete:\n{delete}"
    )
}

/// The outcomes of a deletion's report, by image without registry.
pub(crate) fn outcomes(ran: &Ran, at: &str) -> BTreeMap<String, String> {
    let report = ran.report();
    let images = report["images"].as_array().unwrap().iter();
    images
        .map(|image| {
            let name = image["image"].as_str().unwrap().replace(&format!("{at}/"), "");
            (name, image["outcome"].as_str().unwrap().to_owned())
        })
        .collect()
}
