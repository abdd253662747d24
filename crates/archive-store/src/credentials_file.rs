//! The credentials file of the AWS tools: sections with `aws_access_key_id`,
//! `aws_secret_access_key` and `aws_session_token`.
//!
//! It is read again for every request, so that credentials can be replaced while a run is under
//! way: a mounted Secret follows its object.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use object_store::CredentialProvider;
use object_store::aws::AwsCredential;

const VARIABLE: &str = "AWS_SHARED_CREDENTIALS_FILE";
const PROFILE_VARIABLE: &str = "AWS_PROFILE";
const DEFAULT_PROFILE: &str = "default";

/// A file, and the section of it that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CredentialsFile {
    path: PathBuf,
    profile: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum CredentialsError {
    #[error("reading {path}: {reason}")]
    Read { path: String, reason: String },
    #[error("{path} has no profile {profile:?}")]
    NoProfile { path: String, profile: String },
    #[error("the profile {profile:?} of {path} has no {key}")]
    NoKey { path: String, profile: String, key: &'static str },
}

impl CredentialsFile {
    /// The file that the environment of this process leads to, if it exists or is named.
    pub(crate) fn of_process() -> Option<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let profile = variable(PROFILE_VARIABLE).map(|name| name.to_string_lossy().into_owned());
        let named = variable(VARIABLE).map(PathBuf::from);
        let home = || {
            let path = PathBuf::from(variable("HOME")?).join(".aws/credentials");
            path.is_file().then_some(path)
        };
        let path = named.or_else(home)?;
        Some(Self { path, profile: profile.unwrap_or_else(|| DEFAULT_PROFILE.to_owned()) })
    }

    fn read(&self) -> Result<AwsCredential, CredentialsError> {
        let path = self.path.display().to_string();
        let text = std::fs::read_to_string(&self.path).map_err(|error| CredentialsError::Read {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        select(&text, &path, &self.profile)
    }
}

impl CredentialProvider for CredentialsFile {
    type Credential = AwsCredential;

    fn get_credential<'a, 'b>(
        &'a self,
    ) -> Pin<Box<dyn Future<Output = object_store::Result<Arc<AwsCredential>>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let read = self.read().map(Arc::new);
        let read = read
            .map_err(|error| object_store::Error::Generic { store: "S3", source: error.into() });
        Box::pin(std::future::ready(read))
    }
}

/// The credentials of a profile.
fn select(text: &str, path: &str, profile: &str) -> Result<AwsCredential, CredentialsError> {
    let (mut is_there, mut is_inside) = (false, false);
    let (mut key_id, mut secret_key, mut token) = (None, None, None);
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_inside = section.trim() == profile;
            is_there |= is_inside;
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| is_inside) else { continue };
        let value = value.trim().to_owned();
        match key.trim() {
            "aws_access_key_id" => key_id = Some(value),
            "aws_secret_access_key" => secret_key = Some(value),
            "aws_session_token" => token = Some(value),
            _ => {}
        }
    }
    let (path, profile) = (path.to_owned(), profile.to_owned());
    if !is_there {
        return Err(CredentialsError::NoProfile { path, profile });
    }
    match (key_id, secret_key) {
        (Some(key_id), Some(secret_key)) => Ok(AwsCredential { key_id, secret_key, token }),
        (None, _) => Err(CredentialsError::NoKey { path, profile, key: "aws_access_key_id" }),
        (_, None) => Err(CredentialsError::NoKey { path, profile, key: "aws_secret_access_key" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# mine\n[default]\naws_access_key_id = a\naws_secret_access_key=b=c\n\n\
                        [night]\n; rotated\naws_access_key_id=d\naws_secret_access_key = e\n\
                        aws_session_token = f\nregion = x\n[half]\naws_access_key_id = g\n";

    #[test]
    fn a_profile_has_its_own_credentials() {
        let of = |profile| select(FILE, "file", profile).unwrap();
        let found = of("default");
        assert_eq!(
            (found.key_id.as_str(), found.secret_key.as_str(), found.token),
            ("a", "b=c", None)
        );
        let found = of("night");
        assert_eq!((found.key_id.as_str(), found.token.as_deref()), ("d", Some("f")));
    }

    #[test]
    fn what_is_missing_is_named_without_secrets() {
        let error = |profile| select(FILE, "file", profile).unwrap_err().to_string();
        assert_eq!(error("day"), "file has no profile \"day\"");
        assert_eq!(error("half"), "the profile \"half\" of file has no aws_secret_access_key");
    }

    #[test]
    fn a_file_that_changes_is_read_again() {
        let folder = std::env::temp_dir().join(format!("credentials-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file =
            CredentialsFile { path: folder.join("credentials"), profile: "default".to_owned() };
        assert!(matches!(file.read(), Err(CredentialsError::Read { .. })));
        for key in ["first", "second"] {
            let text =
                format!("[default]\naws_access_key_id={key}\naws_secret_access_key=secret\n");
            std::fs::write(&file.path, text).unwrap();
            assert_eq!(file.read().unwrap().key_id, key);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
