//! Opens layers of a payload, the topmost first, until all that is looked for
//! is found. The manifests of a release are in the last layer, so the large
//! ones below are fetched when the images are, and not before.

use oci::{ImageRef, Platform};
use release::payload::{LayerError, PayloadFiles, Wanted};

use crate::error_chain::chain;
use crate::gather::{Collector, blob_of};

/// Reads the files of a payload at its registry.
pub(crate) async fn read(
    collector: &Collector,
    payload: &ImageRef,
    platforms: &[Platform],
    wanted: Wanted,
) -> Result<PayloadFiles, String> {
    let instance = collector.instance(payload, platforms).await.map_err(|e| chain(&e))?;
    let mut files = PayloadFiles::new(wanted);
    for layer in instance.layers.iter().rev() {
        if files.is_settled() {
            break;
        }
        let blob = blob_of(layer);
        let file = collector.blob_file(payload, blob).await.map_err(|e| chain(&e))?;
        let read = move || -> Result<PayloadFiles, LayerError> {
            files.read_layer(file)?;
            Ok(files)
        };
        // Unpacking keeps a core busy.
        files = match tokio::task::spawn_blocking(read).await {
            Ok(read) => read.map_err(|e| format!("reading {payload}: {}", chain(&e)))?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
    }
    Ok(files)
}
