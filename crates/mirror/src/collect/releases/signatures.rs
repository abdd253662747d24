//! Signatures of releases: found, verified, and kept.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use oci::{Digest, ImageRef};
use registry::{Access, Client, DocumentRequest};
use release::signature::{MAX_SIGNATURE_BYTES, Refused, SignatureError, Verified, verify};
use workspace::{DocumentError, Holdings};

use crate::fault::{EngineError, Fault};
use crate::settings::ReleaseSources;

/// Signatures of one release that are read. Stores have one or two.
const MAX_SIGNATURES: usize = 10;
/// Below `working-dir`.
const FOLDER: &str = "signatures";

/// A release that is signed with a trusted key.
#[derive(Debug, Clone)]
pub(crate) struct Signed {
    /// What its signer calls it.
    pub(crate) reference: ImageRef,
    pub(crate) key: String,
    /// All that were found good.
    pub(crate) signatures: Vec<Vec<u8>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SignatureFault {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("requesting signature-{number} of {digest}")]
    Request { number: usize, digest: Digest, source: Box<registry::Error> },
    #[error(
        "there is no signature-1 of {digest} in {store}: the release is not signed, or its signatures are elsewhere (set OCP_SIGNATURE_URL)"
    )]
    Missing { digest: Digest, store: String },
    #[error("no signature of {0} is here: mirror this release on the connected side")]
    NotCarried(Digest),
    #[error("reading a signature of the archive")]
    Document(#[from] DocumentError),
}

impl EngineError for SignatureFault {
    fn fault(&self) -> Fault {
        match self {
            Self::Refused(_) | Self::Missing { .. } => Fault::Policy,
            Self::Request { source, .. } => Fault::of_source(source),
            Self::NotCarried(_) => Fault::NotHeld,
            Self::Document(error) => Fault::of_document(error),
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Request { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// What was found good so far, and what was not.
#[derive(Debug, Default)]
struct Judged {
    good: Vec<Vec<u8>>,
    first: Option<Verified>,
    reasons: Vec<SignatureError>,
}

impl Judged {
    fn add(&mut self, signature: Vec<u8>, digest: &Digest, sources: &ReleaseSources) {
        match verify(&signature, digest, &sources.keys, Timestamp::now()) {
            Ok(verified) => {
                self.first.get_or_insert(verified);
                self.good.push(signature);
            }
            Err(reason) => self.reasons.push(reason),
        }
    }

    fn signed(self) -> Result<Signed, Vec<SignatureError>> {
        match self.first {
            Some(Verified { reference, key, .. }) => {
                Ok(Signed { reference, key, signatures: self.good })
            }
            None => Err(self.reasons),
        }
    }
}

/// Verifies with files that a user put into `working-dir/signatures`, under the names that
/// oc-mirror v2 reads them by. `None` where none is valid.
pub(crate) fn of_user(
    working_dir: &Path,
    sources: &ReleaseSources,
    digest: &Digest,
) -> Option<Signed> {
    let mark = format!("-sha256-{}", digest.hex());
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().contains(&mark))
    };
    let entries = fs::read_dir(working_dir.join(FOLDER)).ok()?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(named).collect();
    files.sort();
    let mut judged = Judged::default();
    for path in files.iter().take(MAX_SIGNATURES) {
        let mut signature = Vec::new();
        let limit = MAX_SIGNATURE_BYTES as u64 + 1;
        let read =
            fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut signature));
        if read.is_ok() {
            judged.add(signature, digest, sources);
        }
    }
    judged.signed().ok()
}

/// Verifies with what the workspace has, else with what the store gives.
pub(crate) async fn verify_release(
    client: &Client,
    held: &Holdings,
    sources: &ReleaseSources,
    digest: &Digest,
) -> Result<Signed, SignatureFault> {
    // What cannot be read here is requested again.
    if let Ok(signed) = read(held, sources, digest) {
        return Ok(signed);
    }
    let mut judged = Judged::default();
    for number in 1..=MAX_SIGNATURES {
        match fetch(client, sources, digest, number).await {
            Ok(Some(signature)) => judged.add(signature, digest, sources),
            Ok(None) if number == 1 => {
                let store = sources.signatures.host_str().unwrap_or_default().to_owned();
                return Err(SignatureFault::Missing { digest: *digest, store });
            }
            Ok(None) => break,
            // One good signature is enough; whether there are more matters little.
            Err(_) if judged.first.is_some() => break,
            Err(source) => {
                let source = Box::new(source);
                return Err(SignatureFault::Request { number, digest: *digest, source });
            }
        }
    }
    judged.signed().map_err(|reasons| Refused { digest: *digest, reasons }.into())
}

async fn fetch(
    client: &Client,
    sources: &ReleaseSources,
    digest: &Digest,
    number: usize,
) -> Result<Option<Vec<u8>>, registry::Error> {
    let mut url = sources.signatures.clone();
    let path = format!("{}sha256={}/signature-{number}", url.path(), digest.hex());
    url.set_path(&path);
    let limit = MAX_SIGNATURE_BYTES as u64;
    client
        .document(DocumentRequest { url: &url, accept: "*/*", limit, access: Access::Public })
        .await
}

/// Verifies with signatures of archives and workspaces.
pub(crate) fn read(
    holdings: &Holdings,
    sources: &ReleaseSources,
    digest: &Digest,
) -> Result<Signed, SignatureFault> {
    let mark = format!("-sha256-{}", digest.hex());
    let mut judged = Judged::default();
    for name in &holdings.document_names()? {
        if name.starts_with(FOLDER)
            && name.contains(&mark)
            && let Some(signature) = holdings.document(name)?
        {
            judged.add(signature, digest, sources);
        }
    }
    match judged.signed() {
        Ok(signed) => Ok(signed),
        Err(reasons) if reasons.is_empty() => Err(SignatureFault::NotCarried(*digest)),
        Err(reasons) => Err(Refused { digest: *digest, reasons }.into()),
    }
}

/// The names under which signatures are kept, the first as users know it.
pub(crate) fn file_name(tag: &str, digest: &Digest, place: usize) -> String {
    let hex = digest.hex();
    match place {
        0 => format!("{FOLDER}/{tag}-sha256-{hex}"),
        place => format!("{FOLDER}/{tag}-sha256-{hex}-{}", place + 1),
    }
}
