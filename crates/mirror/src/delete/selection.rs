//! What a configuration selects, from transferred content: graphs, catalogs and payloads in a
//! workspace or in archives. No registry is contacted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use image_set::{Operator, PackageVersion};
use mirror_plan::{BundleUse, CatalogContent, Destination, Exit, Kind, Target, Wanted};
use oci::Digest;
use tokio_util::sync::CancellationToken;
use workspace::Holdings;
use workspace::archive::{Archives, OpenError};

use crate::collect::releases::Source;
use crate::context::Context;
use crate::error_chain::chain;
use crate::gather::carried_content;
use crate::pipeline::{self, Selection};
use crate::progress::Observer;
use crate::report::Failure;
use crate::results::{Halt, reference};
use crate::settings::{Configuration, DryRun, Settings};

/// What a configuration selects.
#[derive(Debug, Default)]
pub(crate) struct Offline {
    /// With the transferred digest of each, if there is one.
    pub(crate) images: BTreeMap<Destination, (Wanted, Option<Digest>)>,
    pub(crate) catalogs: Vec<CatalogContent>,
    /// What could not be selected.
    pub(crate) failures: Vec<Failure>,
}

/// Selects by `configuration` in the workspace of `settings`.
pub(crate) async fn select(
    settings: &Settings,
    target: &Target,
    configuration: &Configuration,
    observer: &Arc<dyn Observer>,
    cancel: &CancellationToken,
) -> Result<Offline, Vec<Failure>> {
    let settings = Settings {
        configuration: configuration.clone(),
        dry_run: DryRun::Plan,
        ..settings.clone()
    };
    let (context, _) = Context::open(settings, Arc::clone(observer), cancel.clone())
        .map_err(|failure| vec![failure])?;
    let holdings = holdings(&context)?;
    let client = pipeline::client(&context.settings.destination).map_err(failures)?;
    let naming = context.settings.naming(target);
    let source = Source::Held(&holdings);
    let Selection { mut sections, named, issues, .. } =
        pipeline::select_images(&context, source, &client, Some(&naming))
            .await
            .map_err(failures)?;
    let catalogs: Vec<CatalogContent> =
        std::mem::take(&mut sections.catalogs.offered).into_values().collect();
    let mut selected = Offline { catalogs, ..Offline::default() };
    selected.failures = failures(Halt::Failed(issues));
    let found = carried_content::find(&holdings, named, &sections.made);
    let lost = found.lost.into_iter().map(|(wanted, name, _)| (name, (wanted, None)));
    let found = found.found.into_iter().map(|found| {
        let digest = found.tree.root().digest;
        (found.destination, (found.wanted, Some(digest)))
    });
    selected.images = lost.chain(found).collect();
    let operators = &configuration.set.mirror.operators;
    selected.narrow(operators, |wanted| match reference(&wanted.origin) {
        Some(image) => sections.catalogs.needs.uses(image),
        None => BTreeSet::new(),
    });
    Ok(selected)
}

/// All available content, also what is not complete: nothing is pushed.
pub(crate) fn holdings(context: &Context) -> Result<Holdings, Vec<Failure>> {
    let workspace = context.workspace.clone();
    let archives = match Archives::open(workspace.root()) {
        Ok(archives) => Some(archives),
        Err(OpenError::None(_)) => None,
        Err(error) => return Err(vec![Failure::new(Exit::GENERIC, chain(&error))]),
    };
    Ok(Holdings::new(Some(workspace), archives).with_manifests_alone())
}

fn failures(halt: Halt) -> Vec<Failure> {
    match halt {
        Halt::Interrupted => vec![Failure::new(Exit::GENERIC, "interrupted")],
        Halt::NothingSelected => Vec::new(),
        Halt::Failed(issues) => {
            let lost = issues.lost.into_iter().map(|(wanted, _, why)| {
                Failure::new(wanted.kind.exit(), format!("{}: {why}", wanted.origin))
            });
            lost.chain(issues.failures).collect()
        }
    }
}

impl Offline {
    /// Leaves out bundles that no version range covers. Mirroring adds such bundles where OLM
    /// needs them to get from one version to the next; a deletion must not go beyond its range.
    fn narrow(&mut self, operators: &[Operator], uses: impl Fn(&Wanted) -> BTreeSet<BundleUse>) {
        let mut requested: BTreeSet<BundleUse> = BTreeSet::new();
        for content in &mut self.catalogs {
            let of_catalog =
                || operators.iter().filter(|o| o.catalog.to_string() == content.source);
            for (name, package) in &mut content.packages {
                let selected = of_catalog().flat_map(|operator| &operator.packages);
                let selected: Vec<_> = selected.filter(|entry| entry.name == *name).collect();
                for (channel, bundles) in &mut package.channels {
                    let ranges = selected.iter().map(|entry| {
                        let own = entry.channels.iter().find(|own| own.name == *channel);
                        let own =
                            own.map(|own| (own.min_version.as_ref(), own.max_version.as_ref()));
                        let whole = (entry.min_version.as_ref(), entry.max_version.as_ref());
                        own.filter(|own| *own != (None, None)).unwrap_or(whole)
                    });
                    let ranges: Vec<_> = ranges.collect();
                    let versions = &package.versions;
                    bundles.bundles.retain(|bundle| {
                        ranges.is_empty()
                            || ranges.iter().any(|(min, max)| {
                                let version = versions.get(bundle).map(String::as_str);
                                is_within(version, *min, *max)
                            })
                    });
                    requested.extend(
                        bundles.bundles.iter().map(|bundle| BundleUse {
                            package: name.clone(),
                            bundle: bundle.clone(),
                        }),
                    );
                }
            }
        }
        self.images.retain(|_, (wanted, _)| {
            !matches!(wanted.kind, Kind::Bundle | Kind::RelatedImage)
                || uses(wanted).iter().any(|bundle| requested.contains(bundle))
        });
    }
}

/// Whether a version is within bounds. One that is unknown is only where there are none.
fn is_within(
    version: Option<&str>,
    min: Option<&PackageVersion>,
    max: Option<&PackageVersion>,
) -> bool {
    if min.is_none() && max.is_none() {
        return true;
    }
    let Some(version) = version.and_then(PackageVersion::parse) else { return false };
    let version = version.version();
    min.is_none_or(|min| version.cmp_precedence(min.version()).is_ge())
        && max.is_none_or(|max| version.cmp_precedence(max.version()).is_le())
}
