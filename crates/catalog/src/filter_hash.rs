//! The name that a selection has: the tag of a rebuilt catalog, and the folder it is kept in.

use image_set::{Operator, Package, PackageChannel};
use md5::{Digest as _, Md5};
use oci::{Digest, Platform};
use serde::Serialize;

/// The fields in the order that other programs hash them. What came later is written only where it
/// is used, so that the names of all other selections stay what they are.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Hashed<'a> {
    packages: Option<Vec<HashedPackage<'a>>>,
    catalog: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    full: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    skip_dependencies: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    platforms: &'a [Platform],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_dependencies: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HashedPackage<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    channels: Vec<HashedChannel<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_channel: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_versions: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HashedChannel<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_versions: Option<u32>,
}

/// The hash of what `operator` selects from the catalog with this `name` (registry and
/// repository, or a name in its place) and `digest`: 32 hex digits. The target does not count.
pub fn filter_hash(operator: &Operator, name: &str, digest: &Digest) -> String {
    let packages: Vec<HashedPackage<'_>> = operator.packages.iter().map(package).collect();
    let hashed = Hashed {
        packages: (!packages.is_empty()).then_some(packages),
        catalog: format!("{name}@{digest}"),
        full: operator.full,
        skip_dependencies: operator.skip_dependencies,
        platforms: &operator.platforms,
        include_dependencies: operator.include_dependencies,
    };
    let json = serde_json::to_string(&hashed).unwrap_or_default();
    Md5::digest(as_go_writes_it(&json)).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Go escapes what could be taken for HTML.
fn as_go_writes_it(json: &str) -> String {
    json.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn package(package: &Package) -> HashedPackage<'_> {
    HashedPackage {
        name: &package.name,
        channels: package.channels.iter().map(channel).collect(),
        default_channel: package.default_channel.as_deref(),
        min_version: package.min_version.as_ref().map(|version| version.as_str()),
        max_version: package.max_version.as_ref().map(|version| version.as_str()),
        previous_versions: package.previous_versions,
    }
}

fn channel(channel: &PackageChannel) -> HashedChannel<'_> {
    HashedChannel {
        name: &channel.name,
        min_version: channel.min_version.as_ref().map(|version| version.as_str()),
        max_version: channel.max_version.as_ref().map(|version| version.as_str()),
        previous_versions: channel.previous_versions,
    }
}

#[cfg(test)]
mod tests {
    use image_set::parse_image_set;

    use super::*;

    const DIGEST: &str = "sha256:f30638f60452062aba36a26ee6c036feead2f03b28f2c47f2b0a991e41baebea";

    fn hash(operator: &str, name: &str) -> String {
        let text = format!("kind: ImageSetConfiguration\nmirror:\n  operators:\n  - {operator}\n");
        let set = parse_image_set("x", &text).unwrap();
        filter_hash(&set.mirror.operators[0], name, &DIGEST.parse().unwrap())
    }

    /// The hashes are those that the tests of oc-mirror expect.
    #[test]
    fn a_selection_has_the_hash_that_oc_mirror_gives_it() {
        let index = "registry.redhat.io/redhat/redhat-operator-index";
        assert_eq!(
            hash(
                "{catalog: 'quay.io/community-operators:v4.7', targetTag: x}",
                "community-operators"
            ),
            "ac8e314872a499f2c6edb0616489c628"
        );
        assert_eq!(
            hash(&format!("{{catalog: '{index}:v4.14', packages: [{{name: op1}}]}}"), index),
            "b6db5253b0a8b995840d4d6b5a8aefca"
        );
    }

    /// Computed with `md5sum` of the JSON that is written beside each.
    #[test]
    fn every_part_of_a_selection_counts() {
        for (operator, json_hash) in [
            // {"packages":[{"name":"p","channels":[{"name":"c","minVersion":"1.0.0"}],"defaultChannel":"c"}],
            // "catalog":"n@sha256:f306…","full":true,"skipDependencies":true,
            // "platforms":[{"os":"linux","architecture":"arm64"}]}
            (
                "{catalog: 'q.io/n:1', full: true, skipDependencies: true, platforms: [{os: linux, \
                 architecture: arm64}], packages: [{name: p, defaultChannel: c, channels: [{name: c, \
                 minVersion: 1.0.0}]}]}",
                "73b0930d761701c356d4f2fc65748ccb",
            ),
            // {"packages":[{"name":"p","previousVersions":2}],"catalog":"n@sha256:f306…","includeDependencies":true}
            (
                "{catalog: 'q.io/n:1', includeDependencies: true, packages: [{name: p, \
                 previousVersions: 2}]}",
                "49a472eece14e9ba46d1dc6c7bfc1f5e",
            ),
            // {"packages":[{"name":"a\u0026b"}],"catalog":"n@sha256:f306…"}
            (
                "{catalog: 'q.io/n:1', packages: [{name: 'a&b'}]}",
                "ea1fa1b7e4e8255b07fc8def2fc39963",
            ),
        ] {
            assert_eq!(hash(operator, "n"), json_hash, "{operator}");
        }
    }
}
