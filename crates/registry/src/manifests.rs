//! Manifests: requesting them and putting them.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use oci::{Digest, ImageRef, MAX_MANIFEST_BYTES, MediaType, Pointer, RawManifest, Repository};

use crate::client::Client;
use crate::error::Error;
use crate::location::Location;
use crate::registries_conf::RequestKind;
use crate::session::{Call, HostRepository};
use crate::token::Scope;
use crate::transport::{Refusal, Response};

/// What a registry reports about a manifest without sending it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub digest: Digest,
    pub media_type: Option<MediaType>,
    pub size: Option<u64>,
}

/// A manifest that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    pub digest: Digest,
    /// The registry took notice of the manifest's subject, so it lists it in
    /// its referrers API. Without this, the fallback tag must be kept up.
    pub subject: Option<Digest>,
}

impl Client {
    /// Requests whether an image exists, and as what. `None`: the registry responds that it
    /// does not. Costs no quota at registries that count pulls.
    pub async fn head(&self, image: &ImageRef) -> Result<Option<Found>, Error> {
        let (pointer, kind) = pointer(image)?;
        let at = Location::from(image);
        let found =
            self.session().everywhere(&at, kind, |spot| self.head_at(spot, &pointer)).await?;
        match found {
            None => Ok(None),
            Some(Some(found)) => Ok(Some(found)),
            // The registry responds to HEAD without a digest, or not at all.
            Some(None) => Ok(self.manifest(image).await?.map(|manifest| Found {
                digest: manifest.digest,
                size: Some(manifest.bytes.len() as u64),
                media_type: Some(manifest.media_type),
            })),
        }
    }

    /// `Some(None)`: it exists, but the registry did not send its digest.
    async fn head_at(
        &self,
        spot: HostRepository,
        pointer: &Pointer,
    ) -> Result<Option<Option<Found>>, Error> {
        let call = get(Method::HEAD, &spot.at.repository, pointer);
        let response = self.session().send_small(&spot, &call).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            StatusCode::METHOD_NOT_ALLOWED => return Ok(Some(None)),
            _ => return Err(response.refusal().await.into()),
        }
        let announced = announced_digest(&response);
        let digest = match (pointer, announced) {
            (Pointer::Digest(wanted), Some(got)) if *wanted != got => {
                return Err(Error::Digest {
                    request_line: response.request_line,
                    wanted: *wanted,
                    got,
                });
            }
            (Pointer::Digest(wanted), _) => *wanted,
            (Pointer::Tag(_), Some(announced)) => announced,
            (Pointer::Tag(_), None) => return Ok(Some(None)),
        };
        let media_type = response.header(CONTENT_TYPE.as_str()).map(MediaType::new);
        Ok(Some(Some(Found { digest, media_type, size: response.content_length() })))
    }

    /// A manifest, byte for byte. `None`: the registry responds that it does not exist.
    /// Its digest is the one requested, or the one the registry announced.
    pub async fn manifest(&self, image: &ImageRef) -> Result<Option<RawManifest>, Error> {
        let (pointer, kind) = pointer(image)?;
        let at = Location::from(image);
        self.session().everywhere(&at, kind, |spot| self.manifest_at(spot, &pointer)).await
    }

    /// [`Client::manifest`] for what belongs to an image and may well not be
    /// there, such as its signature. It is searched wherever the image may
    /// come from; where only a mirror can be reached, that one's word counts.
    pub async fn attachment(&self, image: &ImageRef) -> Result<Option<RawManifest>, Error> {
        let (pointer, _) = pointer(image)?;
        let at = Location::from(image);
        self.session().attached(&at, |spot| self.manifest_at(spot, &pointer)).await
    }

    async fn manifest_at(
        &self,
        spot: HostRepository,
        pointer: &Pointer,
    ) -> Result<Option<RawManifest>, Error> {
        let call = get(Method::GET, &spot.at.repository, pointer);
        let response = self.session().send_small(&spot, &call).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            _ => return Err(response.refusal().await.into()),
        }
        let announced = announced_digest(&response);
        let sent_as = response.header(CONTENT_TYPE.as_str()).map(str::to_owned);
        let counters = &self.session().transport.counters;
        let (request_line, bytes) = response.body(MAX_MANIFEST_BYTES, counters).await?;
        let wanted = match pointer {
            Pointer::Digest(wanted) => Some(*wanted),
            Pointer::Tag(_) => announced,
        };
        let got = Digest::of(&bytes);
        let damaged = wanted.filter(|wanted| *wanted != got);
        // Damaged bytes are requested again; a manifest that does not parse is not.
        match (RawManifest::new(sent_as.as_deref(), bytes), damaged) {
            (Err(_), _) if is_web_page(sent_as.as_deref()) => {
                let what = "a web page arrived instead of a manifest: a proxy or its log-in page responds in place of the registry".to_owned();
                Err(Error::Protocol { request_line, what })
            }
            (_, Some(wanted)) => Err(Error::Digest { request_line, wanted, got }),
            (Err(source), None) => Err(Error::Manifest { request_line, source }),
            (Ok(manifest), None) => Ok(Some(manifest)),
        }
    }

    /// Pushes a manifest under the tag or digest of `to`. All it points at must
    /// be there already; a registry that insists on it for lists responds with
    /// [`Error::SparseList`].
    pub async fn put_manifest(
        &self,
        to: &ImageRef,
        manifest: &RawManifest,
    ) -> Result<Pushed, Error> {
        let (pointer, _) = pointer(to)?;
        let session = self.session();
        let spot = session.target(&Location::from(to))?;
        let repository = &spot.at.repository;
        let path = format!("{repository}/manifests/{pointer}");
        let mut call = Call::new(Method::PUT, path, Scope::push(repository, None));
        let kind = HeaderValue::from_str(manifest.media_type.as_str())
            .unwrap_or(HeaderValue::from_static(MediaType::OCI_MANIFEST));
        call.headers.insert(CONTENT_TYPE, kind);
        call.body = Some(manifest.bytes.clone().into());
        let counters = &session.transport.counters;
        session
            .retry
            .run(counters, || async {
                counters.sent(manifest.bytes.len());
                let response = session.send_small(&spot, &call).await?;
                if !response.status().is_success() {
                    return Err(put_refused(manifest, response.refusal().await));
                }
                match announced_digest(&response) {
                    Some(got) if got != manifest.digest => Err(Error::Digest {
                        request_line: response.request_line,
                        wanted: manifest.digest,
                        got,
                    }),
                    _ => {
                        let subject = response.header("oci-subject");
                        let subject = subject.and_then(|subject| subject.parse().ok());
                        Ok(Pushed { digest: manifest.digest, subject })
                    }
                }
            })
            .await
    }
}

fn pointer(image: &ImageRef) -> Result<(Pointer, RequestKind), Error> {
    match image.pointer() {
        Some(pointer @ Pointer::Tag(_)) => Ok((pointer, RequestKind::Tag)),
        Some(pointer @ Pointer::Digest(_)) => Ok((pointer, RequestKind::Digest)),
        None => Err(Error::NoPointer { image: Box::new(image.clone()) }),
    }
}

/// HEAD or GET of a manifest, with all four kinds accepted: a registry that is
/// not offered the kind it holds may convert it, and give another digest.
fn get(method: Method, repository: &Repository, pointer: &Pointer) -> Call {
    let path = format!("{repository}/manifests/{pointer}");
    let mut call = Call::new(method, path, Scope::pull(repository));
    for kind in MediaType::ACCEPT {
        call.headers.append(ACCEPT, HeaderValue::from_static(kind));
    }
    call
}

fn is_web_page(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|kind| kind.trim_start().starts_with("text/html"))
}

fn announced_digest(response: &Response) -> Option<Digest> {
    response.header("docker-content-digest")?.parse().ok()
}

fn put_refused(manifest: &RawManifest, refusal: Refusal) -> Error {
    let codes = ["MANIFEST_BLOB_UNKNOWN", "MANIFEST_UNKNOWN", "BLOB_UNKNOWN"];
    let children_missing = codes.iter().any(|code| refusal.error_body.has_code(code));
    if manifest.media_type.is_index() && children_missing {
        let Refusal { request_line, status, error_body, .. } = refusal;
        return Error::SparseList { request_line, status, error_body };
    }
    refusal.into()
}
