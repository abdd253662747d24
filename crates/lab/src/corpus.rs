//! Sets of images: one like what real mirrors hold, for the benchmark and the
//! demo, and ones with many small images.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use oci::{Digest, ImageRef, Platform, RegistryHost, Repository, Tag};

use crate::images::{Compression, Format, Image, Layer, SigningKey};
use crate::parallel;
use crate::registry::LabRegistry;

const KB: u64 = 1_000;
const MB: u64 = 1_000 * KB;

/// The processors that OpenShift runs on.
const ARCHITECTURES: [&str; 4] = ["amd64", "arm64", "ppc64le", "s390x"];
/// How many images the benchmark's corpus has besides its two lists.
const PLAIN: usize = 60;
/// How many of them share one repository, as a release's components do.
const IN_RELEASE: usize = 42;
/// Base layers that many images share.
const BASES: usize = 5;
/// Layers between a base and an image's own, shared by a few.
const MIDDLES: usize = 6;

/// A set of images under their names.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// The images, in a fixed order.
    pub entries: Vec<Entry>,
}

/// An image under its name.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its repository.
    pub repository: Repository,
    /// Its tag.
    pub tag: Tag,
    /// The image.
    pub image: Image,
}

impl Entry {
    fn new(repository: &str, tag: &str, image: Image) -> Result<Self> {
        let named = || format!("naming {repository}:{tag}");
        Ok(Self {
            repository: repository.parse().with_context(named)?,
            tag: tag.parse().with_context(named)?,
            image,
        })
    }
}

impl Corpus {
    /// The benchmark's corpus: 60 images on five base layers, 42 of them in
    /// one repository, and two lists of four architectures. 2 GB in unique
    /// blobs, almost five times that as the images count it. Generating it
    /// hashes all of it once.
    pub fn benchmark() -> Result<Self> {
        Self::shaped(1)
    }

    /// The same shape, with each layer smaller by `shrink`.
    pub fn shaped(shrink: u64) -> Result<Self> {
        let layers = Layers::generate(&recipes(), shrink.max(1))?;
        let mut entries = Vec::with_capacity(PLAIN + 2);
        for n in 0..PLAIN {
            let (repository, tag) = match n {
                ..IN_RELEASE => ("openshift/release".to_owned(), format!("component-{n:02}")),
                _ => (format!("operators/operator-{n:02}"), "v1.0".to_owned()),
            };
            let format = if n % 3 == 0 { Format::Docker } else { Format::Oci };
            let stack = [
                layers.get(&format!("base-{}", n % BASES))?,
                layers.get(&format!("middle-{}", n % MIDDLES))?,
                layers.get(&format!("own-{n}"))?,
                layers.get(&format!("small-{}", n % SMALLS))?,
            ];
            let image = Image::new(format, Platform::new("linux", "amd64"), &stack)?;
            entries.push(Entry::new(&repository, &tag, image)?);
        }
        for (list, format) in [("one", Format::Docker), ("two", Format::Oci)] {
            let images = ARCHITECTURES.iter().map(|architecture| {
                let names = list_layers(list, architecture);
                let stack =
                    names.iter().map(|name| layers.get(name)).collect::<Result<Vec<_>>>()?;
                Image::new(format, Platform::new("linux", architecture), &stack)
            });
            let image = Image::list(format, images.collect::<Result<Vec<_>>>()?)?;
            entries.push(Entry::new(&format!("multi/{list}"), "v1.0", image)?);
        }
        Ok(Self { entries })
    }

    /// One of each kind, all small: both formats, every packing of layers, a
    /// list of four architectures, an image that `key` signed and attested with
    /// a list of contents, and one with an OCI referrer.
    pub fn sample(key: &SigningKey) -> Result<Self> {
        let amd64 = || Platform::new("linux", "amd64");
        let layer = |name: &str, compression| Layer::generate(name, 40 * KB, compression);
        let base = layer("sample base", Compression::Gzip)?;
        let on_base = |name: &str, compression| -> Result<[Layer; 2]> {
            Ok([base.clone(), layer(name, compression)?])
        };
        let docker = on_base("docker", Compression::Gzip)?;
        let mixed = [
            layer("mixed plain", Compression::None)?,
            layer("mixed gzip", Compression::Gzip)?,
            layer("mixed zstd", Compression::Zstd)?,
        ];
        let list = ARCHITECTURES.iter().map(|architecture| {
            let stack = on_base(architecture, Compression::Gzip)?;
            Image::new(Format::Oci, Platform::new("linux", architecture), &stack)
        });
        let signed = Image::new(Format::Oci, amd64(), &on_base("signed", Compression::Gzip)?)?
            .signed(key, "registry.example.com/sample/signed")?
            .attested(key)?
            .with_sbom()?;
        let referred = Image::new(Format::Oci, amd64(), &on_base("referred", Compression::Zstd)?)?
            .with_referrer("application/vnd.example.report", b"all well")?;
        Ok(Self {
            entries: vec![
                Entry::new("sample/docker", "v1", Image::new(Format::Docker, amd64(), &docker)?)?,
                Entry::new("sample/mixed", "v1", Image::new(Format::Oci, amd64(), &mixed)?)?,
                Entry::new(
                    "sample/list",
                    "v1",
                    Image::list(Format::Oci, list.collect::<Result<Vec<_>>>()?)?,
                )?,
                Entry::new("sample/signed", "v1", signed)?,
                Entry::new("sample/referred", "v1", referred)?,
            ],
        })
    }

    /// So many images of a few kilobytes on one base layer, ten to a repository.
    pub fn tiny(count: usize) -> Result<Self> {
        let base = Layer::generate("tiny base", 20 * KB, Compression::Gzip)?;
        let numbers: Vec<_> = (0..count).collect();
        let entries = parallel::each(&numbers, |n| {
            let own = Layer::generate(&format!("tiny {n}"), KB, Compression::Gzip)?;
            let amd64 = Platform::new("linux", "amd64");
            let image = Image::new(Format::Oci, amd64, &[base.clone(), own])?;
            Entry::new(&format!("tiny/group-{:04}", n / 10), &format!("v{}", n % 10), image)
        })?;
        Ok(Self { entries })
    }

    /// Replaces the content of one image under its old name. `round` names
    /// the new content: the same round changes nothing twice.
    pub fn change_one(&mut self, round: u32) -> Result<()> {
        let entry = self.entries.first_mut().context("an empty corpus has nothing to change")?;
        let layer = Layer::generate(&format!("changed {round}"), 5 * MB, Compression::Gzip)?;
        entry.image = Image::new(Format::Docker, Platform::new("linux", "amd64"), &[layer])?;
        Ok(())
    }

    /// The references of all images, once they are in a registry called `host`.
    pub fn references<'a>(&'a self, host: &'a RegistryHost) -> impl Iterator<Item = ImageRef> + 'a {
        self.entries.iter().map(move |entry| ImageRef {
            registry: host.clone(),
            repository: entry.repository.clone(),
            tag: Some(entry.tag.clone()),
            digest: None,
        })
    }

    /// An image set configuration that mirrors all of it from `host`.
    pub fn image_set(&self, host: &RegistryHost) -> String {
        let mut text = "kind: ImageSetConfiguration\n\
            apiVersion: mirror.openshift.io/v2alpha1\n\
            mirror:\n  additionalImages:\n"
            .to_owned();
        for reference in self.references(host) {
            text += &format!("  - name: {reference}\n");
        }
        text
    }

    /// Stores all of it in a registry of this process.
    pub fn fill(&self, registry: &LabRegistry) -> Result<()> {
        parallel::each(&self.entries, |entry| {
            registry.put_image(&entry.image, entry.repository.as_str(), entry.tag.as_str())
        })?;
        Ok(())
    }

    /// Bytes of all blobs, each counted once.
    pub fn unique_bytes(&self) -> u64 {
        self.blobs().values().sum()
    }

    /// Bytes of all blobs, counted once for every image that has them.
    pub fn referenced_bytes(&self) -> u64 {
        let blobs = self.entries.iter().flat_map(|entry| entry.image.blobs.values());
        blobs.map(|blob| blob.size).sum()
    }

    /// Every blob with its size.
    pub fn blobs(&self) -> BTreeMap<Digest, u64> {
        let blobs = self.entries.iter().flat_map(|entry| entry.image.blobs.values());
        blobs.map(|blob| (blob.digest, blob.size)).collect()
    }

    /// Every manifest's digest.
    pub fn manifests(&self) -> BTreeSet<Digest> {
        let manifests = self.entries.iter().flat_map(|entry| &entry.image.manifests);
        manifests.map(|manifest| manifest.digest).collect()
    }
}

/// Small layers, as an image's last steps leave them.
const SMALLS: usize = 47;

/// Names and sizes of all layers of the benchmark's corpus.
fn recipes() -> Vec<(String, u64)> {
    let mut recipes = Vec::new();
    // Sizes step through a range with a stride that meets every part of it.
    let between = |low: u64, high: u64, n: usize| low + (n as u64 * 37 % 100) * (high - low) / 100;
    for n in 0..BASES {
        recipes.push((format!("base-{n}"), between(105 * MB, 155 * MB, n)));
    }
    for n in 0..MIDDLES {
        recipes.push((format!("middle-{n}"), between(10 * MB, 20 * MB, n)));
    }
    for n in 0..PLAIN {
        // A few are under a megabyte; most are not.
        let size = match n % 9 {
            8 => between(60 * KB, 900 * KB, n),
            _ => between(3 * MB, 35 * MB, n),
        };
        recipes.push((format!("own-{n}"), size));
    }
    for n in 0..SMALLS {
        recipes.push((format!("small-{n}"), between(KB, 45 * KB, n)));
    }
    for list in ["one", "two"] {
        for (n, architecture) in ARCHITECTURES.iter().enumerate() {
            let sizes = [between(30 * MB, 40 * MB, n), 10 * MB, 2 * MB, 30 * KB, 3 * KB];
            recipes.extend(list_layers(list, architecture).into_iter().zip(sizes));
        }
    }
    recipes
}

fn list_layers(list: &str, architecture: &str) -> [String; 5] {
    [0, 1, 2, 3, 4].map(|n| format!("{list}-{architecture}-{n}"))
}

/// Layers by name.
struct Layers(BTreeMap<String, Layer>);

impl Layers {
    fn generate(recipes: &[(String, u64)], shrink: u64) -> Result<Self> {
        let layers = parallel::each(recipes, |(name, size)| {
            let layer = Layer::generate(name, size / shrink, Compression::Gzip)?;
            Ok((name.clone(), layer))
        })?;
        Ok(Self(layers.into_iter().collect()))
    }

    fn get(&self, name: &str) -> Result<Layer> {
        self.0.get(name).cloned().with_context(|| format!("there is no layer {name:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_benchmark_has_the_documented_shape_and_two_gigabytes() {
        let total: u64 = recipes().iter().map(|(_, size)| size).sum();
        assert!((2_000 * MB..2_200 * MB).contains(&total), "{total}");

        let corpus = Corpus::shaped(1_000).unwrap();
        assert_eq!(corpus.entries.len(), 62);
        assert_eq!(corpus.manifests().len(), 60 + 2 * 5);
        let in_release =
            corpus.entries.iter().filter(|e| e.repository.as_str() == "openshift/release");
        assert_eq!(in_release.count(), 42);
        let share = corpus.referenced_bytes() / corpus.unique_bytes();
        assert!((3..6).contains(&share), "shared {share} times");
    }

    #[test]
    fn the_sample_has_every_blob_of_its_manifests() {
        let corpus = Corpus::sample(&SigningKey::generate().unwrap()).unwrap();
        let blobs = corpus.blobs();
        for Entry { image, .. } in &corpus.entries {
            let attached = image.attachments.iter().map(|attachment| &attachment.manifest);
            for manifest in image.manifests.iter().chain(attached) {
                let manifest = manifest.parse().unwrap();
                assert!(manifest.blobs().iter().all(|blob| blobs[&blob.digest] == blob.size));
            }
        }
        let attachments = corpus.entries.iter().map(|entry| entry.image.attachments.len());
        assert_eq!(attachments.collect::<Vec<_>>(), [0, 0, 0, 3, 1]);
    }

    #[test]
    fn tiny_images_differ_and_share_their_base() {
        let corpus = Corpus::tiny(25).unwrap();
        assert_eq!(corpus.manifests().len(), 25);
        assert_eq!(corpus.blobs().len(), 1 + 2 * 25);
    }

    #[test]
    fn a_changed_image_keeps_its_name_and_gets_another_digest() {
        let mut corpus = Corpus::tiny(2).unwrap();
        let host = "127.0.0.1:5000".parse().unwrap();
        let (before, names) = (corpus.manifests(), corpus.image_set(&host));
        corpus.change_one(1).unwrap();
        assert_eq!(corpus.image_set(&host), names);
        assert_eq!(corpus.manifests().difference(&before).count(), 1);
    }
}
