//! Takes one catalog in: opens it, selects from it, makes what is published of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{BundleName, filter_hash};
use image_set::{ImageSource, Operator};
use mirror_plan::{Found, NameError, Origin, Wanted};
use oci::{Digest, ReferenceError, Repository, Tag};
use registry::{Client, Location};

use super::build::{BuildError, build};
use super::carried::{CarriedCatalogError, KnownLayers, known_layers};
use super::content::Content;
use super::open::{Image, Instance, OpenError, fetch_layers, read_images, unpack};
use super::selected::{self, SelectError, Selection};
use crate::collect::built_images::{Base, BuiltImage};
use crate::collect::releases::Source;
use crate::context::Context;
use crate::fault::{EngineError, Fault};
use crate::gather::{Collector, Layout};
use crate::settings::{Attachments, DryRun};

/// Why a catalog cannot be selected from.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Carried(#[from] CarriedCatalogError),
    #[error(transparent)]
    Select(#[from] SelectError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("it was built by a run, and cannot be selected from")]
    BuiltByRun,
    #[error("the configuration does not have the catalog {0}")]
    NotConfigured(String),
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error(transparent)]
    Name(#[from] NameError),
}

impl EngineError for TakeError {
    fn fault(&self) -> Fault {
        match self {
            Self::Open(error) => error.fault(),
            Self::Carried(error) => error.fault(),
            Self::Select(SelectError::Load(_)) => Fault::Content,
            Self::Select(SelectError::Pack(_)) => Fault::Disk,
            Self::Build(BuildError::Keep(error)) => Fault::of_store(error),
            Self::Build(_) => Fault::Content,
            Self::BuiltByRun | Self::NotConfigured(_) | Self::Reference(_) | Self::Name(_) => {
                Fault::Configuration
            }
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Open(error) => error.request(),
            _ => None,
        }
    }
}

/// A catalog, and what is wanted of it.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) original: Found,
    pub(crate) selection: Selection,
    pub(crate) instances: Vec<Instance>,
    pub(crate) published: Option<Published>,
}

/// A catalog for the target, with its image if that was built.
pub(crate) type Published = (Wanted, Option<BuiltImage>);

/// A catalog that was found and is ready to be unpacked.
#[derive(Debug)]
pub(crate) struct Fetched {
    original: Found,
    images: Vec<Image>,
}

/// Reads what the catalog consists of, and fetches its layers into the workspace. A dry run fetches
/// each layer when it is unpacked, so that it needs space for one only.
pub(crate) async fn fetch(
    context: &Context,
    source: Source<'_>,
    client: &Client,
    operator: &Operator,
    original: Found,
) -> Result<Fetched, TakeError> {
    let collector = collector(context, client);
    let content = content(source, operator, &collector);
    let known = layers_that_count(context, source, operator, &original)?;
    let images = read_images(&original.tree, &content, &known).await?;
    if matches!(content, Content::Registry { .. }) && context.settings.dry_run == DryRun::No {
        fetch_layers(&images, &content).await?;
    }
    Ok(Fetched { original, images })
}

/// Opens the catalog and selects from it.
pub(crate) async fn take_in(
    context: &Context,
    source: Source<'_>,
    client: &Client,
    operator: &Operator,
    Fetched { original, images }: Fetched,
) -> Result<Taken, TakeError> {
    let collector = collector(context, client);
    let instances = unpack(images, &content(source, operator, &collector)).await?;
    let nothing = BTreeSet::new();
    let (selection, published) = select(context, operator, &original, &instances, &nothing)?;
    Ok(Taken { original, selection, instances, published })
}

/// Opens the files of a catalog, for every platform.
pub(crate) async fn open_content(
    context: &Context,
    source: Source<'_>,
    client: &Client,
    operator: &Operator,
    original: &Found,
) -> Result<Vec<Instance>, TakeError> {
    let collector = collector(context, client);
    let content = content(source, operator, &collector);
    let known = layers_that_count(context, source, operator, original)?;
    let images = read_images(&original.tree, &content, &known).await?;
    Ok(unpack(images, &content).await?)
}

fn collector(context: &Context, client: &Client) -> Collector {
    let store = match context.settings.dry_run {
        DryRun::No => Some(context.workspace.blobs().clone()),
        DryRun::Plan | DryRun::PlanWithLists => None,
    };
    Collector::new(client.clone(), store, Attachments::Remove, Arc::clone(&context.turns))
}

/// Where the content of a catalog is read.
fn content<'a>(
    source: Source<'a>,
    operator: &'a Operator,
    collector: &'a Collector,
) -> Content<'a> {
    match (source, &operator.catalog) {
        (Source::Held(holdings), _) => Content::Held(holdings),
        (Source::Remote(_), ImageSource::Registry(image)) => Content::Registry { collector, image },
        (Source::Remote(_), ImageSource::Layout(path)) => Content::Layout(Layout::new(path)),
    }
}

fn layers_that_count(
    context: &Context,
    source: Source<'_>,
    operator: &Operator,
    original: &Found,
) -> Result<KnownLayers, TakeError> {
    match source {
        // Under a policy, only the verified image defines what it consists of: a list in an
        // archive could leave out its newest layer.
        Source::Held(_) if context.settings.trust.is_some() => Ok(KnownLayers::default()),
        Source::Held(holdings) => Ok(known_layers(holdings, &operator.catalog, &original.tree)?),
        Source::Remote(_) => Ok(KnownLayers::default()),
    }
}

/// Selects without the bundles in `lost`, and makes the catalog of that.
pub(crate) fn select(
    context: &Context,
    operator: &Operator,
    original: &Found,
    instances: &[Instance],
    lost: &BTreeSet<BundleName>,
) -> Result<(Selection, Option<Published>), TakeError> {
    // Keeps a core busy for seconds when the catalog is large.
    tokio::task::block_in_place(|| {
        let selection = selected::select(instances, operator, lost)?;
        if selection.whole {
            return Ok((selection, Some((original.wanted.clone(), None))));
        }
        if selection.layers.is_empty() {
            return Ok((selection, None));
        }
        let base = match &original.wanted.origin {
            Origin::Registry(image) => Base::Registry(Location::from(image)),
            Origin::Layout(path) => Base::Layout(path.clone()),
            Origin::Made(_) => return Err(TakeError::BuiltByRun),
        };
        let made = build(context, instances, &selection.layers, base)?;
        let wanted = published(operator, original, &made.tree.root().digest)?;
        Ok((selection, Some((wanted, Some(made)))))
    })
}

/// The built catalog under the name of its original. One that is known by its digest
/// alone gets the digest it has now for a tag: the old one would be wrong.
fn published(
    operator: &Operator,
    original: &Found,
    made: &Digest,
) -> Result<Wanted, ReferenceError> {
    let name = &original.destination;
    let by_digest_alone = match &operator.catalog {
        ImageSource::Registry(image) => image.tag.is_none() && operator.target_tag.is_none(),
        ImageSource::Layout(_) => false,
    };
    let tag = if by_digest_alone { Tag::of_digest(made) } else { name.tag.clone() };
    let source = match &operator.catalog {
        ImageSource::Registry(image) => image.name(),
        ImageSource::Layout(path) => {
            path.file_name().unwrap_or_default().to_string_lossy().into_owned()
        }
    };
    let hash = filter_hash(operator, &source, &original.tree.root().digest);
    let made: Repository = format!("{}/{hash}", name.repository).parse()?;
    Ok(Wanted {
        origin: Origin::Made(made),
        target_repository: Some(name.repository.clone()),
        target_tag: Some(tag),
        // The image has just the platforms that were requested.
        platforms: Vec::new(),
        ..original.wanted.clone()
    })
}
