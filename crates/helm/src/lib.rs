//! Helm charts: what they hold, what they render to, and which images they use.
//!
//! Pure: the caller provides the bytes of charts, values and indexes. Charts are untrusted: sizes,
//! depth and the work of templates are bounded, and no name leads out of a chart.
//!
//! ```text
//! files, archive ──▶ chart ──values, dependencies──▶ scoped values ──engine──▶ text
//!                                                     text ──documents──▶ images with origins
//! ```
//!
//! # Example
//!
//! ```
//! use helm::discover::{Options, images};
//!
//! let files = [
//!     ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
//!     ("values.yaml", "image: quay.io/team/web:v1\n"),
//!     (
//!         "templates/pod.yaml",
//!         "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n\
//!          spec: {containers: [{name: web, image: {{ .Values.image | quote }}}]}\n",
//!     ),
//! ];
//! let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).into();
//! let chart = helm::Chart::from_folder(&files)?;
//! let found = images(&chart, &serde_json::Map::new(), &Options::default())?;
//! let names: Vec<String> = found.images.keys().map(ToString::to_string).collect();
//! assert_eq!(names, ["quay.io/team/web:v1"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
