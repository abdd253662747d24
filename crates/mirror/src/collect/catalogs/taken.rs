//! Takes one catalog in: opens it, selects from it, makes what is published of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{BundleName, filter_hash};
use image_set::{ImageSource, Operator};
use mirror_plan::{Found, Origin, Wanted};
use oci::{Digest, Repository, Tag};
use registry::{Client, Location};

use super::build::build;
use super::carried::{KnownLayers, known_layers};
use super::content::Content;
use super::open::{Instance, open};
use super::selected::{self, Selection};
use crate::collect::built_images::{Base, MadeImage};
use crate::collect::releases::Source;
use crate::context::Context;
use crate::error_chain::chain;
use crate::gather::{Collector, Layout};
use crate::settings::{Attachments, DryRun};

/// A catalog, and what is wanted of it.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) original: Found,
    pub(crate) selection: Selection,
    pub(crate) instances: Vec<Instance>,
    pub(crate) published: Option<Published>,
}

/// A catalog as it is published, with its image where that was made.
pub(crate) type Published = (Wanted, Option<MadeImage>);

/// Opens the catalog and selects from it.
pub(crate) async fn take_in(
    context: &Context,
    source: Source<'_>,
    client: &Client,
    operator: &Operator,
    original: Found,
) -> Result<Taken, String> {
    let instances = open_content(context, source, client, operator, &original).await?;
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
) -> Result<Vec<Instance>, String> {
    let store = match context.settings.dry_run {
        DryRun::No => Some(context.workspace.blobs().clone()),
        DryRun::Plan | DryRun::PlanWithLists => None,
    };
    let collector =
        Collector::new(client.clone(), store, Attachments::Remove, Arc::clone(&context.turns));
    let content = match (source, &operator.catalog) {
        (Source::Held(holdings), _) => Content::Held(holdings),
        (Source::Asked(_), ImageSource::Registry(image)) => {
            Content::Registry { collector: &collector, image }
        }
        (Source::Asked(_), ImageSource::Layout(path)) => Content::Layout(Layout::new(path)),
    };
    let known = match source {
        // Under a policy, only the image that was judged says what it consists of: a list in an
        // archive could leave out its newest layer.
        Source::Held(_) if context.settings.trust.is_some() => KnownLayers::default(),
        Source::Held(holdings) => known_layers(holdings, &operator.catalog, &original.tree)?,
        Source::Asked(_) => KnownLayers::default(),
    };
    open(&original.tree, &content, &known).await.map_err(|e| chain(&e))
}

/// Selects without the bundles in `lost`, and makes the catalog of that.
pub(crate) fn select(
    context: &Context,
    operator: &Operator,
    original: &Found,
    instances: &[Instance],
    lost: &BTreeSet<BundleName>,
) -> Result<(Selection, Option<Published>), String> {
    // Keeps a core busy for seconds when the catalog is large.
    tokio::task::block_in_place(|| {
        let selection = selected::select(instances, operator, lost).map_err(|e| chain(&e))?;
        if selection.whole {
            return Ok((selection, Some((original.wanted.clone(), None))));
        }
        if selection.layers.is_empty() {
            return Ok((selection, None));
        }
        let base = match &original.wanted.origin {
            Origin::Registry(image) => Base::Registry(Location::from(image)),
            Origin::Layout(path) => Base::Layout(path.clone()),
            Origin::Made(_) => return Err("it was made here".to_owned()),
        };
        let made = build(context, instances, &selection.layers, base).map_err(|e| chain(&e))?;
        let wanted = published(operator, original, &made.tree.root().digest)?;
        Ok((selection, Some((wanted, Some(made)))))
    })
}

/// The made catalog under the name of the one it was made from. One that is known by its digest
/// alone gets the digest it has now for a tag: the old one would be a lie.
fn published(operator: &Operator, original: &Found, made: &Digest) -> Result<Wanted, String> {
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
    let made: Repository =
        format!("{}/{hash}", name.repository).parse().map_err(|error| chain(&error))?;
    Ok(Wanted {
        origin: Origin::Made(made),
        target_repository: Some(name.repository.clone()),
        target_tag: Some(tag),
        // The image has just the platforms that were asked for.
        platforms: Vec::new(),
        ..original.wanted.clone()
    })
}
