//! What all requests share.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use oci::Digest;
use tokio_util::sync::CancellationToken;
use workspace::RunStatus;

use crate::access::Access;
use crate::action::RegistryFlags;
use crate::catalogs::{Catalogs, Lookups};
use crate::commands::Commands;
use crate::jobs::Jobs;
use crate::sizes::Sizes;
use crate::view::images::{self, ImageIndex};
use crate::view::users::{self, Users};
use crate::view::workspace_directory::WorkspaceDirectory;
use crate::view::{Fault, runs};

/// How old the list of images may be while a run adds some.
const MAX_AGE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct App {
    pub(crate) place: WorkspaceDirectory,
    pub(crate) access: Access,
    pub(crate) jobs: Jobs,
    pub(crate) commands: Commands,
    pub(crate) catalogs: Arc<Catalogs>,
    pub(crate) sizes: Arc<Sizes>,
    pub(crate) registries: RegistryFlags,
    /// Cancelled when the console ends: streams of events end with it.
    pub(crate) stop: CancellationToken,
    images: Mutex<Option<CachedImages>>,
    /// The users of images, by the plans they were read from.
    users: Mutex<(Vec<Digest>, Arc<Users>)>,
}

#[derive(Debug)]
struct CachedImages {
    index: Arc<ImageIndex>,
    /// The newest run and how it ended: images change with runs only.
    of: Option<(u64, RunStatus)>,
    read: Instant,
}

impl App {
    pub(crate) fn new(
        place: WorkspaceDirectory,
        access: Access,
        program: &Path,
        registries: RegistryFlags,
        lookups: Arc<dyn Lookups>,
    ) -> Self {
        Self {
            jobs: Jobs::new(&place.workspace.working_dir(), program),
            commands: Commands::new(program),
            catalogs: Arc::new(Catalogs::new(lookups)),
            sizes: Arc::new(Sizes::new(program, &place.workspace, registries.source_arguments())),
            place,
            access,
            registries,
            stop: CancellationToken::new(),
            images: Mutex::new(None),
            users: Mutex::default(),
        }
    }

    /// What needs which image. Plans are large, and read again only where there is another one.
    pub(crate) fn users(&self) -> Result<Arc<Users>, Fault> {
        let plans = users::newest_plans(&self.place.workspace)?;
        let mut cached = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.0 != plans {
            let read = users::read(&self.place.workspace, &plans);
            *cached = (plans, Arc::new(read));
        }
        Ok(Arc::clone(&cached.1))
    }

    /// The images. Thousands of records are read, so the list is kept until a run changes it.
    pub(crate) fn images(&self) -> Result<Arc<ImageIndex>, Fault> {
        let workspace = &self.place.workspace;
        let of = runs::list(workspace)?.first().map(|run| (run.number, run.status));
        let mut cached = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*cached {
            let is_running = matches!(of, Some((_, RunStatus::Running)));
            let is_recent = known.read.elapsed() < MAX_AGE;
            // Without runs there is nothing that tells of a change: archives are being copied here.
            if known.of == of && (is_recent || (of.is_some() && !is_running)) {
                return Ok(Arc::clone(&known.index));
            }
        }
        let index = Arc::new(images::read(workspace)?);
        *cached = Some(CachedImages { index: Arc::clone(&index), of, read: Instant::now() });
        Ok(index)
    }
}
