//! Opens one release: verifies it, and only then reads what it consists of.

use image_set::PlatformSection;
use mirror_plan::{Kind, Origin, Wanted};
use oci::{Digest, ImageRef, ReferenceError, Tag};
use registry::Client;
use release::expected_release::UnexpectedRelease;
use release::payload::Wanted as PayloadPart;
use workspace::Holdings;

use super::choose::Chosen;
use super::contents::{self, Contents, ContentsError};
use super::last_word;
use super::signatures::{self, SignatureFault, Signed};
use crate::context::Context;
use crate::error_chain::chain;
use crate::fault::{EngineError, Fault};
use crate::gather::Collector;
use crate::settings::SignatureCheck;

/// Why a release cannot be mirrored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("its payload has no digest")]
    NoDigest,
    #[error(transparent)]
    Signature(#[from] SignatureFault),
    #[error(transparent)]
    Unexpected(#[from] UnexpectedRelease),
    #[error(transparent)]
    Contents(#[from] ContentsError),
    #[error("the component {name:?} has a name that cannot be part of a tag")]
    Component { name: String, source: ReferenceError },
    #[error(transparent)]
    Tag(#[from] ReferenceError),
}

impl EngineError for OpenError {
    fn fault(&self) -> Fault {
        match self {
            Self::NoDigest | Self::Component { .. } | Self::Tag(_) => Fault::Content,
            Self::Signature(error) => error.fault(),
            Self::Unexpected(_) => Fault::Policy,
            Self::Contents(error) => error.fault(),
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Signature(error) => error.request(),
            Self::Contents(error) => error.request(),
            Self::NoDigest | Self::Unexpected(_) | Self::Component { .. } | Self::Tag(_) => None,
        }
    }
}

/// What releases of one run are opened with.
pub(crate) struct Opener<'a> {
    pub(crate) context: &'a Context,
    pub(crate) section: &'a PlatformSection,
    pub(crate) reader: Reader<'a>,
}

/// What releases are read from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reader<'a> {
    Registry { client: &'a Client, collector: &'a Collector },
    Held(&'a Holdings),
}

/// A release, ready to be mirrored.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) digest: Digest,
    /// `4.16.3-x86_64`
    pub(crate) tag: Tag,
    /// `ocp-release`
    pub(crate) repository: String,
    pub(crate) wanted: Vec<Wanted>,
    /// The name of each of `wanted` inside the release; none for the payload.
    pub(crate) components: Vec<Option<String>>,
    pub(crate) documents: Vec<(String, Vec<u8>)>,
    pub(crate) signatures: Vec<Vec<u8>>,
    pub(crate) image_references: Vec<u8>,
    /// One line for the audit log.
    pub(crate) audited: String,
}

/// A payload that may be read.
struct Trusted {
    /// Its name, with the digest it is pulled by.
    origin: ImageRef,
    tag: Tag,
    signatures: Vec<Vec<u8>>,
    audited: String,
}

impl Opener<'_> {
    pub(crate) async fn open(&self, chosen: &Chosen) -> Result<Opened, OpenError> {
        let digest = chosen.payload.digest.ok_or(OpenError::NoDigest)?;
        // Nothing of the release is requested before this.
        let Trusted { origin, tag, signatures, audited } = self.trusted(chosen, digest).await?;
        let expected = chosen.expected();
        if let (Some(expected), Some(signed)) = (expected, &origin.tag) {
            expected.check_tag(signed)?;
        }
        let place = format!("hold-release/{}/{tag}", last_word(&origin));
        let contents = match self.reader {
            Reader::Held(holdings) => contents::carried(holdings, &place, &digest)?,
            Reader::Registry { collector, .. } => {
                let wanted = match self.section.kube_virt_container {
                    true => PayloadPart::BootImages,
                    false => PayloadPart::Components,
                };
                let platforms = &self.section.platforms;
                contents::fetched(collector, &origin, platforms, wanted).await?
            }
        };
        if let (Some(expected), Some(metadata)) = (expected, contents.metadata()) {
            expected.check_metadata(&metadata)?;
        }
        let mut documents = contents.documents(&place, &digest);
        for (number, signature) in signatures.iter().enumerate() {
            let name = signatures::file_name(tag.as_str(), &digest, number);
            documents.push((name, signature.clone()));
        }
        let (wanted, components) = self.wanted(chosen, &origin, &tag, &contents)?;
        Ok(Opened {
            digest,
            repository: last_word(&origin).to_owned(),
            wanted,
            components,
            documents,
            signatures,
            image_references: contents.image_references,
            audited,
            tag,
        })
    }

    /// Lets a payload in that is signed, or that need not be.
    async fn trusted(&self, chosen: &Chosen, digest: Digest) -> Result<Trusted, OpenError> {
        let sources = &self.context.settings.releases;
        if chosen.check == SignatureCheck::IgnoreForNamedRelease {
            let message = format!(
                "the release {} is not verified: --ignore-release-signature was given",
                chosen.payload
            );
            self.context.warn(message.clone());
            let tag: Tag = digest.hex().parse()?;
            let origin = ImageRef { tag: None, ..chosen.payload.clone() };
            return Ok(Trusted { origin, tag, signatures: Vec::new(), audited: message });
        }
        let of_user = signatures::of_user(&self.context.workspace.working_dir(), sources, &digest);
        let signed = match (of_user, self.reader) {
            (Some(signed), _) => signed,
            (None, Reader::Registry { client, .. }) => {
                let held = Holdings::new(Some(self.context.workspace.clone()), None);
                signatures::verify_release(client, &held, sources, &digest).await?
            }
            (None, Reader::Held(holdings)) => signatures::read(holdings, sources, &digest)?,
        };
        let Signed { reference, key, signatures } = signed;
        if reference.name() != chosen.payload.name() {
            self.context.warn(format!(
                "the release {} is read from {}, the name that its signature is for; to read it from another registry, redirect that name in registries.conf",
                chosen.payload,
                reference.name()
            ));
        }
        let tag = match reference.tag.clone().or_else(|| chosen.payload.tag.clone()) {
            Some(tag) => tag,
            None => digest.hex().parse()?,
        };
        let audited = format!("the release {reference} ({digest}) is signed by key {key}");
        let origin = ImageRef { tag: Some(tag.clone()), digest: Some(digest), ..reference };
        Ok(Trusted { origin, tag, signatures, audited })
    }

    /// The payload first, then all it consists of, each with its name in the release.
    fn wanted(
        &self,
        chosen: &Chosen,
        origin: &ImageRef,
        tag: &Tag,
        contents: &Contents,
    ) -> Result<(Vec<Wanted>, Vec<Option<String>>), OpenError> {
        let platforms = &self.section.platforms;
        let image = |kind, origin: ImageRef, target_tag| Wanted {
            kind,
            origin: Origin::Registry(origin),
            target_repository: None,
            target_tag,
            platforms: platforms.clone(),
        };
        let mut wanted = vec![image(Kind::ReleasePayload, origin.clone(), None)];
        let mut names = vec![None];
        let components = contents.components()?;
        for (name, image) in components.iter().filter(|(_, image)| image.digest.is_none()) {
            self.context.warn(chosen.describe(&format!(
                "the component {name} is named by tag ({image}), so the signature of the release does not cover it; the digest that the tag has now is mirrored"
            )));
        }
        let mut disks = Vec::new();
        if self.section.kube_virt_container {
            let (found, warning) = contents.disk_images(self.section, chosen.architecture)?;
            if let Some(warning) = warning {
                self.context.warn(chosen.describe(&chain(&warning)));
            }
            disks = found;
        }
        let components = components.into_iter().map(|part| (Kind::ReleaseComponent, part));
        let disks = disks.into_iter().map(|part| (Kind::KubeVirt, part));
        for (kind, (name, reference)) in components.chain(disks) {
            let target: Tag = match format!("{tag}-{name}").parse() {
                Ok(target) => target,
                Err(source) => return Err(OpenError::Component { name, source }),
            };
            wanted.push(image(kind, reference, Some(target)));
            names.push(Some(name));
        }
        Ok((wanted, names))
    }
}
