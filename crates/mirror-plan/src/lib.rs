//! What to copy where. Pure: wanted images in, a plan out.
//!
//! `wanted × held → plan`, the names images get at their destination, and the
//! resources a cluster needs to find them there.
//!
//! # Example
//!
//! ```
//! use mirror_plan::{Kind, Naming, Origin, Target, Wanted};
//!
//! let target: Target = "registry.local:5000/ocp".parse().unwrap();
//! let wanted = Wanted {
//!     kind: Kind::Additional,
//!     origin: Origin::Registry("quay.io/org/app:v1".parse().unwrap()),
//!     target_repository: None,
//!     target_tag: None,
//!     platforms: Vec::new(),
//! };
//! let image = Naming::new(target).destination(&wanted).unwrap();
//! assert_eq!(image.to_string(), "registry.local:5000/ocp/org/app:v1");
//! ```

mod block;
mod collide;
mod image;
mod naming;
mod pinned;
mod plan;
mod referrers;
mod resources;
mod shards;
mod small_map;
mod target;
mod target_record;

pub use block::blocked_by;
pub use collide::{Collision, collisions, deduplicated};
pub use image::{
    Attachment, BlobRef, Exit, ImageRecord, ImageTree, Kind, ManifestNode, Origin, Wanted,
    exact_list,
};
pub use naming::{Destination, NameError, Naming};
pub use pinned::{Pin, PinnedFiles};
pub use plan::{
    Action, BlobIndex, Direction, Found, Held, Lines, Mode, Nothing, Plan, PlanError,
    PlannedAttachment, PlannedBlob, PlannedImage, PlannedManifest, PlannedTree, SealError, Sealing,
    Totals, plan, size_text, unseal,
};
pub use referrers::Names;
pub use resources::{
    CatalogSourceTemplate, IMAGE_DIGEST_SOURCES, MirroredCatalog, MirroredImage, ResourceError,
    ResourceFile, ResourceOptions, Scope, TemplateError, catalog_resources, cluster_resources,
    hosts_clusters_refuse, image_digest_sources, same_but_for_time,
};
pub use shards::{
    ContentSource, Load, PartArchive, PartBlob, PartError, PartNeed, PartRepository, PartSegment,
    RunIdentity, ShardPart, Split, split,
};
pub use small_map::SmallMap;
pub use target::{Target, TargetError};
pub use target_record::{
    BundleUse, CatalogContent, ChannelContent, ConfigurationRun, ImageDetails, ImageEntry,
    PackageContent, RecordFormatError, RecordedConfiguration, RecordedImage, TargetRecord,
    fingerprint,
};
