//! MachineConfigs: read, write, merge as a pool does, and determine what a change does to a node.
//!
//! Pure: text goes in, values and text come out.
//!
//! ```text
//! text ──read──▶ MachineConfig ──pool──▶ rendered files and units
//!                     │  ╲
//!                  write   difference of two ──disruption policy──▶ nothing | actions | reboot | refused
//! ```
//!
//! What is written is the same for the same value: keys in alphabetical order, as Kubernetes'
//! own tools write them, Ignition 3.2.0, file modes in decimal, base64 in one line.
//!
//! # Example
//!
//! ```
//! use machine_config::{Encoding, File, MachineConfig, Role};
//!
//! let mut config = MachineConfig::new("10-br-ex-worker".parse().unwrap(), Role::worker());
//! let path = "/etc/nmstate/openshift/worker-0.yml".parse().unwrap();
//! config.files.push(File::new(path, b"interfaces: []\n", Encoding::Plain));
//! let yaml = config.to_yaml().unwrap();
//! assert_eq!(machine_config::parse(&yaml).unwrap(), config);
//! ```

mod contents;
mod data_url;
mod difference;
mod disruption;
mod file;
mod file_mode;
mod machine_config;
mod name;
mod policy_document;
mod pool;
mod read;
mod size;
mod unit;
mod version;
pub mod yaml;

pub use contents::{Contents, ContentsError, Encoding};
pub use data_url::{DataUrl, DataUrlError};
pub use difference::{Change, FileChange, Setting, difference};
pub use disruption::{Action, Disruption, DisruptionPolicy, Effect, Outcome, Reason};
pub use file::{File, FilePath, FilePathError};
pub use file_mode::{FileMode, FileModeError};
pub use machine_config::{MachineConfig, OperatingSystem, WriteError};
pub use name::{MachineConfigName, NameError, Role};
pub use policy_document::{PolicyDocumentError, parse_disruption_policy};
pub use pool::{Overridden, Pool, RenderedFile};
pub use read::{Problem, ReadError, Skipped, Text, parse, parse_all};
pub use size::{Fit, LIMIT, Size, WARNING};
pub use unit::{DropIn, Unit};
pub use version::{IgnitionVersion, VersionError};

/// Where a node reads its br-ex document. A change below it never reboots a node by default.
pub const BR_EX_FOLDER: &str = "/etc/nmstate/openshift";
