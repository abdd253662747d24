//! The name of a client, from its certificate.

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The common name in a certificate; none if there are several, because they are ambiguous.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
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

    const NAME: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";

    fn name_in(pem: &str) -> Option<String> {
        common_name(&CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
    }

    #[test]
    fn a_client_has_the_common_name_of_its_certificate() {
        let authority = Authority::generate().unwrap();
        let monitoring = authority.client(NAME).unwrap();
        assert_eq!(name_in(&monitoring.certificate).as_deref(), Some(NAME));
        assert_eq!(common_name(&CertificateDer::from(vec![1, 2, 3])), None);
    }
}
