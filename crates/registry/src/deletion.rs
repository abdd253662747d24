//! Deletes manifests and tags.

use http::{Method, StatusCode};
use oci::{ImageRef, Pointer};

use crate::client::Client;
use crate::error::Error;
use crate::error_body::ErrorBody;
use crate::location::Location;
use crate::session::Call;
use crate::token::Scope;

/// How a registry responded to a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deletion {
    /// It is deleted.
    Done { status: u16 },
    /// It did not exist, or no longer.
    Absent,
    /// The registry does not delete this: deletion is disabled, or it deletes manifests by digest
    /// only and was given a tag.
    Unsupported { status: u16, error_body: ErrorBody },
}

impl Client {
    /// Deletes the manifest that `image` names by digest, with all its tags, or the tag that it
    /// names, without the manifest. An image with both is deleted by digest.
    ///
    /// A registry must not be trusted to delete only a tag: see
    /// <https://github.com/opencontainers/distribution-spec>, which lets it choose.
    pub async fn delete(&self, image: &ImageRef) -> Result<Deletion, Error> {
        let pointer =
            image.pointer().ok_or_else(|| Error::NoPointer { image: Box::new(image.clone()) })?;
        let session = self.session();
        let spot = session.target(&Location::from(image))?;
        let repository = &spot.at.repository;
        let path = format!("{repository}/manifests/{pointer}");
        let call = Call::new(Method::DELETE, path, Scope::delete(repository));
        let counters = &session.transport.counters;
        session
            .retry
            .run(counters, || async {
                let response = session.send_small(&spot, &call).await?;
                let status = response.status();
                if status.is_success() {
                    return Ok(Deletion::Done { status: status.as_u16() });
                }
                let refusal = response.refusal().await;
                let by_tag = matches!(pointer, Pointer::Tag(_));
                match status {
                    StatusCode::NOT_FOUND => Ok(Deletion::Absent),
                    StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                        Ok(Deletion::Unsupported {
                            status: status.as_u16(),
                            error_body: refusal.error_body,
                        })
                    }
                    // docker-registry 2.8 takes the tag for a digest that is malformed.
                    StatusCode::BAD_REQUEST if by_tag => Ok(Deletion::Unsupported {
                        status: status.as_u16(),
                        error_body: refusal.error_body,
                    }),
                    _ => Err(refusal.into()),
                }
            })
            .await
    }
}
