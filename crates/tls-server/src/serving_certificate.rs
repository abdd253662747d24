//! The serving certificate. A new one may replace it at any time; it is used from the next connection
//! on.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use error_causes::with_causes;
use rustls::crypto::aws_lc_rs;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Chains of certificates are a few kilobytes.
const LARGEST: u64 = 256 * 1024;

/// A certificate and its key, in files.
pub struct ServingCertificate {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<Option<Current>>,
}

struct Current {
    files: Files,
    key: Arc<CertifiedKey>,
    /// Why later files could not be used, as it was logged.
    logged: Option<String>,
}

/// The content of both files.
#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("reading {}: it has more than {LARGEST} bytes", path.display())]
    TooLarge { path: PathBuf },
    #[error("reading {} as PEM", path.display())]
    Pem { path: PathBuf, source: pem::Error },
    #[error("there is no certificate in {}", path.display())]
    Empty { path: PathBuf },
    #[error("certificate {} and key {} do not match", certificate.display(), key.display())]
    Pair { certificate: PathBuf, key: PathBuf, source: rustls::Error },
}

impl std::fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServingCertificate")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl ServingCertificate {
    pub fn new(certificate: &Path, key: &Path) -> Self {
        Self { certificate: certificate.into(), key: key.into(), current: Mutex::default() }
    }

    /// The certificate that is served now. Files that cannot be used, such as those of an unfinished
    /// change, do not replace it.
    ///
    /// # Errors
    ///
    /// If there never was a usable pair.
    pub fn current(&self) -> Result<Arc<CertifiedKey>, CertificateError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let read = self.read();
        if let (Ok(files), Some(current)) = (&read, current.as_mut())
            && *files == current.files
        {
            current.logged = None;
            return Ok(Arc::clone(&current.key));
        }
        match (read.and_then(|files| self.parse(files)), current.as_mut()) {
            (Ok(new), before) => {
                if before.is_some() {
                    tracing::info!("serving the new certificate {}", self.certificate.display());
                }
                let key = Arc::clone(&new.key);
                *current = Some(new);
                Ok(key)
            }
            (Err(error), Some(current)) => {
                let reason = with_causes(&error);
                if current.logged.as_ref() != Some(&reason) {
                    tracing::warn!("{reason}; still serving the previous certificate");
                    current.logged = Some(reason);
                }
                Ok(Arc::clone(&current.key))
            }
            (Err(error), None) => Err(error),
        }
    }

    fn read(&self) -> Result<Files, CertificateError> {
        Ok(Files { certificate: bytes(&self.certificate)?, key: bytes(&self.key)? })
    }

    fn parse(&self, files: Files) -> Result<Current, CertificateError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| CertificateError::Pem { path, source }
        };
        let chain = CertificateDer::pem_slice_iter(&files.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(unreadable(&self.certificate))?;
        if chain.is_empty() {
            return Err(CertificateError::Empty { path: self.certificate.clone() });
        }
        let key = PrivateKeyDer::from_pem_slice(&files.key).map_err(unreadable(&self.key))?;
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(
            |source| CertificateError::Pair {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
                source,
            },
        )?;
        Ok(Current { files, key: Arc::new(key), logged: None })
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |source| CertificateError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(CertificateError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use lab::certificates::Authority;

    use super::*;

    #[test]
    fn a_new_pair_is_served_at_once_and_a_half_changed_one_never() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::generate().unwrap();
        let (first, second) = (authority.server().unwrap(), authority.server().unwrap());
        let files = first.write(folder.path(), "tls").unwrap();
        let certificate = ServingCertificate::new(&files.certificate, &files.key);
        let served = || certificate.current().unwrap().cert[0].clone();
        let before = served();
        assert_eq!(before, CertificateDer::from_pem_slice(first.certificate.as_bytes()).unwrap());

        std::fs::write(&files.certificate, &second.certificate).unwrap();
        assert_eq!(served(), before, "the key is still the previous one");
        std::fs::write(&files.key, &second.key).unwrap();
        let after = CertificateDer::from_pem_slice(second.certificate.as_bytes()).unwrap();
        assert_eq!(served(), after);
        std::fs::remove_file(&files.certificate).unwrap();
        assert_eq!(served(), after);
    }

    #[test]
    fn an_error_in_the_first_certificate_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let identity = Authority::generate().unwrap().server().unwrap();
        let reported = || {
            let error = ServingCertificate::new(&certificate, &key).current().unwrap_err();
            with_causes(&error)
        };
        assert!(reported().contains("tls.crt: No such file"), "{}", reported());
        std::fs::write(&certificate, "").unwrap();
        std::fs::write(&key, &identity.key).unwrap();
        assert!(reported().contains("there is no certificate in"), "{}", reported());
        std::fs::write(&certificate, &identity.certificate).unwrap();
        std::fs::write(&key, Authority::generate().unwrap().server().unwrap().key).unwrap();
        assert!(reported().contains("do not match"), "{}", reported());
        assert!(!reported().contains("PRIVATE"), "{}", reported());
        std::fs::write(&key, vec![b'x'; LARGEST as usize + 1]).unwrap();
        assert!(reported().contains("it has more than 262144 bytes"), "{}", reported());
    }
}
