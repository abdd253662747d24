//! `--sign-archive` and `--verify-archive`: reads the keys.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use trust::{SigningKey, SigningKeyError, VerifyingKey};

use crate::arguments::MirrorArguments;
use crate::problem::{Problem, chain};
use crate::request::ProcessEnvironment;

/// No key is larger by intent.
const MAX_BYTES: u64 = 1 << 20;

/// The keys of archives.
#[derive(Debug, Default)]
pub(crate) struct ArchiveKeys {
    pub(crate) signing: Option<Arc<SigningKey>>,
    pub(crate) verifying: Option<Arc<VerifyingKey>>,
}

/// Reads the keys that were named. One that cannot be used is an error before anything is fetched.
pub(crate) fn read(
    arguments: &MirrorArguments,
    process: &ProcessEnvironment,
) -> Result<ArchiveKeys, Problem> {
    let mut keys = ArchiveKeys::default();
    if let Some(path) = &arguments.sign_archive {
        let fail = |why: String| Problem::new(format!("--sign-archive {}: {why}", path.display()));
        let pem = text(path).map_err(|e| fail(e.to_string()))?;
        let password = process.cosign_password.as_ref();
        let password = password.map(|secret| secret.reveal()).unwrap_or_default();
        let key = SigningKey::parse(&pem, password).map_err(|error| {
            let problem = fail(chain(&error));
            match error {
                SigningKeyError::Password => problem.with_hint(
                    "set COSIGN_PASSWORD to the password that cosign generate-key-pair was given",
                ),
                _ => problem,
            }
        })?;
        keys.signing = Some(Arc::new(key));
    }
    if let Some(path) = &arguments.verify_archive {
        let name = path.display().to_string();
        let fail = |why: String| Problem::new(format!("--verify-archive {name}: {why}"));
        let pem = text(path).map_err(|e| fail(e.to_string()))?;
        let key = VerifyingKey::parse(name.clone(), pem.as_bytes()).map_err(|e| fail(chain(&e)))?;
        keys.verifying = Some(Arc::new(key));
    }
    Ok(keys)
}

fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
