//! policy.json as text. Read strictly: whatever is not understood would be a
//! check that is silently skipped.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use release::keyring::Keyring;

use crate::fulcio::Fulcio;
use crate::identity::{IdentityError, SignedIdentity};
use crate::key::{Key, KeyError};
use crate::requirement::{Requirement, Signed, Signers};
use crate::scope::{ScopeError, Transport};
use crate::signed_by::SignedBy;

/// Transports that policies may speak of and that are never mirrored from.
const OTHER_TRANSPORTS: [&str; 10] = [
    "atomic",
    "containers-storage",
    "dir",
    "docker-archive",
    "docker-daemon",
    "oci-archive",
    "ostree",
    "sif",
    "static",
    "tarball",
];

/// A text that is not a policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("it is not a policy as containers-policy.json(5) describes them")]
    Json(#[source] serde_json::Error),
    #[error("{place}")]
    In {
        place: String,
        #[source]
        source: Mistake,
    },
}

/// What is wrong with a part of a policy.
#[derive(Debug, thiserror::Error)]
pub enum Mistake {
    #[error("the list of requirements is empty; insecureAcceptAnything accepts everything")]
    Empty,
    #[error("no such transport is known; images in registries are under \"docker\"")]
    Transport,
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error(
        "sigstoreSigned takes exactly one of keyPath, keyPaths, keyData, keyDatas, fulcio and pki"
    )]
    KeySources,
    #[error(
        "sigstoreSigned takes at most one of rekorPublicKeyPath, rekorPublicKeyPaths, rekorPublicKeyData and rekorPublicKeyDatas"
    )]
    LogKeySources,
    #[error("signedBy takes exactly one of keyPath, keyPaths and keyData")]
    GpgKeySources,
    #[error("the keyType {0:?} is not known; expected GPGKeys")]
    KeyType(String),
    #[error("the GPG key {from}")]
    GpgKey { from: String, source: Box<release::keyring::KeyError> },
    #[error("fulcio takes exactly one of caPath and caData")]
    FulcioSources,
    #[error(
        "fulcio requires the key of a transparency log (rekorPublicKeyPath or rekorPublicKeyData)"
    )]
    FulcioWithoutLog,
    #[error("the authority of fulcio is not a certificate in PEM form (BEGIN CERTIFICATE)")]
    Authority,
    #[error("an empty list of keys")]
    NoKey,
    #[error("reading the key {}", path.display())]
    KeyFile { path: PathBuf, source: io::Error },
    #[error("the key data is not base64")]
    KeyData,
    #[error("the key {from}")]
    Key { from: String, source: KeyError },
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// The requirements of each scope of a transport.
pub(crate) type Scopes = BTreeMap<String, Vec<Requirement>>;

/// A policy, read and with its keys at hand.
pub(crate) struct Read {
    pub(crate) default: Vec<Requirement>,
    pub(crate) docker: Scopes,
    pub(crate) oci: Scopes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    default: Vec<Entry>,
    #[serde(default)]
    transports: Unique<Unique<Vec<Entry>>>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
enum Entry {
    InsecureAcceptAnything {},
    Reject {},
    SigstoreSigned(Box<SigstoreSigned>),
    SignedBy(Box<SignedByGpg>),
    // Its fields are not read: it rejects regardless of these, as containers/image does.
    SignedBaseLayer,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignedByGpg {
    key_type: String,
    key_path: Option<PathBuf>,
    key_paths: Option<Vec<PathBuf>>,
    key_data: Option<String>,
    #[serde(default)]
    signed_identity: SignedIdentity,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FulcioAuthority {
    #[serde(rename = "caPath")]
    ca_path: Option<PathBuf>,
    #[serde(rename = "caData")]
    ca_data: Option<String>,
    #[serde(rename = "oidcIssuer")]
    oidc_issuer: String,
    #[serde(rename = "subjectEmail")]
    subject_email: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SigstoreSigned {
    key_path: Option<PathBuf>,
    key_paths: Option<Vec<PathBuf>>,
    key_data: Option<String>,
    key_datas: Option<Vec<String>>,
    fulcio: Option<FulcioAuthority>,
    pki: Option<IgnoredAny>,
    rekor_public_key_path: Option<PathBuf>,
    rekor_public_key_paths: Option<Vec<PathBuf>>,
    rekor_public_key_data: Option<String>,
    rekor_public_key_datas: Option<Vec<String>>,
    #[serde(default)]
    signed_identity: SignedIdentity,
}

/// Reads a policy; `read_key` gets the content of a key file.
pub(crate) fn read(
    text: &str,
    read_key: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Read, PolicyError> {
    let document: Document = serde_json::from_str(text).map_err(PolicyError::Json)?;
    let requirements = |place: &dyn Fn() -> String, entries: Vec<Entry>| {
        let fail = |source| PolicyError::In { place: place(), source };
        if entries.is_empty() {
            return Err(fail(Mistake::Empty));
        }
        let read = entries.into_iter().map(|entry| entry.requirement(read_key));
        read.collect::<Result<Vec<_>, _>>().map_err(fail)
    };
    let default = requirements(&|| "default".into(), document.default)?;
    let (mut docker, mut oci) = (Scopes::new(), Scopes::new());
    for (transport, scopes) in document.transports.0 {
        let known = [Transport::Docker, Transport::Oci].into_iter().find(|t| t.name() == transport);
        if known.is_none() && !OTHER_TRANSPORTS.contains(&transport.as_str()) {
            let place = format!("the transport {transport:?}");
            return Err(PolicyError::In { place, source: Mistake::Transport });
        }
        for (scope, entries) in scopes.0 {
            let place = || format!("the scope {scope:?} of {transport}");
            // Scopes of other transports apply to no image here.
            let Some(known) = known else { continue };
            known
                .check(&scope)
                .map_err(|error| PolicyError::In { place: place(), source: error.into() })?;
            let read = requirements(&place, entries)?;
            match known {
                Transport::Docker => docker.insert(scope, read),
                Transport::Oci => oci.insert(scope, read),
            };
        }
    }
    Ok(Read { default, docker, oci })
}

impl Entry {
    fn requirement(
        self,
        read_key: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Requirement, Mistake> {
        match self {
            Self::InsecureAcceptAnything {} => Ok(Requirement::AcceptAnything),
            Self::Reject {} => Ok(Requirement::Reject),
            Self::SignedBy(signed) => signed.requirement(read_key),
            Self::SignedBaseLayer => Ok(Requirement::Unsupported("signedBaseLayer".into())),
            Self::SigstoreSigned(signed) => signed.requirement(read_key),
        }
    }
}

impl SigstoreSigned {
    fn requirement(
        self,
        read_key: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Requirement, Mistake> {
        let sources = [
            self.key_path.is_some(),
            self.key_paths.is_some(),
            self.key_data.is_some(),
            self.key_datas.is_some(),
            self.fulcio.is_some(),
            self.pki.is_some(),
        ];
        if sources.into_iter().filter(|given| *given).count() != 1 {
            return Err(Mistake::KeySources);
        }
        self.signed_identity.check()?;
        let log_sources = [
            self.rekor_public_key_path.is_some(),
            self.rekor_public_key_paths.is_some(),
            self.rekor_public_key_data.is_some(),
            self.rekor_public_key_datas.is_some(),
        ];
        let needs_log = log_sources.contains(&true);
        if log_sources.into_iter().filter(|given| *given).count() > 1 {
            return Err(Mistake::LogKeySources);
        }
        if self.pki.is_some() {
            let what = "sigstoreSigned with certificates (pki)";
            return Ok(Requirement::Unsupported(what.into()));
        }
        let signers = match self.fulcio {
            // Its certificates are valid for minutes; without a log, the time is unknown.
            Some(_) if !needs_log => return Err(Mistake::FulcioWithoutLog),
            Some(fulcio) => Signers::Certified(fulcio.read(read_key)?),
            None => {
                let paths = self.key_path.into_iter().chain(self.key_paths.into_iter().flatten());
                let data = self.key_data.into_iter().chain(self.key_datas.into_iter().flatten());
                match read_keys(paths, data, "keyData", read_key)? {
                    Keys::Usable(keys) => Signers::Keys(keys),
                    Keys::Unsupported(what) => return Ok(Requirement::Unsupported(what)),
                }
            }
        };
        let paths = self.rekor_public_key_path.into_iter();
        let paths = paths.chain(self.rekor_public_key_paths.into_iter().flatten());
        let data = self.rekor_public_key_data.into_iter();
        let data = data.chain(self.rekor_public_key_datas.into_iter().flatten());
        let log = match needs_log {
            true => read_keys(paths, data, "rekorPublicKeyData", read_key)?,
            false => Keys::Usable(Vec::new()),
        };
        Ok(match log {
            Keys::Usable(log) => {
                Requirement::Signed(Signed { signers, log, identity: self.signed_identity })
            }
            Keys::Unsupported(what) => Requirement::Unsupported(what),
        })
    }
}

impl FulcioAuthority {
    fn read(self, read_key: &dyn Fn(&Path) -> io::Result<Vec<u8>>) -> Result<Fulcio, Mistake> {
        let pem = match (self.ca_path, self.ca_data) {
            (Some(path), None) => {
                read_key(&path).map_err(|source| Mistake::KeyFile { path, source })?
            }
            (None, Some(data)) => BASE64.decode(data).map_err(|_| Mistake::KeyData)?,
            _ => return Err(Mistake::FulcioSources),
        };
        let fulcio = Fulcio::new(&pem, self.oidc_issuer, self.subject_email);
        fulcio.ok_or(Mistake::Authority)
    }
}

impl SignedByGpg {
    fn requirement(
        self,
        read_key: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Requirement, Mistake> {
        self.signed_identity.check()?;
        if self.key_type != "GPGKeys" {
            // containers/image supports these names, and rejects every image under them.
            let known = ["signedByGPGKeys", "X509Certificates", "signedByX509CAs"];
            return match known.contains(&self.key_type.as_str()) {
                true => Ok(Requirement::Unsupported(format!("signedBy with {}", self.key_type))),
                false => Err(Mistake::KeyType(self.key_type)),
            };
        }
        let sources = [self.key_path.is_some(), self.key_paths.is_some(), self.key_data.is_some()];
        if sources.into_iter().filter(|given| *given).count() != 1 {
            return Err(Mistake::GpgKeySources);
        }
        let mut ring = Keyring::empty();
        let mut names = Vec::new();
        let mut add = |from: String, bytes: &[u8]| {
            let added = ring.add(bytes);
            names.push(from.clone());
            added.map(|_| ()).map_err(|source| Mistake::GpgKey { from, source: Box::new(source) })
        };
        let paths = self.key_path.into_iter().chain(self.key_paths.into_iter().flatten());
        for path in paths {
            let bytes = read_key(&path);
            let bytes = bytes.map_err(|source| Mistake::KeyFile { path: path.clone(), source })?;
            add(path.display().to_string(), &bytes)?;
        }
        if let Some(data) = self.key_data {
            let bytes = BASE64.decode(data).map_err(|_| Mistake::KeyData)?;
            add("the keyData of the policy".to_owned(), &bytes)?;
        }
        if names.is_empty() {
            return Err(Mistake::NoKey);
        }
        let (from, identity) = (names.join(" or "), self.signed_identity);
        Ok(Requirement::SignedBy(SignedBy { ring, from, identity }))
    }
}

/// The keys that one part of a policy names.
enum Keys {
    Usable(Vec<Key>),
    /// One of them is of a kind that is not supported. The rest of the policy can still be honoured.
    Unsupported(String),
}

fn read_keys(
    paths: impl Iterator<Item = PathBuf>,
    data: impl Iterator<Item = String>,
    field: &str,
    read_key: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Keys, Mistake> {
    let mut texts: Vec<(String, Vec<u8>)> = Vec::new();
    for path in paths {
        let pem = read_key(&path);
        let pem = pem.map_err(|source| Mistake::KeyFile { path: path.clone(), source })?;
        texts.push((path.display().to_string(), pem));
    }
    for data in data {
        let pem = BASE64.decode(data).map_err(|_| Mistake::KeyData)?;
        texts.push((format!("the {field} of the policy"), pem));
    }
    if texts.is_empty() {
        return Err(Mistake::NoKey);
    }
    let mut keys = Vec::with_capacity(texts.len());
    for (from, pem) in texts {
        match Key::parse(from.clone(), &pem) {
            Ok(key) => keys.push(key),
            Err(error @ KeyError::Kind) => {
                return Ok(Keys::Unsupported(format!("the key {from} ({error})")));
            }
            Err(source) => return Err(Mistake::Key { from, source }),
        }
    }
    Ok(Keys::Usable(keys))
}

/// A map in which a key occurs once. Of two, only one would count.
struct Unique<V>(BTreeMap<String, V>);

impl<V> Default for Unique<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Unique<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
            type Value = Unique<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique<V>, A::Error> {
                let mut pairs = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    let value = map.next_value()?;
                    if pairs.contains_key(&key) {
                        return Err(A::Error::custom(format!("{key:?} occurs twice")));
                    }
                    pairs.insert(key, value);
                }
                Ok(Unique(pairs))
            }
        }
        deserializer.deserialize_map(Pairs(PhantomData))
    }
}

#[cfg(test)]
mod tests;
