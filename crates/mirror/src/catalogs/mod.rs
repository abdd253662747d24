//! Operator catalogs: from the `operators` section of a configuration to the images it means, and
//! to the catalogs that list just those.

mod content;
mod lookup;
mod open;

pub use content::ContentError;
pub use lookup::{CatalogLookup, CatalogLookupError, OpenedCatalog};
pub use open::OpenError;
