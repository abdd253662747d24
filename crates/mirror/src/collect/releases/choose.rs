//! Which releases a section means: those its channels select, or the one it names.

use std::collections::BTreeSet;

use image_set::{Architecture, PlatformSection};
use mirror_plan::{Destination, Exit};
use oci::{Digest, DigestError, ImageRef, ReferenceError};
use release::expected_release::ExpectedRelease;
use release::select::{SelectError, select};
use semver::Version;
use workspace::{DiskError, DocumentError, Holdings};

use super::{Source, graphs};
use crate::collect::documents::Documents;
use crate::context::Context;
use crate::error_chain::chain;
use crate::report::Failure;
use crate::settings::SignatureCheck;

/// The repository in which payloads are stored, below any registry.
const PAYLOADS: &str = "openshift/release-images";

/// Why the digest of a release that is named by its tag is not known.
#[derive(Debug, thiserror::Error)]
enum ChooseError {
    #[error("it does not exist at its registry; check its name and tag")]
    Absent,
    #[error("it is not here: mirror it on the connected side")]
    NotHeld,
    #[error(transparent)]
    Request(#[from] registry::Error),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("reading its recorded digest")]
    Text(#[from] std::string::FromUtf8Error),
    #[error("reading its recorded digest")]
    Digest(#[from] DigestError),
    #[error(transparent)]
    Name(#[from] ReferenceError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// A release to mirror, known by the digest of its payload.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    /// Always with a digest.
    pub(crate) payload: ImageRef,
    pub(crate) version: Option<Version>,
    pub(crate) architecture: Option<Architecture>,
    pub(crate) check: SignatureCheck,
    /// The channels of the section that select it.
    pub(crate) channels: BTreeSet<String>,
}

/// All releases of a section, and what is reported about them.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) releases: Vec<Chosen>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) warnings: Vec<String>,
}

impl Chosen {
    /// The release that the payload must be, by the update graph.
    pub(crate) fn expected(&self) -> Option<ExpectedRelease<'_>> {
        let (version, architecture) = (self.version.as_ref()?, self.architecture?);
        Some(ExpectedRelease { version, architecture })
    }

    /// A reason with the release it concerns, where the payload does not identify it.
    pub(crate) fn describe(&self, why: &str) -> String {
        match (&self.version, self.architecture) {
            (Some(version), Some(architecture)) => {
                format!("release {version} for {}: {why}", architecture.as_str())
            }
            _ => why.to_owned(),
        }
    }
}

pub(crate) async fn choose(
    context: &Context,
    section: &PlatformSection,
    source: Source<'_>,
    documents: &mut Documents,
) -> Choice {
    match &section.release {
        Some(release) => named(context, release, source, documents).await,
        None => from_channels(context, section, source, documents).await,
    }
}

async fn from_channels(
    context: &Context,
    section: &PlatformSection,
    source: Source<'_>,
    documents: &mut Documents,
) -> Choice {
    let service = context.settings.releases.update_service.as_ref();
    let (graphs, faults) = graphs::collect(section, source, service, documents).await;
    let selection = select(section, &graphs);
    let mut choice = Choice::default();
    let file = context.settings.configuration.path.display();
    for failure in &selection.failures {
        // The selection reports only that there is no graph; the reason is known here.
        let cause = faults.iter().find(|(key, _)| {
            matches!(failure.error, SelectError::NoGraph { .. })
                && (&key.channel, key.architecture) == (&failure.channel, failure.architecture)
        });
        let why = match cause {
            Some((_, fault)) => chain(fault),
            None => chain(&failure.error),
        };
        let message = format!("{file}:{}: {why}", failure.at);
        choice.failures.push(Failure::new(Exit::RELEASE, message));
    }
    choice.warnings.extend(selection.notes.iter().map(ToString::to_string));
    let own = |channel: &str| section.channels.iter().any(|own| own.name == channel);
    for (_, fault) in faults.iter().filter(|(key, _)| !own(&key.channel)) {
        choice.warnings.push(chain(fault));
    }
    for release in selection.releases {
        let (version, architecture) = (Some(release.version), Some(release.architecture));
        let check = SignatureCheck::Enforce;
        if release.payload.digest.is_some() {
            let (payload, channels) = (release.payload, release.channels);
            choice.releases.push(Chosen { payload, version, architecture, check, channels });
        } else {
            let message = format!(
                "the update graph names the payload of release {} by tag ({}); only a digest can be verified",
                version.as_ref().map(ToString::to_string).unwrap_or_default(),
                release.payload
            );
            choice.failures.push(Failure::new(Exit::RELEASE, message));
        }
    }
    choice
}

/// The release that the section names itself.
async fn named(
    context: &Context,
    release: &ImageRef,
    source: Source<'_>,
    documents: &mut Documents,
) -> Choice {
    let mut choice = Choice::default();
    let digest = match (&release.digest, source) {
        (Some(digest), _) => Ok(*digest),
        (None, Source::Remote(client)) => match client.head(release).await {
            Ok(Some(found)) => Ok(found.digest),
            Ok(None) => Err(ChooseError::Absent),
            Err(error) => Err(error.into()),
        },
        (None, Source::Held(holdings)) => held_digest(release, holdings),
    };
    match digest {
        Ok(digest) => {
            documents.keep(digest_name(release), digest.to_string().into_bytes());
            choice.releases.push(Chosen {
                payload: ImageRef { digest: Some(digest), ..release.clone() },
                version: None,
                architecture: None,
                check: context.settings.releases.check,
                channels: BTreeSet::new(),
            });
        }
        Err(error) => {
            let message = format!("the release {release}: {}", chain(&error));
            choice.failures.push(Failure::new(Exit::RELEASE, message));
        }
    }
    choice
}

/// The digest a tag had when its release was mirrored.
fn held_digest(release: &ImageRef, holdings: &Holdings) -> Result<Digest, ChooseError> {
    let held = holdings.document(&digest_name(release))?;
    // oc-mirror v2 keeps no such document, but stores the payload under its tag.
    if held.is_none()
        && let (Some(distribution), Some(tag)) = (holdings.distribution(), &release.tag)
    {
        let repository = PAYLOADS.parse()?;
        let name = Destination { repository, tag: tag.clone() };
        return distribution.tag(&name)?.ok_or(ChooseError::NotHeld);
    }
    let text = String::from_utf8(held.ok_or(ChooseError::NotHeld)?)?;
    Ok(text.parse()?)
}

/// Where it is kept which digest a release had that was named by its tag.
fn digest_name(release: &ImageRef) -> String {
    format!("hold-release/named/{}", release.to_string().replace(['/', ':', '@'], "_"))
}
