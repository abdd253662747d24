//! Flags and variables of oc-mirror v2 that have no effect here. They are
//! accepted with a warning, so that existing scripts keep working.

use std::ffi::OsStr;

use clap::Args;

/// Why there is nothing that a cache directory could hold.
const NO_CACHE: &str =
    "no cache is needed, because the workspace itself stores each blob exactly once";
const NO_REGISTRY: &str =
    "no registry is started during a run, so no port is needed; `oc-mirror serve` has --listen";

/// The flags, accepted by every command as in oc-mirror v2.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Ignored {
    #[arg(long, global = true, hide = true)]
    pub(crate) cache_dir: Option<String>,
    #[arg(short, long, global = true, hide = true)]
    pub(crate) port: Option<u16>,
}

impl Ignored {
    /// One warning per flag that was given, and one for `OC_MIRROR_CACHE`.
    /// An empty value is the same as none, as in oc-mirror v2.
    pub(crate) fn warnings(&self, cache_variable: Option<&OsStr>) -> Vec<String> {
        let cache_dir = self.cache_dir.as_ref().filter(|directory| !directory.is_empty());
        let variable = cache_variable.filter(|value| !value.is_empty());
        [
            cache_dir.map(|_| format!("--cache-dir has no effect: {NO_CACHE}")),
            self.port.map(|_| format!("--port has no effect: {NO_REGISTRY}")),
            variable.map(|_| format!("the variable OC_MIRROR_CACHE has no effect: {NO_CACHE}")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
