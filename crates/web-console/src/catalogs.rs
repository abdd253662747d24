//! Catalogs that were opened. Reading one takes seconds to minutes and hundreds of megabytes for a
//! moment, so it happens in the background and what pages show of it is kept.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use catalog::Catalog;
use image_set::ImageSource;
use mirror::CatalogLookup;
use oci::ImageRef;
use tokio::runtime::Handle;

use crate::view::chain;
use crate::view::operators::CatalogView;

/// Catalogs that are kept; the one that was opened first is dropped first.
const KEPT: usize = 4;

/// Opens what catalogs are read with, by the settings of the program.
pub trait Lookups: Send + Sync + fmt::Debug {
    /// Registries, or with `carried` archives and a workspace, which send no request.
    ///
    /// # Errors
    ///
    /// Why it cannot be opened, in words.
    fn catalogs(&self, carried: Option<&Path>) -> Result<CatalogLookup, String>;
}

/// Which catalog, and where it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CatalogKey {
    pub(crate) source: ImageSource,
    /// From the workspace, without network.
    pub(crate) is_carried: bool,
}

/// How far a catalog is.
#[derive(Debug, Clone)]
pub(crate) enum CatalogState {
    Loading,
    Ready(Arc<CatalogView>),
    Failed(String),
}

#[derive(Debug)]
pub(crate) struct Catalogs {
    lookups: Arc<dyn Lookups>,
    opened: Mutex<VecDeque<(CatalogKey, CatalogState)>>,
}

impl Catalogs {
    pub(crate) fn new(lookups: Arc<dyn Lookups>) -> Self {
        Self { lookups, opened: Mutex::default() }
    }

    /// The state of a catalog. The first request starts to read it; one after a failure tries
    /// again if `retry` is set.
    pub(crate) fn open(
        self: &Arc<Self>,
        key: &CatalogKey,
        directory: &Path,
        retry: bool,
    ) -> CatalogState {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let place = opened.iter().position(|(known, _)| known == key);
        match place.map(|place| (place, opened[place].1.clone())) {
            Some((place, CatalogState::Failed(_))) if retry => drop(opened.remove(place)),
            Some((_, state)) => return state,
            None => {}
        }
        opened.push_back((key.clone(), CatalogState::Loading));
        while opened.len() > KEPT {
            opened.pop_front();
        }
        drop(opened);
        let (catalogs, key, directory) = (Arc::clone(self), key.clone(), directory.to_owned());
        tokio::task::spawn_blocking(move || {
            let state = match catalogs.read(&key, &directory) {
                Ok(view) => CatalogState::Ready(Arc::new(view)),
                Err(why) => CatalogState::Failed(why),
            };
            let mut opened = catalogs.opened.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, known)) = opened.iter_mut().find(|(known, _)| *known == key) {
                *known = state;
            }
        });
        CatalogState::Loading
    }

    fn read(&self, key: &CatalogKey, directory: &Path) -> Result<CatalogView, String> {
        let lookup = self.lookups.catalogs(key.is_carried.then_some(directory))?;
        let opened = Handle::current().block_on(lookup.open(&key.source, None));
        let opened = opened.map_err(|error| chain(&error))?;
        let files = opened.files().map_err(|error| chain(&error))?;
        let catalog = Catalog::load(&files).map_err(|error| chain(&error))?;
        Ok(CatalogView::of(&catalog, &opened.digest.to_string()))
    }

    /// The catalogs of the workspace or its archives. Blocks.
    pub(crate) fn carried(&self, directory: &Path) -> Result<Vec<ImageSource>, String> {
        let lookup = self.lookups.catalogs(Some(directory))?;
        lookup.carried().map_err(|error| chain(&error))
    }

    /// Whether a registry has an image. Blocks.
    pub(crate) fn exists(&self, image: &ImageRef) -> Result<bool, String> {
        let lookup = self.lookups.catalogs(None)?;
        Handle::current().block_on(lookup.exists(image)).map_err(|error| chain(&error))
    }
}
