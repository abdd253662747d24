//! Which credentials are for which place, and where they were found.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::authfile::{AuthFile, AuthFileError, Entry, Secret};
use crate::credential_helper;
use crate::environment::Environment;
use crate::location::Location;
use crate::settings::CredentialSource;

/// How long a helper's response is used before it gets a second request.
const HELPER_MEMORY: Duration = Duration::from_secs(300);

/// What registries.conf calls the files that podman and docker keep logins in.
const AUTH_FILES: &str = "containers-auth.json";

/// Credentials and their origin, or the reason there are none.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) secret: Option<Secret>,
    pub(crate) provenance: Provenance,
}

/// Where the credentials of a request came from, for errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provenance {
    /// Given on the command line.
    Given,
    /// Under this key of this file.
    File { path: Arc<Path>, key: Box<str> },
    /// From this helper, named in this file.
    Helper { path: Arc<Path>, name: Box<str> },
    /// There are none, in any of these files.
    NotFound { searched: Arc<[PathBuf]> },
    /// None were to be used.
    Anonymous,
}

#[derive(Debug)]
pub(crate) struct Credentials {
    source: CredentialSource,
    files: Arc<[PathBuf]>,
    /// A file that was named must be there; those of the search need not.
    must_exist: bool,
    helper_path: Option<std::ffi::OsString>,
    /// The order of registries.conf; `None` means the files above.
    order: Vec<Option<Box<str>>>,
    /// The registries.conf that names helpers.
    named_in: Arc<Path>,
    read: Mutex<HashMap<PathBuf, Read>>,
    helped: Mutex<HashMap<(String, String), HelperResult>>,
}

#[derive(Debug)]
struct Read {
    stamp: FileVersion,
    file: Arc<AuthFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    modified: Option<SystemTime>,
    length: u64,
    /// Tools replace the file; a second change within one tick of a coarse clock shows here.
    inode: u64,
}

#[derive(Debug)]
struct HelperResult {
    since: Instant,
    secret: Option<Secret>,
}

impl Credentials {
    /// Reads a named file right away: a wrong name is an error of the
    /// settings, not of the first request.
    ///
    /// `helpers` are the `credential-helpers` of a registries.conf. They apply
    /// where no file is named, as in containers/image.
    pub(crate) fn open(
        source: CredentialSource,
        environment: &Environment,
        helpers: Option<&(PathBuf, Vec<String>)>,
    ) -> Result<Self, AuthFileError> {
        let (files, must_exist) = match (&source, &environment.registry_auth_file) {
            (CredentialSource::File(path), _) => (vec![path.clone()], true),
            (CredentialSource::Search, Some(path)) => (vec![path.clone()], true),
            (CredentialSource::Search, None) => (search_path(environment), false),
            _ => (Vec::new(), false),
        };
        let (named_in, order) = match helpers {
            Some((path, names)) if !must_exist => {
                let order = names.iter().map(|name| match name.as_str() {
                    AUTH_FILES => None,
                    name => Some(name.into()),
                });
                (path.as_path().into(), order.collect())
            }
            _ => (Path::new("").into(), vec![None]),
        };
        let credentials = Self {
            order,
            named_in,
            source,
            files: files.into(),
            must_exist,
            helper_path: environment.path.clone(),
            read: Mutex::default(),
            helped: Mutex::default(),
        };
        for path in credentials.files.iter() {
            credentials.file(path)?;
        }
        Ok(credentials)
    }

    pub(crate) fn source(&self) -> &CredentialSource {
        &self.source
    }

    pub(crate) async fn find(&self, at: &Location) -> Result<Found, AuthFileError> {
        let given = |secret| Found { secret: Some(secret), provenance: Provenance::Given };
        match &self.source {
            CredentialSource::User { name, password } => {
                Ok(given(Secret::Password { user: name.clone(), password: password.clone() }))
            }
            CredentialSource::Token(token) => Ok(given(Secret::Bearer(token.clone()))),
            CredentialSource::Anonymous => {
                Ok(Found { secret: None, provenance: Provenance::Anonymous })
            }
            CredentialSource::Search | CredentialSource::File(_) => self.search(at).await,
        }
    }

    /// The registry rejected the credentials: read all sources again.
    pub(crate) fn forget(&self) {
        lock(&self.read).clear();
        lock(&self.helped).clear();
    }

    async fn search(&self, at: &Location) -> Result<Found, AuthFileError> {
        for place in &self.order {
            let found = match place {
                None => self.search_files(at).await?,
                Some(name) => {
                    let path = Arc::clone(&self.named_in);
                    let server = at.registry.to_string();
                    let secret = self.ask_helper(&path, name, server).await?;
                    let provenance = Provenance::Helper { path, name: name.clone() };
                    secret.map(|secret| Found { secret: Some(secret), provenance })
                }
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
        let provenance = Provenance::NotFound { searched: Arc::clone(&self.files) };
        Ok(Found { secret: None, provenance })
    }

    async fn search_files(&self, at: &Location) -> Result<Option<Found>, AuthFileError> {
        for path in self.files.iter() {
            let Some(file) = self.file(path)? else { continue };
            let entries = file.find(at)?.into_iter().chain(file.store(at));
            for entry in entries {
                let path: Arc<Path> = path.as_path().into();
                let found = match entry {
                    Entry::Secret { key, secret } => {
                        let provenance = Provenance::File { path, key: key.into() };
                        Some(Found { secret: Some(secret), provenance })
                    }
                    Entry::Helper { name, server } => {
                        let secret = self.ask_helper(&path, name, server).await?;
                        let provenance = Provenance::Helper { path, name: name.into() };
                        secret.map(|secret| Found { secret: Some(secret), provenance })
                    }
                };
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// The current content of a file: read again when its time or length changed.
    fn file(&self, path: &Path) -> Result<Option<Arc<AuthFile>>, AuthFileError> {
        let failed = |source| AuthFileError::Read { path: path.into(), source };
        let stamp = match std::fs::metadata(path) {
            Ok(about) => FileVersion {
                modified: about.modified().ok(),
                length: about.len(),
                inode: about.ino(),
            },
            Err(error) if self.may_be_absent(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if let Some(read) = lock(&self.read).get(path)
            && read.stamp == stamp
        {
            return Ok(Some(Arc::clone(&read.file)));
        }
        let text = std::fs::read(path).map_err(failed)?;
        let file = Arc::new(AuthFile::parse(path, &text)?);
        lock(&self.read).insert(path.into(), Read { stamp, file: Arc::clone(&file) });
        Ok(Some(file))
    }

    fn may_be_absent(&self, error: &io::Error) -> bool {
        let absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        absent && !self.must_exist
    }

    async fn ask_helper(
        &self,
        file: &Path,
        name: &str,
        server: String,
    ) -> Result<Option<Secret>, AuthFileError> {
        let key = (name.to_owned(), server);
        if let Some(helped) = lock(&self.helped).get(&key)
            && helped.since.elapsed() < HELPER_MEMORY
        {
            return Ok(helped.secret.clone());
        }
        let secret =
            credential_helper::get(file, name, &key.1, self.helper_path.as_deref()).await?;
        let helped = HelperResult { since: Instant::now(), secret: secret.clone() };
        lock(&self.helped).insert(key, helped);
        Ok(secret)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where podman and docker keep logins, in the order in which podman searches.
fn search_path(environment: &Environment) -> Vec<PathBuf> {
    let below = |dir: &Option<PathBuf>, name: &str| dir.as_ref().map(|dir| dir.join(name));
    [
        below(&environment.runtime_dir, "auth.json"),
        environment.user_containers("auth.json"),
        below(&environment.docker_config, "config.json"),
        environment.below_home(".dockercfg"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str(
                "the credentials given on the command line do not suffice or have expired",
            ),
            Self::File { path, key } => write!(
                f,
                "the credentials for {key:?} in {} do not suffice or have expired",
                path.display()
            ),
            Self::Helper { path, name } => write!(
                f,
                "the credentials of the helper docker-credential-{name} (named in {}) do not suffice or have expired",
                path.display()
            ),
            Self::NotFound { searched } if searched.is_empty() => {
                f.write_str("no credentials were given; log in with podman login")
            }
            Self::NotFound { searched } => {
                let files: Vec<String> =
                    searched.iter().map(|path| path.display().to_string()).collect();
                write!(
                    f,
                    "no credentials for it in {}; log in with podman login, or check the name: registries also respond this way to names that do not exist",
                    files.join(", ")
                )
            }
            Self::Anonymous => f.write_str("no credentials were used, as requested"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Location {
        Location::from(&text.parse::<oci::ImageRef>().unwrap())
    }

    fn user(found: Found) -> Option<String> {
        match found.secret? {
            Secret::Password { user, .. } => Some(user),
            _ => None,
        }
    }

    /// `YTox` is a:1, `Yjoy` is b:2.
    fn login(registry: &str, auth: &str) -> String {
        format!(r#"{{"auths":{{"{registry}":{{"auth":"{auth}"}}}}}}"#)
    }

    #[tokio::test]
    async fn the_first_file_that_has_the_place_wins() {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment {
            home: Some(home.path().into()),
            config_home: Some(home.path().join(".config")),
            docker_config: Some(home.path().join(".docker")),
            runtime_dir: Some(home.path().join("absent")),
            ..Environment::default()
        };
        std::fs::create_dir_all(home.path().join(".config/containers")).unwrap();
        std::fs::create_dir_all(home.path().join(".docker")).unwrap();
        let podman = home.path().join(".config/containers/auth.json");
        std::fs::write(&podman, login("quay.io", "YTox")).unwrap();
        let docker = home.path().join(".docker/config.json");
        std::fs::write(&docker, r#"{"auths":{"quay.io":{"auth":"Yjoy"},"h:1":{"auth":"Yjoy"}}}"#)
            .unwrap();
        let credentials = Credentials::open(CredentialSource::Search, &environment, None).unwrap();
        assert_eq!(user(credentials.find(&at("quay.io/x")).await.unwrap()).as_deref(), Some("a"));
        assert_eq!(user(credentials.find(&at("h:1/x")).await.unwrap()).as_deref(), Some("b"));
        let none = credentials.find(&at("h:2/x")).await.unwrap();
        assert!(none.provenance.to_string().contains(".docker/config.json"), "{none:?}");
    }

    #[tokio::test]
    async fn a_file_that_changes_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("auth.json");
        std::fs::write(&path, login("quay.io", "YTox")).unwrap();
        let source = CredentialSource::File(path.clone());
        let credentials = Credentials::open(source, &Environment::default(), None).unwrap();
        assert_eq!(user(credentials.find(&at("quay.io/x")).await.unwrap()).as_deref(), Some("a"));
        std::fs::write(&path, login("quay.io", "bG9uZ2VyOjI=")).unwrap();
        let found = credentials.find(&at("quay.io/x")).await.unwrap();
        assert_eq!(user(found).as_deref(), Some("longer"));
    }

    /// A directory with the program `docker-credential-<name>` that has credentials of `reg.lan`
    /// only.
    fn helper(name: &str, user: &str) -> tempfile::TempDir {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(format!("docker-credential-{name}"));
        let script = format!(
            "#!/bin/sh\nread server\nif [ \"$server\" = reg.lan ]; then\n  \
             echo '{{\"Username\":\"{user}\",\"Secret\":\"s\"}}'\nelse\n  \
             echo 'credentials not found in native keychain'\n  exit 1\nfi\n"
        );
        // Copied by another process: one that still writes a program cannot run it.
        let text = dir.path().join("text");
        std::fs::write(&text, script).unwrap();
        std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
        let copied = std::process::Command::new("cp").args([&text, &program]).status().unwrap();
        assert!(copied.success());
        dir
    }

    #[tokio::test]
    async fn helpers_of_registries_conf_are_used_in_its_order() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join(".docker")).unwrap();
        let login = r#"{"auths":{"reg.lan":{"auth":"YTox"},"other.lan":{"auth":"Yjoy"}}}"#;
        std::fs::write(home.path().join(".docker/config.json"), login).unwrap();
        let dir = helper("lab", "helped");
        let path = std::env::join_paths(
            std::iter::once(dir.path().to_owned())
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        )
        .unwrap();
        let environment = Environment {
            docker_config: Some(home.path().join(".docker")),
            path: Some(path),
            ..Environment::default()
        };
        let names = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Some((PathBuf::from("/etc/containers/registries.conf"), names))
        };
        for (order, place, expected) in [
            (names(&["lab", AUTH_FILES]), "reg.lan/x", Some("helped")),
            (names(&["lab", AUTH_FILES]), "other.lan/x", Some("b")),
            (names(&[AUTH_FILES, "lab"]), "reg.lan/x", Some("a")),
            (names(&["lab"]), "other.lan/x", None),
            (None, "reg.lan/x", Some("a")),
        ] {
            let source = CredentialSource::Search;
            let credentials = Credentials::open(source, &environment, order.as_ref()).unwrap();
            let found = credentials.find(&at(place)).await.unwrap();
            assert_eq!(user(found).as_deref(), expected, "{order:?} {place}");
        }
    }

    #[test]
    fn a_named_file_must_exist_and_be_readable_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("auth.json");
        let open = || {
            Credentials::open(CredentialSource::File(path.clone()), &Environment::default(), None)
        };
        assert!(matches!(open().unwrap_err(), AuthFileError::Read { .. }));
        std::fs::write(&path, "not json").unwrap();
        assert!(matches!(open().unwrap_err(), AuthFileError::Parse { .. }));
        let environment = Environment {
            registry_auth_file: Some("/nowhere/auth.json".into()),
            ..Environment::default()
        };
        assert!(Credentials::open(CredentialSource::Search, &environment, None).is_err());
        assert!(Credentials::open(CredentialSource::Anonymous, &environment, None).is_ok());
    }

    #[tokio::test]
    async fn what_is_given_beats_files_and_anonymous_beats_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("auth.json");
        std::fs::write(&path, login("quay.io", "YTox")).unwrap();
        let environment = Environment { registry_auth_file: Some(path), ..Environment::default() };
        let given = CredentialSource::from_pair("me:secret").unwrap();
        let credentials = Credentials::open(given, &environment, None).unwrap();
        assert_eq!(user(credentials.find(&at("quay.io/x")).await.unwrap()).as_deref(), Some("me"));
        let credentials =
            Credentials::open(CredentialSource::Anonymous, &environment, None).unwrap();
        assert!(credentials.find(&at("quay.io/x")).await.unwrap().secret.is_none());
    }
}
