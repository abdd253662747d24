//! The client: what the rest of the program sees of registries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use oci::{Descriptor, Digest};

use crate::authfile::AuthFileError;
use crate::credentials::Credentials;
use crate::proxies::ProxyError;
use crate::registries_conf::{ConfError, RegistriesConf};
use crate::session::Session;
use crate::settings::Settings;
use crate::traffic::Traffic;
use crate::transport::Transport;

/// Speaks to registries on behalf of one side of a copy. Cheap to clone; all
/// clones share connections, tokens, limits and counters.
#[derive(Debug, Clone)]
pub struct Client(Arc<Session>);

/// A blob as its manifest describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blob {
    pub digest: Digest,
    pub size: u64,
}

/// A setting that cannot be honoured.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error(transparent)]
    Credentials(#[from] AuthFileError),
    #[error(transparent)]
    RegistriesConf(#[from] ConfError),
}

impl Client {
    /// Reads the files that the settings name. Sends no request.
    pub fn open(settings: Settings) -> Result<Self, SettingsError> {
        let transport = Transport::new(&settings)?;
        let Settings {
            side, tls_verify, per_host, retry, credentials, environment, uploads, ..
        } = settings;
        let conf = RegistriesConf::open(&environment)?;
        let helpers = conf.credential_helpers.as_ref();
        let credentials = Credentials::open(credentials, &environment, helpers)?;
        Ok(Self(Arc::new(Session {
            side,
            tls_verify,
            per_host: per_host.get(),
            retry,
            uploads,
            conf,
            transport,
            credentials,
            hosts: Mutex::new(HashMap::new()),
        })))
    }

    /// What passed so far.
    pub fn traffic(&self) -> Traffic {
        self.0.transport.counters.read()
    }

    pub(crate) fn session(&self) -> &Session {
        &self.0
    }
}

impl From<&Descriptor> for Blob {
    fn from(descriptor: &Descriptor) -> Self {
        Self { digest: descriptor.digest, size: descriptor.size }
    }
}
