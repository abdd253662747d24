//! The files in which podman and docker keep logins: `auth.json`,
//! `config.json`, `.dockercfg`.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;

use crate::location::Location;

/// Encoders differ in whether they pad.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Debug, thiserror::Error)]
pub enum AuthFileError {
    #[error("reading the credentials file {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    // The source is a position at most: serde's own text could quote a secret.
    #[error("the credentials file {} is not valid JSON of that kind (line {line}, column {column})", path.display())]
    Parse { path: PathBuf, line: usize, column: usize },
    #[error("the credentials file {}: the entry {key:?} is not base64 of user:password", path.display())]
    Entry { path: PathBuf, key: String },
    #[error("the credentials file {}: {name:?} is not a name of a credential helper", path.display())]
    HelperName { path: PathBuf, name: String },
    #[error("the credential helper docker-credential-{name} (named in {}) {what}", path.display())]
    Helper { path: PathBuf, name: String, what: String },
}

/// The credentials for a registry, or to the token server it names.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    Password {
        user: String,
        password: String,
    },
    /// Exchanged for access tokens.
    Refresh(String),
    /// Printed unchanged.
    Bearer(String),
}

/// Where in a file the credentials of a place are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    Secret {
        key: &'a str,
        secret: Secret,
    },
    /// Credentials from this helper, for this server.
    Helper {
        name: &'a str,
        server: String,
    },
}

/// A parsed file.
#[derive(Debug, Default)]
pub(crate) struct AuthFile {
    path: PathBuf,
    auths: BTreeMap<String, Login>,
    helpers: BTreeMap<String, String>,
    store: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    auths: Option<BTreeMap<String, Login>>,
    #[serde(default)]
    cred_helpers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    creds_store: Option<String>,
}

#[derive(Deserialize, Default)]
struct Login {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default, alias = "identityToken")]
    identitytoken: Option<String>,
    #[serde(default, alias = "registryToken")]
    registrytoken: Option<String>,
}

impl AuthFile {
    pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Self, AuthFileError> {
        let path = path.to_path_buf();
        // `podman logout` may leave an empty file behind.
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self { path, ..Self::default() });
        }
        let bad = |error: serde_json::Error| AuthFileError::Parse {
            path: path.clone(),
            line: error.line(),
            column: error.column(),
        };
        // The oldest form has the logins at the top.
        if path.file_name().is_some_and(|name| name == ".dockercfg") {
            let auths = serde_json::from_slice(text).map_err(bad)?;
            return Ok(Self { path, auths, ..Self::default() });
        }
        let document: Document = serde_json::from_slice(text).map_err(bad)?;
        Ok(Self {
            auths: document.auths.unwrap_or_default(),
            helpers: document.cred_helpers.unwrap_or_default(),
            store: document.creds_store.filter(|store| !store.is_empty()),
            path,
        })
    }

    /// What the file has for a place: a helper set for its registry, else the
    /// login with the longest matching key. The store of all credentials, if
    /// there is one, comes last: see [`AuthFile::store`].
    pub(crate) fn find(&self, at: &Location) -> Result<Option<Entry<'_>>, AuthFileError> {
        let registry = at.registry.as_str();
        if let Some(name) = self.helpers.get(registry).filter(|name| !name.is_empty()) {
            return Ok(Some(Entry::Helper { name, server: server_name(registry) }));
        }
        for wanted in keys(at) {
            if let Some((key, login)) = self.auths.get_key_value(&wanted)
                && let Some(secret) = self.secret(key, login)?
            {
                return Ok(Some(Entry::Secret { key, secret }));
            }
        }
        for (key, login) in &self.auths {
            if host_of(key) == registry
                && is_legacy(key)
                && let Some(secret) = self.secret(key, login)?
            {
                return Ok(Some(Entry::Secret { key, secret }));
            }
        }
        Ok(None)
    }

    /// The helper that holds whatever is not in the file itself.
    pub(crate) fn store(&self, at: &Location) -> Option<Entry<'_>> {
        let name = self.store.as_deref()?;
        Some(Entry::Helper { name, server: server_name(at.registry.as_str()) })
    }

    fn secret(&self, key: &str, login: &Login) -> Result<Option<Secret>, AuthFileError> {
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(token) = set(&login.registrytoken) {
            return Ok(Some(Secret::Bearer(token)));
        }
        if let Some(token) = set(&login.identitytoken) {
            return Ok(Some(Secret::Refresh(token)));
        }
        if let Some(auth) = set(&login.auth) {
            let bad = || AuthFileError::Entry { path: self.path.clone(), key: key.to_owned() };
            let decoded = BASE64.decode(auth.trim()).map_err(|_| bad())?;
            let text = String::from_utf8(decoded).map_err(|_| bad())?;
            let (user, password) = text.split_once(':').ok_or_else(bad)?;
            let password = password.trim_end_matches('\0');
            return Ok(Some(Secret::Password { user: user.into(), password: password.into() }));
        }
        match (set(&login.username), set(&login.password)) {
            (Some(user), Some(password)) => Ok(Some(Secret::Password { user, password })),
            // Docker leaves `{}` behind for what is in its store.
            _ => Ok(None),
        }
    }
}

/// Keys that fit a place, longest first: `quay.io/org/repo`, `quay.io/org`,
/// `quay.io`.
fn keys(at: &Location) -> impl Iterator<Item = String> {
    let whole = format!("{}/{}", at.registry, at.repository);
    std::iter::successors(Some(whole), |key| {
        key.rsplit_once('/').map(|(shorter, _)| shorter.to_owned())
    })
}

/// A key as docker writes it: an address, or docker.io under another name.
fn is_legacy(key: &str) -> bool {
    key.contains("://") || key.starts_with("index.docker.io") || key.ends_with("/v1/")
}

/// The registry a key of docker's is for.
fn host_of(key: &str) -> &str {
    let rest = key.split_once("://").map_or(key, |(_, rest)| rest);
    match rest.split('/').next().unwrap_or_default() {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        host => host,
    }
}

/// The name under which helpers know a registry.
fn server_name(registry: &str) -> String {
    match registry {
        "docker.io" => "https://index.docker.io/v1/".to_owned(),
        other => other.to_owned(),
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password { .. } => "Password(…)",
            Self::Refresh(_) => "Refresh(…)",
            Self::Bearer(_) => "Bearer(…)",
        })
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Location {
        let image: oci::ImageRef = text.parse().unwrap();
        Location { registry: image.registry, repository: image.repository }
    }

    fn file(text: &str) -> AuthFile {
        AuthFile::parse(Path::new("/x/auth.json"), text.as_bytes()).unwrap()
    }

    fn found(file: &AuthFile, place: &str) -> String {
        match file.find(&at(place)).unwrap() {
            None => "none".into(),
            Some(Entry::Helper { name, server }) => format!("helper {name} {server}"),
            Some(Entry::Secret { key, secret: Secret::Password { user, password } }) => {
                format!("{key} {user}:{password}")
            }
            Some(Entry::Secret { key, secret: Secret::Refresh(token) }) => {
                format!("{key} refresh {token}")
            }
            Some(Entry::Secret { key, secret: Secret::Bearer(token) }) => {
                format!("{key} bearer {token}")
            }
        }
    }

    // base64: "YTox" is a:1, "Yjoy" is b:2, "Yzoz" is c:3, "ZDo0OjQ" is d:4:4.
    #[test]
    fn the_longest_matching_key_wins() {
        let file = file(
            r#"{"auths":{"quay.io":{"auth":"YTox"},"quay.io/org":{"auth":"Yjoy"},
                "quay.io/org/repo":{"auth":"Yzoz"},"host:5000":{"auth":"ZDo0OjQ"}}}"#,
        );
        for (place, expected) in [
            ("quay.io/other/repo", "quay.io a:1"),
            ("quay.io/org/else", "quay.io/org b:2"),
            ("quay.io/org/repo", "quay.io/org/repo c:3"),
            ("quay.io/org/repository", "quay.io/org b:2"),
            ("quay.io/organisation/x", "quay.io a:1"),
            ("host:5000/x", "host:5000 d:4:4"),
            ("host:5001/x", "none"),
            ("evil-quay.io/x", "none"),
        ] {
            assert_eq!(found(&file, place), expected, "{place}");
        }
    }

    #[test]
    fn docker_hubs_old_names_are_understood() {
        for key in
            ["https://index.docker.io/v1/", "docker.io", "index.docker.io", "https://docker.io"]
        {
            let file = file(&format!(r#"{{"auths":{{"{key}":{{"auth":"YTox"}}}}}}"#));
            assert_eq!(found(&file, "busybox"), format!("{key} a:1"));
        }
        let old = AuthFile::parse(
            Path::new("/h/.dockercfg"),
            br#"{"https://quay.io/v1/":{"auth":"YTox"}}"#,
        );
        assert_eq!(found(&old.unwrap(), "quay.io/a/b"), "https://quay.io/v1/ a:1");
    }

    #[test]
    fn tokens_helpers_and_stores_are_found() {
        let file = file(
            r#"{"auths":{"a.io":{"identitytoken":"refresh-me","auth":"YTo="},"b.io":{},"d.io":{"registrytoken":"t"}},
                "credHelpers":{"c.io":"secretservice"},"credsStore":"pass"}"#,
        );
        assert_eq!(found(&file, "a.io/x"), "a.io refresh refresh-me");
        assert_eq!(found(&file, "b.io/x"), "none");
        assert_eq!(found(&file, "c.io/x"), "helper secretservice c.io");
        assert_eq!(found(&file, "d.io/x"), "d.io bearer t");
        let store = file.store(&at("docker.io/library/x"));
        let server = "https://index.docker.io/v1/".to_owned();
        assert_eq!(store, Some(Entry::Helper { name: "pass", server }));
    }

    #[test]
    fn a_bad_file_is_an_error_that_names_it_and_quotes_nothing() {
        let error =
            AuthFile::parse(Path::new("/x/auth.json"), b"{\"auths\":{\"h\":{\"auth\":1234}}}");
        let text = error.unwrap_err().to_string();
        assert!(text.contains("/x/auth.json") && text.contains("line 1"), "{text}");
        assert!(!text.contains("1234"), "{text}");
        let file = file(r#"{"auths":{"h:1":{"auth":"c2VjcmV0"}}}"#);
        let text = file.find(&at("h:1/x")).unwrap_err().to_string();
        assert!(text.contains("\"h:1\"") && !text.contains("secret"), "{text}");
        assert!(!format!("{file:?}").contains("c2Vj"));
        assert_eq!(found(&AuthFile::parse(Path::new("/e"), b"\n").unwrap(), "quay.io/a"), "none");
    }
}
