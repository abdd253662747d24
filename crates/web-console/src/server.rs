//! The console on a listener.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use hyper_util::service::TowerToHyperService;
use serve::{Listener, Options, Tls};

use crate::access::Access;
use crate::action::RegistryFlags;
use crate::app::App;
use crate::catalogs::Lookups;
use crate::routes::router;
use crate::token::Token;
use crate::view::workspace_directory::WorkspaceDirectory;

/// Connections at once: a browser opens six.
const MAX_CONNECTIONS: usize = 64;

/// What a console is started with.
#[derive(Debug)]
pub struct Settings {
    pub place: WorkspaceDirectory,
    pub address: SocketAddr,
    /// Names under which browsers reach this machine, beside its address.
    pub hostnames: Vec<String>,
    pub tls: Option<Tls>,
    pub token: Token,
    /// This program, which runs are started with.
    pub program: PathBuf,
    pub registries: RegistryFlags,
    pub lookups: Arc<dyn Lookups>,
}

/// Why a console cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "listening on {0}: the port is in use by another process; choose another with --listen, or 127.0.0.1:0 for a free one"
    )]
    PortInUse(SocketAddr),
    #[error(transparent)]
    Listen(serve::BindError),
    #[error(
        "--listen {0} can be reached from other machines: expected --tls-cert, --tls-key and --token-file with it; or listen on 127.0.0.1"
    )]
    Unprotected(SocketAddr),
    #[error(
        "--listen {0} is every address of this machine: expected --hostname NAME, the name that browsers open"
    )]
    Nameless(SocketAddr),
}

/// A console that listens and does not respond yet; [`run`](Self::run) does.
#[derive(Debug)]
pub struct Console {
    listener: Listener,
    app: Arc<App>,
    url: String,
}

impl Settings {
    /// Whether other machines can reach the console.
    pub fn is_remote(&self) -> bool {
        !self.address.ip().is_loopback()
    }
}

impl Console {
    /// Binds the address. Port 0 selects a free one. `has_token_file` states that the token was
    /// chosen by the user, which is required for other addresses than loopback.
    pub async fn bind(settings: Settings, has_token_file: bool) -> Result<Self, StartError> {
        let is_remote = settings.is_remote();
        let Settings { place, address, hostnames, tls, token, program, registries, lookups } =
            settings;
        if is_remote && (tls.is_none() || !has_token_file) {
            return Err(StartError::Unprotected(address));
        }
        if address.ip().is_unspecified() && hostnames.is_empty() {
            return Err(StartError::Nameless(address));
        }
        let scheme = if tls.is_some() { "https" } else { "http" };
        let is_tls = tls.is_some();
        let options = Options { tls, max_connections: MAX_CONNECTIONS, ..Options::default() };
        let listener =
            Listener::bind(address, options).await.map_err(|error| match error.source.kind() {
                io::ErrorKind::AddrInUse => StartError::PortInUse(address),
                _ => StartError::Listen(error),
            })?;
        let address = listener.local_addr();
        let name = match hostnames.first() {
            Some(name) => format!("{name}:{}", address.port()),
            None => address.to_string(),
        };
        let url = format!("{scheme}://{name}/?token={}", token.as_str());
        let access = Access::new(token, address, &hostnames, is_tls);
        let app = Arc::new(App::new(place, access, &program, registries, lookups));
        Ok(Self { listener, app, url })
    }

    /// The address to open, with the token.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves until `shutdown` completes. Runs that were started continue.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, app, .. } = self;
        let router = router(Arc::clone(&app));
        let stop = app.stop.clone();
        let shutdown = async move {
            shutdown.await;
            stop.cancel();
        };
        let service = |_| TowerToHyperService::new(router.clone().into_service());
        listener.run(service, shutdown).await;
    }
}
