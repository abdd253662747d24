//! Releases: from the `platform` section of a configuration to the images it
//! means, and to what else a cluster needs to use them.
//!
//! ```text
//! section ──graphs──▶ chosen releases ──signatures──▶ payloads to trust ──contents──▶ wanted images
//! ```
//!
//! The connected sides send requests to the update service, the store of signatures and the
//! registry; their responses are kept as documents. The disconnected side
//! reads those and takes the same steps.

mod choose;
mod contents;
mod graph_image;
mod graphs;
mod laid_out;
mod lookup;
mod open;
mod payload_files;
mod resources;
mod signatures;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use image_set::PlatformSection;
use mirror_plan::{BlobRef, Destination, Exit, Kind, Origin, Wanted};
use oci::{Digest, ImageRef};
use registry::Client;
use serde::{Deserialize, Serialize};
use workspace::{Holdings, JournalEvent};

use crate::collect::built_images::BuiltImages;
use crate::collect::documents::Documents;
use crate::context::Context;
use crate::error_chain::chain;
use crate::fault::EngineError;
use crate::gather::Collector;
use crate::reason::Reason;
use crate::report::Failure;
use crate::results::Lost;
use crate::settings::{Attachments, DryRun};
use choose::Chosen;
use laid_out::Part;
use open::{OpenError, Opened, Opener, Reader};

pub(crate) use graph_image::origin as graph_image_origin;
pub use lookup::{ComponentLine, LookupError, ReleaseContents, ReleaseLookup};

/// Releases opened at once. Each waits for a few small responses and one layer.
const AT_ONCE: usize = 6;

/// Where releases are looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// The update service, the store of signatures, registries.
    Remote(&'a Client),
    /// Archives and workspaces; no request is sent.
    Held(&'a Holdings),
}

/// What the `platform` section of a configuration results in. A stored plan has what is not skipped.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Releases {
    /// Payloads, components, disk images and the graph image.
    #[serde(skip)]
    pub(crate) wanted: Vec<Wanted>,
    /// Releases of which nothing is mirrored, by their payload, and why.
    #[serde(skip)]
    pub(crate) lost: Vec<Lost>,
    /// What went wrong before there was a release to name.
    #[serde(skip)]
    pub(crate) failures: Vec<Failure>,
    /// What the selection was made by.
    pub(crate) documents: BTreeMap<String, BlobRef>,
    #[serde(skip)]
    pub(crate) made: BuiltImages,
    /// The signatures of payloads, for the cluster to check.
    signatures: BTreeMap<Digest, Vec<SignatureBytes>>,
    /// What images are called inside their release.
    parts: BTreeMap<Destination, Part>,
    /// The channels of the configuration that select a release such as `4.16.3-x86_64`.
    channels: BTreeMap<String, BTreeSet<String>>,
}

/// The release that an image belongs to.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseUse<'a> {
    /// `4.16.3-x86_64`
    pub release: &'a str,
    /// The channels of the configuration that select it; `None` where the configuration names it.
    pub channels: Option<&'a BTreeSet<String>>,
}

/// A signature; hex digits in a stored plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
struct SignatureBytes(Vec<u8>);

impl From<SignatureBytes> for String {
    fn from(signature: SignatureBytes) -> Self {
        hex::encode(signature.0)
    }
}

impl TryFrom<String> for SignatureBytes {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        hex::decode(text).map(Self)
    }
}

/// Turns the `platform` section of a run's configuration into images. What
/// fails concerns one release, or one channel; the rest is collected nevertheless.
pub(crate) async fn collect(context: &Context, source: Source<'_>) -> Releases {
    let Some(section) = &context.settings.configuration.set.mirror.platform else {
        return Releases::default();
    };
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Releases::default(),
        releases = collect_section(context, section, source) => releases,
    }
}

async fn collect_section(
    context: &Context,
    section: &PlatformSection,
    source: Source<'_>,
) -> Releases {
    let mut releases = Releases::default();
    let mut documents = Documents::default();
    let chosen = choose::choose(context, section, source, &mut documents).await;
    releases.failures = chosen.failures;
    chosen.warnings.into_iter().for_each(|warning| context.warn(warning));
    let collector;
    let reader = match source {
        Source::Remote(client) => {
            collector = self::collector(context, client);
            Reader::Registry { client, collector: &collector }
        }
        Source::Held(holdings) => Reader::Held(holdings),
    };
    let opener = &Opener { context, section, reader };
    let opened: Vec<(Chosen, Result<Opened, OpenError>)> = stream::iter(chosen.releases)
        .map(|chosen| async move {
            let opened = opener.open(&chosen).await;
            (chosen, opened)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    for (chosen, opened) in opened {
        match opened {
            Ok(opened) => {
                if !chosen.channels.is_empty() {
                    let channels = releases.channels.entry(opened.tag.to_string()).or_default();
                    channels.extend(chosen.channels);
                }
                releases.take(context, opened, &mut documents);
            }
            Err(error) => releases.record_failure(&chosen, &error),
        }
    }
    if section.graph {
        match graph_image::make(context, reader).await {
            Ok(Some(made)) => releases.made.insert(graph_image::origin(), made),
            Ok(None) => {}
            Err(error) => {
                let message = format!("building the image of the update graph: {}", chain(&error));
                let failure = Failure::new(Exit::RELEASE, message);
                releases.failures.push(failure.with_remedy(error.remedy()));
            }
        }
        if releases.made.get(&graph_image::origin()).is_some() || matches!(source, Source::Held(_))
        {
            releases.wanted.push(graph_image::wanted());
        }
    }
    // Transferred documents are not saved again: they would appear newer than
    // an archive that was made later and arrives later.
    let saved = match source {
        Source::Remote(_) => documents.save(context),
        // Nothing was kept before: it comes from oc-mirror v2.
        Source::Held(_) if context.settings.migrate_from.is_some() => documents.save(context),
        Source::Held(_) => Ok(BTreeMap::new()),
    };
    match saved {
        Ok(saved) => releases.documents = saved,
        Err(error) => {
            let message = format!("keeping what releases were selected by: {}", chain(&error));
            releases.failures.push(Failure::new(Exit::GENERIC, message));
        }
    }
    releases
}

/// Reads payloads at registries.
fn collector(context: &Context, client: &Client) -> Collector {
    let store = match context.settings.dry_run {
        DryRun::No => Some(context.workspace.blobs().clone()),
        DryRun::Plan | DryRun::PlanWithLists => None,
    };
    Collector::new(client.clone(), store, Attachments::Remove, Arc::clone(&context.turns))
}

impl Releases {
    /// The release that an image of this name belongs to. Names at a target may be below a namespace
    /// or have shorter paths; their tags are the same.
    pub(crate) fn of_image(&self, name: &Destination) -> Option<ReleaseUse<'_>> {
        let of_tag = || self.parts.iter().find(|(known, _)| known.tag == name.tag);
        let part = self.parts.get(name).or_else(|| of_tag().map(|(_, part)| part))?;
        Some(ReleaseUse { release: &part.release, channels: self.channels.get(&part.release) })
    }

    fn take(&mut self, context: &Context, opened: Opened, documents: &mut Documents) {
        note(context, &opened.audited);
        self.laid_out(context, &opened);
        let signatures = opened.signatures.into_iter().map(SignatureBytes).collect();
        self.signatures.insert(opened.digest, signatures);
        documents.extend(opened.documents);
        self.wanted.extend(opened.wanted);
    }

    fn record_failure(&mut self, chosen: &Chosen, error: &OpenError) {
        let reason_text = chosen.describe(&chain(error));
        let wanted = Wanted {
            kind: Kind::ReleasePayload,
            origin: Origin::Registry(chosen.payload.clone()),
            target_repository: None,
            target_tag: None,
            platforms: Vec::new(),
        };
        match Destination::of(&wanted) {
            Ok(name) => self.lost.push((wanted, name, Reason::new(reason_text, error.remedy()))),
            Err(unnamed) => {
                let message = format!("{reason_text}: {}", chain(&unnamed));
                self.failures.push(Failure::new(Exit::RELEASE, message));
            }
        }
    }
}

/// Writes to the audit log what was decided about a release.
fn note(context: &Context, text: &str) {
    let Some(run) = context.run() else { return };
    if let Err(error) = run.journal().append(JournalEvent::Note { text: text.to_owned() }) {
        context.warn(format!("the audit log could not be written: {}", chain(&error)));
    }
}

/// The last word of a repository: `ocp-release`.
fn last_word(image: &ImageRef) -> &str {
    image.repository.components().next_back().unwrap_or_default()
}
