//! The token of the printed URL, and the session that a browser gets for it.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use oci::Digest;

/// Bytes of a generated token.
const BYTES: usize = 32;
/// Letters of a token in a file: as many as a password has that is not guessed.
const MIN_LETTERS: usize = 32;
const MAX_LETTERS: usize = 512;

/// The secret that opens the console.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("reading random numbers from the system")]
    Random,
    #[error("reading the token file {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("writing the token file {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "the token file {} can be read by other users (mode {mode:03o}); run: chmod 600 {}",
        path.display(), path.display()
    )]
    Permissions { path: PathBuf, mode: u32 },
    #[error(
        "the token file {}: expected {MIN_LETTERS} to {MAX_LETTERS} letters, digits, '-' and '_' on one line, found {found}",
        path.display()
    )]
    Content { path: PathBuf, found: String },
}

impl Token {
    /// A new random token.
    pub fn random() -> Result<Self, TokenError> {
        let mut bytes = [0; BYTES];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| TokenError::Random)?;
        Ok(Self(hex::encode(bytes)))
    }

    /// The token in a file. A file that does not exist is created with a random token, readable
    /// only by its owner.
    pub fn of_file(path: &Path) -> Result<Self, TokenError> {
        let read = |source| TokenError::Read { path: path.to_owned(), source };
        let file = match fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let token = Self::random()?;
                let write = |source| TokenError::Write { path: path.to_owned(), source };
                let mut options = OpenOptions::new();
                let mut file =
                    options.write(true).create_new(true).mode(0o600).open(path).map_err(write)?;
                writeln!(file, "{}", token.0).map_err(write)?;
                return Ok(token);
            }
            Err(error) => return Err(read(error)),
        };
        let mode = file.metadata().map_err(read)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TokenError::Permissions { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        file.take(MAX_LETTERS as u64 + 2).read_to_string(&mut text).map_err(read)?;
        Self::parse(text.trim_end()).ok_or_else(|| TokenError::Content {
            path: path.to_owned(),
            // Not the text: it may be a password.
            found: format!("{} bytes", text.len()),
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        let fits = (MIN_LETTERS..=MAX_LETTERS).contains(&text.len());
        (fits && text.chars().all(is_plain)).then(|| Self(text.to_owned()))
    }

    /// For the printed URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the token. Takes the same time for every text of one length.
    pub(crate) fn is(&self, text: &str) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), text.as_bytes()).is_ok()
    }

    /// The value of the cookie. It is derived from the token, so that a browser stays logged in
    /// when the console restarts with the same token file, and does not contain it.
    pub(crate) fn session(&self) -> Session {
        let text = format!("oc-mirror console session\n{}", self.0);
        Session(Digest::of(text.as_bytes()).hex())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// What a logged-in browser sends.
#[derive(Clone)]
pub(crate) struct Session(String);

impl Session {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), text.as_bytes()).is_ok()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_file_is_created_once_and_readable_by_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let token = Token::of_file(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Token::of_file(&path).unwrap(), token);
        assert_ne!(Token::random().unwrap(), token);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Token::of_file(&path), Err(TokenError::Permissions { mode: 0o644, .. })));
    }

    #[test]
    fn a_short_or_odd_token_is_refused_and_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for text in ["hunter2", "", "a b a b a b a b a b a b a b a b a b a b", "line\nline"] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = Token::of_file(&path).unwrap_err().to_string();
            assert!(error.contains("expected 32 to 512 letters"), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }

    #[test]
    fn the_session_does_not_contain_the_token() {
        let token = Token::random().unwrap();
        assert!(token.is(token.as_str()) && !token.is(&token.as_str()[1..]));
        let session = token.session();
        assert!(session.is(token.session().as_str()));
        assert!(!session.as_str().contains(token.as_str()));
        assert!(!session.is(token.as_str()));
    }
}
