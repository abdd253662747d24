//! Helm charts: what they hold, what they render to, and which images they use.
//!
//! Pure: the caller brings the bytes of charts, values and indexes. Charts are untrusted: sizes,
//! depth and the work of templates are bounded, and no name leads out of a chart.
//!
//! ```text
//! files, archive ──▶ chart ──values, dependencies──▶ scoped values ──engine──▶ text
//!                                                     text ──documents──▶ images with origins
//! ```

pub mod artifact;
pub mod capabilities;
pub mod chart;
pub mod dependencies;
pub mod discover;
pub mod documents;
pub mod engine;
pub mod functions;
pub mod images;
pub mod json_path;
pub mod rendering;
pub mod repository;
pub mod values;
pub mod version;
pub mod yaml;

pub use chart::{Chart, ChartError};
pub use go_template::Stop;
