//! Which product a registry is, as far as its first response shows.

use std::fmt;

use http::header::{SERVER, WWW_AUTHENTICATE};
use oci::RegistryHost;

use crate::client::Client;
use crate::error::Error;
use crate::location::Location;
use crate::transport::Response;

/// A registry product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// docker-registry 2 and distribution 3, which respond alike.
    Distribution,
    /// Quay, and the mirror registry for OpenShift, which is a small Quay.
    Quay,
    Harbor,
    Nexus,
    Artifactory,
    /// The registry inside an OpenShift cluster.
    OpenShift,
    Unknown,
}

impl Client {
    /// Sends one request without credentials to find out what `registry` is.
    pub async fn product(&self, registry: &RegistryHost) -> Result<Product, Error> {
        // Only the host counts; a location has a repository.
        let repository = "product".parse().expect("a valid repository");
        let at = Location { registry: registry.clone(), repository };
        let session = self.session();
        let spot = session.target(&at)?;
        let response = session.greet(&spot).await?;
        Ok(product(&response))
    }
}

fn product(response: &Response) -> Product {
    let has = |name: &str| response.header(name).is_some();
    let server = response.header(SERVER.as_str()).unwrap_or_default().to_ascii_lowercase();
    let challenge: String = response
        .headers(WWW_AUTHENTICATE.as_str())
        .collect::<Vec<_>>()
        .join(" ")
        .to_ascii_lowercase();
    of_headers(&server, &challenge, has("x-jfrog-version") || has("x-artifactory-id")).unwrap_or(
        if has("docker-distribution-api-version") {
            Product::Distribution
        } else {
            Product::Unknown
        },
    )
}

/// `None`: nothing but the header that all of them send.
fn of_headers(server: &str, challenge: &str, artifactory: bool) -> Option<Product> {
    let products = [
        (artifactory, Product::Artifactory),
        (server.contains("nexus"), Product::Nexus),
        (challenge.contains("harbor-registry"), Product::Harbor),
        (challenge.contains("/openshift/token"), Product::OpenShift),
        // Nexus and Quay both have a path `/v2/`; only Quay issues tokens at `/v2/auth`.
        (challenge.contains("/v2/auth"), Product::Quay),
    ];
    products.into_iter().find(|(is, _)| *is).map(|(_, product)| product)
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Distribution => "distribution (docker-registry)",
            Self::Quay => "Quay or mirror-registry",
            Self::Harbor => "Harbor",
            Self::Nexus => "Nexus Repository",
            Self::Artifactory => "Artifactory",
            Self::OpenShift => "OpenShift's registry",
            Self::Unknown => "an unknown registry",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_known_by_its_headers() {
        for (server, challenge, expected) in [
            (
                "nginx/1.22.1",
                "bearer realm=\"https://quay.lan/v2/auth\",service=\"quay.lan\"",
                Some(Product::Quay),
            ),
            (
                "nginx",
                "bearer realm=\"https://h/service/token\",service=\"harbor-registry\"",
                Some(Product::Harbor),
            ),
            ("nexus/3.70.1-02 (oss)", "basic realm=\"sonatype nexus\"", Some(Product::Nexus)),
            ("", "bearer realm=\"https://r/openshift/token\"", Some(Product::OpenShift)),
            ("", "basic realm=\"lab\"", None),
        ] {
            assert_eq!(of_headers(server, challenge, false), expected, "{server} {challenge}");
        }
    }
}
