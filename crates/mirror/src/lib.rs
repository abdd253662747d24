//! The engine: collects images, plans, executes, reports.
//!
//! `config → collect → plan → execute → report`. The plan is a value; nothing
//! is written to a destination before it exists.

mod archiving;
mod availability;
mod catalogs;
mod chain;
mod collect;
mod conclude;
mod context;
mod destination_disk;
mod destination_registry;
mod disk_to_mirror;
mod execute;
mod fetch;
mod gather;
mod made;
mod mirror_to_disk;
mod mirror_to_mirror;
mod narrow;
mod paperwork;
mod presence;
mod progress;
mod push;
mod pushed;
mod releases;
mod repair;
mod report;
mod run;
mod schedule;
mod sections;
mod settings;
mod stacked;
mod stock;
mod supply;
mod transfer_error;
mod trust_check;
mod verified;
mod wanted;

pub use catalogs::{CatalogLookup, CatalogLookupError, ContentError, OpenError, OpenedCatalog};
pub use progress::{Event, Observer, Unobserved};
pub use releases::{ComponentLine, LookupError, ReleaseContents, ReleaseLookup};
pub use report::{ArchiveLine, BrokenBundle, Ending, Failure, ImageLine, Outcome, Report, Totals};
pub use run::run;
pub use settings::{
    Archiving, Attachments, BrokenBundles, Configuration, DryRun, Mode, ReleaseSources, Settings,
    SignatureCheck, TrustPolicy,
};
