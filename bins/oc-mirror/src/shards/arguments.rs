//! Flags about shards.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use oci::Digest;

const SPEED: &str = "Performance and retries";
/// Far above the processes that one machine runs well.
const MOST: u32 = 256;

#[derive(Debug, Clone, Args)]
pub(crate) struct ShardArguments {
    /// Transfer blobs with N processes of this program at the same time; --parallel-images and --parallel-layers apply to each, rates to all together [default: this process alone]
    #[arg(long, value_name = "N", value_parser = count, help_heading = SPEED)]
    pub(crate) shards: Option<NonZeroU32>,
    /// Work as a shard: the file with its part
    #[arg(long, value_name = "FILE", hide = true, requires_all = ["shard_digest", "shard_index"])]
    pub(crate) shard_part: Option<PathBuf>,
    /// Digest of that file
    #[arg(long, value_name = "DIGEST", hide = true, requires = "shard_part")]
    pub(crate) shard_digest: Option<Digest>,
    /// Number of the shard, from 0
    #[arg(long, value_name = "N", hide = true, requires = "shard_part")]
    pub(crate) shard_index: Option<u32>,
    /// An earlier process worked on the same part
    #[arg(long, hide = true, requires = "shard_part")]
    pub(crate) shard_repeated: bool,
}

fn count(text: &str) -> Result<NonZeroU32, String> {
    match text.parse::<NonZeroU32>() {
        Ok(count) if count.get() <= MOST => Ok(count),
        _ => Err(format!("expected a number from 1 to {MOST}")),
    }
}
