//! `--secure-policy` and `--policy`: finds the trust policy and reads it, with
//! the keys it names. A policy that cannot be enforced is an error.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mirror::{Lookaside, TrustPolicy};
use oci::Digest;
use registry::Environment;
use trust::Policy;

use crate::problem::{Problem, chain};

/// No policy and no key is larger by intent.
const MAX_BYTES: u64 = 4 << 20;

/// Which policy was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PolicyChoice {
    /// None: every image is let in.
    None,
    /// That of the user, else that of the system.
    Default,
    File(PathBuf),
}

impl PolicyChoice {
    pub(crate) fn of(secure_policy: bool, policy: Option<&Path>) -> Result<Self, Problem> {
        match (secure_policy, policy.filter(|path| !path.as_os_str().is_empty())) {
            (true, Some(path)) => Ok(Self::File(path.to_owned())),
            (true, None) => Ok(Self::Default),
            (false, None) => Ok(Self::None),
            (false, Some(_)) => Err(Problem::new(
                "--policy is used together with --secure-policy only: alone it would check nothing",
            )
            .with_hint("add --secure-policy to enforce the policy, or leave --policy out")),
        }
    }
}

/// Reads the policy that was requested.
pub(crate) fn open(
    choice: &PolicyChoice,
    environment: &Environment,
    lookaside: Lookaside,
) -> Result<Option<TrustPolicy>, Problem> {
    let path = match choice {
        PolicyChoice::None => return Ok(None),
        PolicyChoice::File(path) => path.clone(),
        PolicyChoice::Default => default_file(environment)?,
    };
    let fail = |why: String| Problem::new(format!("the trust policy {}: {why}", path.display()));
    let text = read(&path).map_err(|e| fail(e.to_string()))?;
    let digest = Digest::of(&text);
    let text = String::from_utf8(text).map_err(|e| fail(chain(&e)))?;
    let policy = Policy::parse(&text, read).map_err(|e| fail(chain(&e)))?;
    Ok(Some(TrustPolicy { path, digest, policy: Arc::new(policy), lookaside }))
}

/// The location that containers-policy.json(5) defines.
fn default_file(environment: &Environment) -> Result<PathBuf, Problem> {
    let user = environment.home.as_ref().map(|home| home.join(".config/containers/policy.json"));
    let system = environment.system_root.join("etc/containers/policy.json");
    let places: Vec<PathBuf> = user.into_iter().chain([system]).collect();
    // If a file exists and cannot be read, no other may be used instead.
    let there = |path: &&PathBuf| !matches!(path.symlink_metadata(), Err(e) if e.kind() == io::ErrorKind::NotFound);
    places.iter().find(there).cloned().ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        Problem::new(format!(
            "--secure-policy: there is no trust policy: neither --policy was given, nor is there {}",
            places.join(" or ")
        ))
    })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ACCEPT: &str = r#"{"default":[{"type":"insecureAcceptAnything"}]}"#;

    fn machine() -> (tempfile::TempDir, Environment) {
        let dir = tempfile::tempdir().unwrap();
        for home in ["home/.config/containers", "root/etc/containers"] {
            fs::create_dir_all(dir.path().join(home)).unwrap();
        }
        let environment = Environment {
            home: Some(dir.path().join("home")),
            system_root: dir.path().join("root"),
            ..Environment::default()
        };
        (dir, environment)
    }

    #[test]
    fn the_users_policy_comes_before_the_systems_and_none_is_an_error() {
        let (dir, environment) = machine();
        let open = || open(&PolicyChoice::Default, &environment, Lookaside::default());
        let error = open().unwrap_err().message;
        assert!(error.contains("there is no trust policy"), "{error}");
        assert!(error.contains("etc/containers/policy.json"), "{error}");
        let system = dir.path().join("root/etc/containers/policy.json");
        fs::write(&system, ACCEPT).unwrap();
        let found = open().unwrap().unwrap();
        assert_eq!((found.path, found.digest), (system, Digest::of(ACCEPT.as_bytes())));
        let user = dir.path().join("home/.config/containers/policy.json");
        fs::write(&user, ACCEPT).unwrap();
        assert_eq!(open().unwrap().unwrap().path, user);
        // Even one that cannot be used: the system's may be more generous.
        fs::remove_file(&user).unwrap();
        std::os::unix::fs::symlink("nowhere", &user).unwrap();
        assert!(open().unwrap_err().message.contains("home/.config/containers/policy.json"));
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_an_error_that_names_it() {
        let (dir, environment) = machine();
        let file = dir.path().join("p.json");
        let open = || {
            open(&PolicyChoice::File(file.clone()), &environment, Lookaside::default())
                .unwrap_err()
                .message
        };
        assert!(open().contains("p.json: No such file"), "{}", open());
        fs::write(&file, "{").unwrap();
        assert!(open().contains("p.json: it is not a policy"), "{}", open());
        fs::write(&file, r#"{"default":[{"type":"sigstoreSigned","keyPath":"/gone.pub"}]}"#)
            .unwrap();
        let error = open();
        assert!(error.contains("p.json: default: reading the key /gone.pub: No such"), "{error}");
    }
}
