//! The variables that define where releases are requested and whose signatures
//! count. One that cannot be honoured is an error.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mirror::{ReleaseSources, SignatureCheck};
use registry::Url;
use release::keyring::Keyring;

use crate::problem::{Problem, chain};

pub(crate) const UPDATE_SERVICE: &str = "UPDATE_URL_OVERRIDE";
pub(crate) const SIGNATURES: &str = "OCP_SIGNATURE_URL";
pub(crate) const KEYS: &str = "OCP_SIGNATURE_VERIFICATION_PK";
pub(crate) const VERSION_FILTER: &str = "VERSION_FILTER";

/// Where Red Hat keeps the signatures of its releases.
const RED_HAT_SIGNATURES: &str =
    "https://mirror.openshift.com/pub/openshift-v4/signatures/openshift/release/";
/// No file of keys is larger by intent.
const MAX_KEYS: u64 = 4 << 20;

/// The variables as the process has them.
#[derive(Debug, Clone, Default)]
pub struct ReleaseVariables {
    pub update_service: Option<OsString>,
    pub signatures: Option<OsString>,
    pub keys: Option<OsString>,
    pub version_filter: Option<OsString>,
}

impl ReleaseVariables {
    pub(crate) fn of_process() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            update_service: set(UPDATE_SERVICE),
            signatures: set(SIGNATURES),
            keys: set(KEYS),
            version_filter: set(VERSION_FILTER),
        }
    }

    /// Their values, with the keys they name read; or all that is wrong with them.
    pub(crate) fn sources(&self, check: SignatureCheck) -> Result<ReleaseSources, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut keep = |result: Result<Option<Url>, Problem>| match result {
            Ok(url) => url,
            Err(problem) => {
                problems.push(problem);
                None
            }
        };
        let update_service = keep(address(UPDATE_SERVICE, self.update_service.as_deref()));
        let own = keep(address(SIGNATURES, self.signatures.as_deref()));
        let signatures = own.map_or_else(red_hat_signatures, as_directory);
        let keys = match &self.keys {
            None => Keyring::red_hat().map_err(|error| {
                Problem::new(format!("the keys that are built in: {}", chain(&error)))
            }),
            Some(path) => read_keys(&PathBuf::from(path)),
        };
        let keys = keys.map_err(|problem| problems.push(problem)).ok();
        if self.version_filter.is_some() {
            problems.push(
                Problem::new(format!(
                    "the variable {VERSION_FILTER} is not supported: versions are chosen in the configuration"
                ))
                .with_hint(format!("unset {VERSION_FILTER}, and set minVersion and maxVersion of the channel")),
            );
        }
        match keys {
            Some(keys) if problems.is_empty() => {
                Ok(ReleaseSources { update_service, signatures, keys: Arc::new(keys), check })
            }
            _ => Err(problems),
        }
    }
}

fn address(variable: &str, value: Option<&OsStr>) -> Result<Option<Url>, Problem> {
    let Some(value) = value else { return Ok(None) };
    // The value is not repeated: it may hold a password.
    let bad = |why: &str| {
        Problem::new(format!("the variable {variable} is not the address of a web server: {why}"))
            .with_hint("expected https://HOST/PATH")
    };
    let text = value.to_str().ok_or_else(|| bad("it is not text"))?;
    let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(bad("its scheme may be http or https"));
    }
    Ok(Some(url))
}

/// Names are joined to a directory, and only what ends in a slash is one.
fn as_directory(mut url: Url) -> Url {
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    url
}

fn red_hat_signatures() -> Url {
    Url::parse(RED_HAT_SIGNATURES).expect("the constant is a valid address")
}

fn read_keys(path: &Path) -> Result<Keyring, Problem> {
    let fail =
        |why: String| Problem::new(format!("the keys {} (from {KEYS}): {why}", path.display()));
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_KEYS + 1).read_to_end(&mut bytes));
    read.map_err(|error| fail(error.to_string()))?;
    if bytes.len() as u64 > MAX_KEYS {
        return Err(fail(format!("the file is larger than {MAX_KEYS} bytes")));
    }
    let mut keys = Keyring::empty();
    keys.add(&bytes).map_err(|error| fail(chain(&error)))?;
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_directory_with_or_without_its_slash() {
        for text in ["https://s.lan/a/b", "https://s.lan/a/b/"] {
            let url = address(SIGNATURES, Some(text.as_ref())).unwrap().map(as_directory).unwrap();
            assert_eq!(url.as_str(), "https://s.lan/a/b/");
        }
    }

    #[test]
    fn what_is_not_an_address_is_refused_without_repeating_it() {
        for text in ["", "x", "ftp://a/b", "https://", "file:///secret"] {
            let problem = address(UPDATE_SERVICE, Some(text.as_ref())).unwrap_err();
            assert!(problem.message.contains(UPDATE_SERVICE), "{problem}");
            assert!(!problem.message.contains("secret"), "{problem}");
        }
    }
}
