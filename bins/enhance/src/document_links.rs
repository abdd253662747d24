//! Addresses of documents, for links that work wherever a report is stored.
//!
//! The page of a document on its Git host is preferred: it works for every
//! reader of the report. It is used only if the host has the document as it
//! was checked; otherwise the link leads to the local file.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use enhancement::Revision;

use crate::repository::{self, git};

/// The address that corresponds to the top of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaseUrl(String);

/// Why a text is not a base URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a URL that starts with https://, http:// or file:///, found {0:?}")]
pub(crate) struct BaseUrlError(String);

impl FromStr for BaseUrl {
    type Err = BaseUrlError;

    fn from_str(text: &str) -> Result<Self, BaseUrlError> {
        let rest = ["https://", "http://", "file:///"].iter().find_map(|it| text.strip_prefix(it));
        let is_legal = |c: char| c.is_ascii_graphic() && !"\"'<>\\^`{|}".contains(c);
        match rest {
            Some(rest) if !rest.is_empty() && rest.chars().all(is_legal) => {
                Ok(Self(text.trim_end_matches('/').to_owned()))
            }
            _ => Err(BaseUrlError(text.to_owned())),
        }
    }
}

/// The address of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentLink {
    pub(crate) url: String,
    /// Whether `?plain=1#L7` leads to line 7.
    pub(crate) has_line_anchors: bool,
}

/// Determines the addresses of the documents of a report.
#[derive(Debug)]
pub(crate) struct DocumentLinks {
    base: Option<BaseUrl>,
    /// The repository of the report's directory, if its host is known.
    published: Option<Published>,
}

/// A repository whose current commit exists on its Git host.
#[derive(Debug)]
struct Published {
    root: PathBuf,
    revision: Revision,
    host: GitHost,
    /// The documents that the commit contains as they are on the disk.
    files: BTreeSet<PathBuf>,
}

/// How a Git host forms the address of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GitHost {
    GitHub,
    GitLab,
}

impl GitHost {
    /// By the name of the host: installations of companies contain the name of
    /// the product, for example `gitlab.example.com`.
    fn detect(address: &str) -> Option<Self> {
        let host = address.split_once("://")?.1.split('/').next()?;
        if host.contains("github") {
            Some(Self::GitHub)
        } else if host.contains("gitlab") {
            Some(Self::GitLab)
        } else {
            None
        }
    }

    fn directory(self) -> &'static str {
        match self {
            Self::GitHub => "blob",
            Self::GitLab => "-/blob",
        }
    }
}

impl DocumentLinks {
    /// `base` has priority over the Git host of the repository of `directory`.
    pub(crate) fn new(directory: &Path, base: Option<&BaseUrl>) -> Result<Self> {
        if let Some(base) = base {
            return Ok(Self { base: Some(base.clone()), published: None });
        }
        let absolute = fs::canonicalize(directory)
            .with_context(|| format!("reading {}", directory.display()))?;
        // `find_root` starts with the parent of a file.
        let root = repository::find_root(&absolute.join("report")).to_owned();
        let published = if root.join(".git").exists() { Published::detect(root) } else { None };
        Ok(Self { base: None, published })
    }

    /// The address of the document at `path` in the repository at `root`.
    pub(crate) fn link(&self, root: &Path, path: &Path) -> DocumentLink {
        let escaped = escape(path.as_os_str());
        if let Some(BaseUrl(base)) = &self.base {
            let has_line_anchors = GitHost::detect(base).is_some();
            return DocumentLink { url: format!("{base}/{escaped}"), has_line_anchors };
        }
        let is_published = |it: &&Published| it.root == root && it.files.contains(path);
        match self.published.as_ref().filter(is_published) {
            Some(Published { revision: Revision { repository, commit }, host, .. }) => {
                let url = format!("{repository}/{}/{commit}/{escaped}", host.directory());
                DocumentLink { url, has_line_anchors: true }
            }
            None => {
                let url = format!("file://{}", escape(root.join(path).as_os_str()));
                DocumentLink { url, has_line_anchors: false }
            }
        }
    }

    /// The version of the repository that links refer to.
    pub(crate) fn into_revision(self) -> Option<Revision> {
        self.published.map(|published| published.revision)
    }
}

impl Published {
    /// `None` without a commit that is on a known host, or without Git: links
    /// to local files work then.
    fn detect(root: PathBuf) -> Option<Self> {
        let text = |arguments: &[&str]| {
            let output = git(&root, arguments).ok()?;
            Some(String::from_utf8_lossy(&output).trim().to_owned())
        };
        let commit = text(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
        // A commit that no remote branch contains has not been pushed.
        let branches =
            text(&["for-each-ref", "--contains", &commit, "--format=%(refname)", "refs/remotes"])?;
        let remotes = text(&["remote"])?;
        let contains_commit = |remote: &&str| {
            let prefix = format!("refs/remotes/{remote}/");
            branches.lines().any(|branch| branch.starts_with(&prefix))
        };
        let mut remotes: Vec<&str> = remotes.lines().filter(contains_commit).collect();
        remotes.sort_by_key(|remote| (*remote != "origin", *remote != "upstream", *remote));
        let (repository, host) = remotes.iter().find_map(|remote| {
            let repository = web_address(&text(&["remote", "get-url", "--", remote])?)?;
            let host = GitHost::detect(&repository)?;
            Some((repository, host))
        })?;
        let committed = repository::files_at(&root, &commit).ok()?;
        let changed = git(&root, &["diff", "--no-ext-diff", "--name-only", "-z", &commit]).ok()?;
        let changed = repository::paths(&changed);
        let files = committed.difference(&changed).cloned().collect();
        Some(Self { root, revision: Revision { repository, commit }, host, files })
    }
}

/// The page of a repository, from the address that Git fetches it from. User
/// names and passwords are removed: they must not become part of a report.
fn web_address(remote: &str) -> Option<String> {
    let (authority, path, keeps_port) = match remote.split_once("://") {
        Some((scheme @ ("https" | "http" | "ssh" | "git"), rest)) => {
            let (authority, path) = rest.split_once('/')?;
            (authority, path, scheme.starts_with("http"))
        }
        Some(_) => return None,
        // `git@github.com:openshift/enhancements.git`; a path has a slash before its colon.
        None => {
            let (authority, path) = remote.split_once(':')?;
            // `ext::…` selects a remote helper.
            if authority.contains('/') || path.starts_with(':') {
                return None;
            }
            (authority, path, false)
        }
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = if keeps_port { host } else { host.split(':').next()? };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
    if host.is_empty() || path.is_empty() || !host.chars().all(is_host) {
        return None;
    }
    Some(format!("https://{host}/{}", escape(OsStr::new(path))))
}

/// A path as a part of a URL.
fn escape(path: &OsStr) -> String {
    let mut text = String::with_capacity(path.len());
    for &byte in path.as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_repository_has_no_credentials() {
        for (remote, expected) in [
            ("https://github.com/o/r.git", Some("https://github.com/o/r")),
            ("https://ann:secret@github.com/o/r", Some("https://github.com/o/r")),
            ("https://x@y@github.com/o/r/", Some("https://github.com/o/r")),
            (
                "https://gitlab.example.com:8443/g/s/r.git",
                Some("https://gitlab.example.com:8443/g/s/r"),
            ),
            ("git@github.com:o/r.git", Some("https://github.com/o/r")),
            ("ssh://git@gitlab.example.com:2222/o/r.git", Some("https://gitlab.example.com/o/r")),
            ("git://github.com/o/r", Some("https://github.com/o/r")),
            ("https://github.com/o/r?x=\"", Some("https://github.com/o/r%3Fx%3D%22")),
            ("/srv/github/r.git", None),
            ("../r.git", None),
            ("./a:b", None),
            ("file:///srv/r.git", None),
            ("ext::sh -c x", None),
            ("https://gi\"thub.com/o/r", None),
            ("https://github.com", None),
            ("", None),
        ] {
            assert_eq!(web_address(remote).as_deref(), expected, "{remote}");
        }
    }

    #[test]
    fn hosts_are_detected_by_name() {
        assert_eq!(GitHost::detect("https://github.com/o/r"), Some(GitHost::GitHub));
        assert_eq!(GitHost::detect("https://gitlab.example.com/o/r"), Some(GitHost::GitLab));
        assert_eq!(GitHost::detect("https://example.com/github/r"), None);
    }

    #[test]
    fn only_addresses_of_pages_and_files_are_base_urls() {
        for text in ["https://x.example/a", "http://x", "file:///srv/a"] {
            assert_eq!(text.parse(), Ok(BaseUrl(text.to_owned())));
        }
        assert_eq!("https://x.example/a//".parse(), Ok(BaseUrl("https://x.example/a".to_owned())));
        for text in
            ["javascript:alert(1)", "x.example", "https://", "https://a b", "https://a\"b", "//x"]
        {
            assert_eq!(text.parse::<BaseUrl>(), Err(BaseUrlError(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn paths_are_escaped_and_files_are_the_last_resort() {
        let links = DocumentLinks { base: None, published: None };
        let link = links.link(Path::new("/srv/my repo"), Path::new("a/ä#?.md"));
        assert_eq!(link.url, "file:///srv/my%20repo/a/%C3%A4%23%3F.md");
        assert!(!link.has_line_anchors);
        let base = Some("https://x.example/main".parse().unwrap());
        let links = DocumentLinks { base, published: None };
        let link = links.link(Path::new("/srv"), Path::new("a/b.md"));
        assert_eq!(link.url, "https://x.example/main/a/b.md");
    }
}
