//! Who asks for numbers, by the certificate that was shown.

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The account of the cluster's monitoring. Every OpenShift cluster gives it a certificate of this
/// name; so the API server need not be asked who may read, and numbers are there when it is not.
pub(super) const MONITORING: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";

/// The common name in a certificate; none where there are several, as it is anybody's guess which
/// of them counts.
pub(super) fn name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let (first, second) = (names.next()?, names.next());
    if second.is_some() {
        return None;
    }
    first.as_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use lab::certificates::Authority;
    use rustls_pki_types::pem::PemObject as _;

    use super::*;

    fn shown(pem: &str) -> Option<String> {
        name(&CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
    }

    #[test]
    fn a_reader_has_the_common_name_of_its_certificate() {
        let authority = Authority::generate().unwrap();
        let monitoring = authority.client(MONITORING).unwrap();
        assert_eq!(shown(&monitoring.certificate).as_deref(), Some(MONITORING));
        assert_eq!(name(&CertificateDer::from(vec![1, 2, 3])), None);
    }
}
