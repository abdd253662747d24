//! Opens layers of a payload, the topmost first, until all that is looked for
//! is found. The manifests of a release are in the last layer, so the large
//! ones below are fetched when the images are, and not before.

use oci::{ImageRef, Platform};
use release::payload::{LayerError, PayloadFiles, Wanted};

use crate::fault::{EngineError, Fault};
use crate::gather::{CollectError, Collector, blob_of};

/// Why a payload cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PayloadError {
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error("reading {payload}")]
    Layer { payload: Box<ImageRef>, source: LayerError },
}

impl EngineError for PayloadError {
    fn fault(&self) -> Fault {
        match self {
            Self::Collect(error) => error.fault(),
            Self::Layer { .. } => Fault::Content,
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Collect(error) => error.request(),
            Self::Layer { .. } => None,
        }
    }
}

/// Reads the files of a payload at its registry.
pub(crate) async fn read(
    collector: &Collector,
    payload: &ImageRef,
    platforms: &[Platform],
    wanted: Wanted,
) -> Result<PayloadFiles, PayloadError> {
    let instance = collector.instance(payload, platforms).await?;
    let mut files = PayloadFiles::new(wanted);
    for layer in instance.layers.iter().rev() {
        if files.is_settled() {
            break;
        }
        let blob = blob_of(layer);
        let file = collector.blob_file(payload, blob).await?;
        let read = move || -> Result<PayloadFiles, LayerError> {
            files.read_layer(file)?;
            Ok(files)
        };
        // Unpacking keeps a core busy.
        files = match tokio::task::spawn_blocking(read).await {
            Ok(read) => read.map_err(|source| {
                let payload = Box::new(payload.clone());
                PayloadError::Layer { payload, source }
            })?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
    }
    Ok(files)
}
