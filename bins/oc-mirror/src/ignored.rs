//! Flags of oc-mirror v2 that have another meaning here, or none. They are accepted by every
//! command, so that existing scripts keep working.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Args;
use mirror::CacheChoice;

/// Why a command other than mirroring does not use a cache.
const NO_CACHE: &str = "only mirroring and `migrate` read a cache of oc-mirror v2";
const NO_REGISTRY: &str =
    "no registry is started during a run, so no port is needed; `oc-mirror serve` has --listen";

/// The flags, accepted by every command as in oc-mirror v2.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Ignored {
    /// Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) cache_dir: Option<String>,
    #[arg(short, long, global = true, hide = true)]
    pub(crate) port: Option<u16>,
}

impl Ignored {
    /// One warning per flag that was given and has no effect.
    pub(crate) fn warnings(&self, reads_cache: bool) -> Vec<String> {
        let cache_dir = self.named_cache().filter(|_| !reads_cache);
        [
            cache_dir.map(|_| format!("--cache-dir has no effect: {NO_CACHE}")),
            self.port.map(|_| format!("--port has no effect: {NO_REGISTRY}")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// An empty value is the same as none, as in oc-mirror v2.
    fn named_cache(&self) -> Option<&str> {
        self.cache_dir.as_deref().filter(|directory| !directory.is_empty())
    }

    /// The cache to read: the one that was named, or the one in the place where oc-mirror v2 has it.
    pub(crate) fn cache(
        &self,
        variable: Option<&OsStr>,
        home: Option<&Path>,
    ) -> Option<CacheChoice> {
        let variable = variable.filter(|value| !value.is_empty()).map(PathBuf::from);
        match self.named_cache().map(PathBuf::from).or(variable) {
            Some(directory) => Some(CacheChoice { directory, is_named: true }),
            None => home.map(|home| CacheChoice { directory: home.to_owned(), is_named: false }),
        }
    }
}
