//! How a change ended, as a value for reports and status fields.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::message::Message;
use crate::observe::Observation;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Outcome {
    /// The change is applied, and the network is as expected.
    Committed { after: Observation },
    /// Nothing was changed.
    Refused { reason: Message },
    /// The change was applied and rolled back.
    RolledBack { cause: Cause, message: Message, after: Observation, recovery: Recovery },
}

/// Why a change was rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// NetworkManager could not apply the change.
    Apply,
    /// It did, and the result is not the desired state.
    Verification,
    /// The bridge does not connect the node.
    Facts,
    /// A required probe failed.
    Probes,
    /// The checkpoint ended before the change was confirmed.
    Expired,
    /// The change was good, but could not be saved to disk.
    Persist,
}

/// The network after the rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Recovery {
    /// What worked before the change works again.
    Works,
    /// It was rolled back, but something that worked before does not.
    Differs {
        message: Message,
        /// The ids of the checks that fail now. Reports of earlier versions do not have them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        failed: Vec<String>,
    },
    /// The roll-back failed and has to be repeated: the record of the change remains.
    Pending { message: Message },
}

impl Outcome {
    pub fn is_committed(&self) -> bool {
        matches!(self, Self::Committed { .. })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Apply => "NetworkManager could not make the change",
            Self::Verification => "the network did not become what the document requests",
            Self::Facts => "the bridge does not carry the node",
            Self::Probes => "the probes did not succeed through the new network",
            Self::Expired => "the checkpoint was gone before the change was confirmed",
            Self::Persist => "the change could not be saved to disk",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed { .. } => f.write_str("the change is made and holds"),
            Self::Refused { reason } => write!(f, "nothing was changed: {reason}"),
            Self::RolledBack { cause, message, recovery, .. } => {
                write!(f, "{cause}: {message}; ")?;
                match recovery {
                    Recovery::Works => f.write_str("the node has its former network again"),
                    Recovery::Differs { message, .. } => {
                        write!(f, "the former network is back, but {message}")
                    }
                    Recovery::Pending { message } => {
                        write!(f, "the former network is not restored yet ({message})")
                    }
                }
            }
        }
    }
}
