//! Releases like OpenShift's: a payload that lists its components, the
//! components, and the text that is signed.
//!
//! Images are known by the names that real releases have. A test defines in
//! `registries.conf` that `quay.io` is found elsewhere.

mod key;

use anyhow::{Context, Result};
use oci::{Digest, Platform};
use serde_json::{Value, json};

use crate::images::{Compression, Format, Image, Layer};
use crate::registry::LabRegistry;

pub use key::ReleaseKey;

/// Where payloads are.
pub const PAYLOADS: &str = "quay.io/openshift-release-dev/ocp-release";
/// Where components are.
pub const COMPONENTS: &str = "quay.io/openshift-release-dev/ocp-v4.0-art-dev";

/// What a release is made of.
#[derive(Debug, Clone)]
pub struct Recipe<'a> {
    pub version: &'a str,
    /// `amd64`, `arm64`, `ppc64le`, `s390x`, or `multi` for lists of amd64 and arm64.
    pub architecture: &'a str,
    /// Components whose content differs from release to release.
    pub components: &'a [&'a str],
    /// Components that are the same in all releases.
    pub shared: &'a [&'a str],
    /// Whether it includes a disk image for virtual machines.
    pub kubevirt: bool,
}

impl Default for Recipe<'_> {
    fn default() -> Self {
        Self {
            version: "4.16.3",
            architecture: "amd64",
            components: &["cli", "etcd", "machine-config-operator"],
            shared: &["pod"],
            kubevirt: false,
        }
    }
}

/// A release, ready to be put into a registry.
#[derive(Debug, Clone)]
pub struct Release {
    pub version: String,
    pub architecture: String,
    pub payload: Image,
    /// By name, in order.
    pub components: Vec<(String, Image)>,
    /// The disk images for virtual machines, by the name of their architecture.
    pub kubevirt: Vec<(&'static str, Image)>,
}

impl Release {
    /// Makes a release. The same recipe gives the same bytes.
    pub fn generate(recipe: &Recipe<'_>) -> Result<Self> {
        let Recipe { version, architecture, components, shared, kubevirt } = recipe;
        let own = components.iter().map(|name| (*name, format!("{version} {architecture} {name}")));
        let same = shared.iter().map(|name| (*name, format!("{architecture} {name}")));
        let mut made = Vec::new();
        for (name, seed) in own.chain(same) {
            made.push((name.to_owned(), image(architecture, &seed)?));
        }
        made.sort_by(|a, b| a.0.cmp(&b.0));
        let disks: &[&'static str] = match (kubevirt, *architecture) {
            (false, _) => &[],
            (true, "multi") => &["x86_64", "s390x"],
            (true, "s390x") => &["s390x"],
            (true, _) => &["x86_64"],
        };
        let mut disk_images = Vec::new();
        for disk in disks {
            disk_images.push((*disk, Image::tiny(&format!("{version} kubevirt {disk}"))?));
        }
        let mut release = Self {
            version: (*version).to_owned(),
            architecture: (*architecture).to_owned(),
            payload: Image::tiny("to be replaced")?,
            components: made,
            kubevirt: disk_images,
        };
        let references = release.image_references();
        release.payload = release.payload_with(&[
            ("release-manifests/image-references", references.as_bytes()),
            ("release-manifests/release-metadata", release.metadata().as_bytes()),
            (
                "release-manifests/0000_50_installer_coreos-bootimages.yaml",
                release.boot_images().as_bytes(),
            ),
            ("release-manifests/0000_10_etcd.yaml", b"kind: ConfigMap\n"),
        ])?;
        Ok(release)
    }

    /// The same release with other files in its payload, for what no honest
    /// release has.
    pub fn with_payload_files(&self, files: &[(&str, &[u8])]) -> Result<Self> {
        Ok(Self { payload: self.payload_with(files)?, ..self.clone() })
    }

    fn payload_with(&self, files: &[(&str, &[u8])]) -> Result<Image> {
        let base = Layer::generate("release base", 30_000, Compression::Gzip)?;
        let manifests = Layer::from_files(files)?;
        let one = |architecture: &str| {
            let platform = Platform::new("linux", architecture);
            Image::new(Format::Docker, platform, &[base.clone(), manifests.clone()])
        };
        match self.architecture.as_str() {
            "multi" => Image::list(Format::Docker, [one("amd64")?, one("arm64")?]),
            architecture => one(architecture),
        }
    }

    /// `4.16.3-x86_64`: the tag of the payload.
    pub fn tag(&self) -> String {
        let architecture = match self.architecture.as_str() {
            "amd64" => "x86_64",
            "arm64" => "aarch64",
            other => other,
        };
        format!("{}-{architecture}", self.version)
    }

    /// The payload by tag, as its signature names it.
    pub fn reference(&self) -> String {
        format!("{PAYLOADS}:{}", self.tag())
    }

    /// The payload by digest, as update graphs name it.
    pub fn pullspec(&self) -> String {
        format!("{PAYLOADS}@{}", self.payload.digest())
    }

    /// The component of this name.
    pub fn component(&self, name: &str) -> Result<&Image> {
        let found = self.components.iter().find(|(component, _)| component == name);
        Ok(&found.with_context(|| format!("{} has no component {name}", self.version))?.1)
    }

    /// `release-manifests/image-references`.
    pub fn image_references(&self) -> String {
        let tags = self.components.iter().map(|(name, image)| {
            json!({
                "name": name,
                "annotations": {"io.openshift.build.commit.id": "0123456789abcdef"},
                "from": {"kind": "DockerImage", "name": format!("{COMPONENTS}@{}", image.digest())},
                "generation": 2,
                "importPolicy": {},
                "referencePolicy": {"type": "Source"},
            })
        });
        let stream = json!({
            "kind": "ImageStream",
            "apiVersion": "image.openshift.io/v1",
            "metadata": {"name": self.version, "creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"lookupPolicy": {"local": false}, "tags": tags.collect::<Vec<_>>()},
            "status": {"dockerImageRepository": ""},
        });
        format!("{stream:#}")
    }

    fn metadata(&self) -> String {
        let mut metadata = json!({
            "kind": "cincinnati-metadata-v0",
            "version": self.version,
            "previous": [],
            "metadata": {"url": format!("https://example.com/{}", self.version)},
        });
        if self.architecture == "multi" {
            metadata["metadata"]["release.openshift.io/architecture"] = json!("multi");
        }
        format!("{metadata:#}")
    }

    /// The ConfigMap that names the disk images, as the installer contains it.
    fn boot_images(&self) -> String {
        let mut architectures = json!({"x86_64": {"images": {}}, "aarch64": {"images": {}}});
        for (architecture, image) in &self.kubevirt {
            architectures[*architecture]["images"]["kubevirt"] = json!({
                "release": "416.94",
                "image": format!("{COMPONENTS}:4.16-kubevirt"),
                "digest-ref": format!("{COMPONENTS}@{}", image.digest()),
            });
        }
        let stream = json!({"stream": "rhcos-4.16", "architectures": architectures});
        let stream = format!("{stream:#}").replace('\n', "\n    ");
        format!(
            "apiVersion: v1\ndata:\n  releaseVersion: {}\n  stream: |\n    {stream}\nkind: ConfigMap\n\
             metadata:\n  name: coreos-bootimages\n  namespace: openshift-machine-config-operator\n",
            self.version
        )
    }

    /// The content of a signature of the release.
    pub fn claim(&self) -> Vec<u8> {
        claim(&self.payload.digest(), &self.reference()).to_string().into_bytes()
    }

    /// Stores payload, components and disk images in a registry that represents `quay.io`.
    pub fn put(&self, registry: &LabRegistry) -> Result<()> {
        let below = |name: &str| name.trim_start_matches("quay.io/").to_owned();
        registry.put_image(&self.payload, &below(PAYLOADS), &self.tag())?;
        for (name, image) in &self.components {
            registry.put_image(image, &below(COMPONENTS), &format!("{}-{name}", self.tag()))?;
        }
        for (architecture, image) in &self.kubevirt {
            let tag = format!("{}-kubevirt-{architecture}", self.tag());
            registry.put_image(image, &below(COMPONENTS), &tag)?;
        }
        Ok(())
    }
}

/// The text of a signature with this name and digest.
pub fn claim(digest: &Digest, reference: &str) -> Value {
    json!({
        "critical": {
            "image": {"docker-manifest-digest": digest.to_string()},
            "type": "atomic container signature",
            "identity": {"docker-reference": reference},
        },
        "optional": {"creator": "Lab release signer"},
    })
}

fn image(architecture: &str, seed: &str) -> Result<Image> {
    let base = Layer::generate("component base", 20_000, Compression::Gzip)?;
    let one = |architecture: &str| {
        let own = Layer::generate(&format!("{seed} {architecture}"), 2_000, Compression::Gzip)?;
        let platform = Platform::new("linux", architecture);
        Image::new(Format::Docker, platform, &[base.clone(), own])
    };
    match architecture {
        "multi" => Image::list(Format::Docker, [one("amd64")?, one("arm64")?]),
        architecture => one(architecture),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_same_recipe_gives_the_same_release_and_another_version_another() {
        let digest = |version| {
            let recipe = Recipe { version, ..Recipe::default() };
            let release = Release::generate(&recipe).unwrap();
            (release.payload.digest(), release.component("pod").unwrap().digest())
        };
        assert_eq!(digest("4.16.3"), digest("4.16.3"));
        assert_ne!(digest("4.16.3").0, digest("4.16.4").0);
        assert_eq!(digest("4.16.3").1, digest("4.16.4").1, "a shared component is the same");
    }

    #[test]
    fn gnupg_takes_a_signature_with_its_key_and_not_with_another() {
        let (key, other) = (ReleaseKey::generate().unwrap(), ReleaseKey::generate().unwrap());
        let release = Release::generate(&Recipe::default()).unwrap();
        let signature = key.sign(&release.claim()).unwrap();
        let judged = |public: &str| {
            let home = tempfile::tempdir().unwrap();
            let (ring, message) = (home.path().join("ring.asc"), home.path().join("signature"));
            std::fs::write(&ring, public).unwrap();
            std::fs::write(&message, &signature).unwrap();
            let gpg = |args: &[&str]| {
                let mut command = Command::new("gpg");
                command.args(["--batch", "--quiet", "--homedir"]).arg(home.path()).args(args);
                command.output().unwrap()
            };
            assert!(gpg(&["--import", ring.to_str().unwrap()]).status.success());
            let output = gpg(&["--decrypt", message.to_str().unwrap()]);
            (output.status.success(), output.stdout)
        };
        assert_eq!(judged(key.public()), (true, release.claim()));
        assert!(!judged(other.public()).0);
    }
}
