//! What a shard reports to the run, one JSON document per line.

use mirror::ShardReport;
use oci::Digest;
use serde::{Deserialize, Serialize};

/// Lines on a shard's standard input.
pub(super) const PAUSE: &str = "pause";
pub(super) const RESUME: &str = "resume";

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase")]
pub(super) enum Line {
    Started {
        digest: Digest,
        size: u64,
    },
    Moved {
        bytes: u64,
    },
    Done {
        digest: Digest,
    },
    Failed {
        digest: Digest,
        error: String,
    },
    Warning {
        message: String,
    },
    /// The last line of a shard that cannot do its part; another attempt would end the same way.
    Rejected {
        message: String,
    },
    /// The last line of every other shard.
    Report(ShardReport),
}
