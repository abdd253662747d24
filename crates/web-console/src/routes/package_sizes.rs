//! The size of a package or channel before it is added to a configuration. Determined only when the
//! user requests it: opening a page must not start downloads.

use std::sync::Arc;

use axum::extract::{Form, State};
use axum::response::Response;
use image_set::ImageSetConfiguration;

use super::configurations::EMPTY;
use super::respond::{SectionResponder, blocking, see_other};
use super::select::{CatalogQuery, opened};
use crate::additions::{Addition, add};
use crate::app::App;
use crate::pages::layout::Section;
use crate::pages::operators::PackageSizes;
use crate::sizes::Wanted;
use crate::view::Fault;
use crate::view::configurations::selected;
use crate::view::operators::PackageView;

/// Channels whose sizes are responder, and letters of their names: catalogs have any, pages have limits.
const MAX_CHANNELS: usize = 100;
const MAX_NAME: usize = 120;

/// A configuration with this package alone, as the form below adds it to an empty one.
fn alone(
    query: &CatalogQuery,
    package: &PackageView,
    channel: Option<&str>,
) -> Result<ImageSetConfiguration, String> {
    let addition = Addition::Package {
        catalog: query.key()?.source,
        package: package.name.clone(),
        channel: channel.map(ToOwned::to_owned),
        default_channel: package.default_channel.clone(),
    };
    let text = add(EMPTY, addition)?;
    selected("", &text).ok_or_else(|| "the selection is not valid".to_owned())
}

/// What is known of the sizes of a package. Blocks. `None` for a catalog in the workspace: its images
/// may be out of reach.
pub(super) fn known(
    app: &App,
    query: &CatalogQuery,
    package: &PackageView,
) -> Option<PackageSizes> {
    if query.is_carried() {
        return None;
    }
    let estimate = |channel: Option<&str>| {
        alone(query, package, channel).and_then(|set| app.sizes.estimate(&set)).ok()
    };
    let channels = package.channels.iter().filter(|channel| channel.name.len() <= MAX_NAME);
    let channels = channels.take(MAX_CHANNELS);
    Some(PackageSizes {
        all: estimate(None)?,
        channels: channels
            .filter_map(|channel| Some((channel.name.clone(), estimate(Some(&channel.name))?)))
            .collect(),
    })
}

/// Starts to determine the size of a package or of one of its channels.
pub(super) async fn measure(
    State(app): State<Arc<App>>,
    Form(query): Form<CatalogQuery>,
) -> Response {
    let package = opened(&app, &query).and_then(|view| {
        let package = view.package(&query.name).cloned();
        package.ok_or_else(|| Fault::Absent("the catalog has no such package".to_owned()))
    });
    let page = query.package_address();
    let started = match package {
        Ok(package) => {
            blocking(&app, move |app| {
                let known = package.channels.iter().find(|known| known.name == query.channel);
                let channel = match (query.channel.as_str(), known) {
                    ("", _) => None,
                    (_, Some(known)) => Some(known.name.as_str()),
                    (_, None) => {
                        return Err(Fault::Absent("the package has no such channel".to_owned()));
                    }
                };
                let set = alone(&query, &package, channel).map_err(Fault::Failed)?;
                app.sizes.start(&set, Wanted::All).map_err(Fault::Failed)
            })
            .await
        }
        Err(fault) => Err(fault),
    };
    match started {
        Ok(()) => see_other(&page),
        Err(fault) => {
            SectionResponder { app: &app, section: Section::Operators }.fault("Size", &fault)
        }
    }
}
