//! What is released: version, commit, date.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    /// `0.1.0`.
    pub(crate) number: String,
    pub(crate) commit: String,
    /// The date of the commit in UTC, `YYYY-MM-DD`.
    pub(crate) date: String,
    /// The time of the commit, in seconds since 1970: the time of every file in an artefact.
    pub(crate) epoch: u64,
    pub(crate) is_dirty: bool,
}

impl Release {
    /// Reads it from the checkout.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let git = |arguments: &[&str]| git(root, arguments);
        let epoch = git(&["log", "-1", "--format=%ct"])?;
        Ok(Self {
            number: env!("CARGO_PKG_VERSION").to_owned(),
            commit: git(&["rev-parse", "HEAD"])?,
            date: git(&["log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%d"])?,
            epoch: epoch.parse().with_context(|| format!("reading the commit time `{epoch}`"))?,
            // All files, since man pages, units and licenses are in the artefacts too.
            is_dirty: !git(&["status", "--porcelain"])?.is_empty(),
        })
    }

    /// The version of packages and in file names. A dirty checkout is visible in it, so that its
    /// artefacts cannot be mistaken for those of the commit.
    pub(crate) fn version(&self) -> String {
        let dirty = if self.is_dirty { "+dirty" } else { "" };
        format!("{}{dirty}", self.number)
    }

    /// The same where `+` is not allowed: tags of images.
    pub(crate) fn tag(&self) -> String {
        self.version().replace('+', "-")
    }

    /// What `--version` prints after the name of the program.
    pub(crate) fn version_text(&self) -> String {
        let short = self.commit.get(..12).unwrap_or(&self.commit);
        let dirty = if self.is_dirty { ", dirty" } else { "" };
        format!("{} (commit {short}, {}{dirty})", self.number, self.date)
    }

    /// What the build script of `build-info` reads.
    pub(crate) fn variables(&self) -> [(&'static str, String); 4] {
        let state = if self.is_dirty { "dirty" } else { "clean" };
        [
            ("LANDFALL_COMMIT", self.commit.clone()),
            ("LANDFALL_COMMIT_DATE", self.date.clone()),
            ("LANDFALL_TREE_STATE", state.to_owned()),
            ("SOURCE_DATE_EPOCH", self.epoch.to_string()),
        ]
    }
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let line = || format!("`git {}` in {}", arguments.join(" "), root.display());
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .env("TZ", "UTC")
        .output()
        .with_context(|| format!("starting {}", line()))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}", line(), error.trim());
    Ok(String::from_utf8(output.stdout).with_context(line)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn checkout() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let run = |line: &str| {
            let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
            let mut command = Command::new("git");
            command.args(identity).args(line.split(' ')).current_dir(folder.path());
            command.env("GIT_COMMITTER_DATE", "2026-01-31T23:30:00-02:00");
            assert!(command.output().unwrap().status.success(), "{line}");
        };
        fs::write(folder.path().join("a"), "1").unwrap();
        for line in ["init -q", "add a", "commit -q -m first"] {
            run(line);
        }
        folder
    }

    #[test]
    fn the_date_is_that_of_the_commit_in_utc() {
        let release = Release::read(checkout().path()).unwrap();
        assert_eq!((release.date.as_str(), release.epoch), ("2026-02-01", 1_769_909_400));
        assert!(!release.is_dirty);
        assert_eq!(release.version(), env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn a_dirty_checkout_is_visible_in_every_form_of_the_version() {
        let folder = checkout();
        fs::write(folder.path().join("b"), "new").unwrap();
        let release = Release::read(folder.path()).unwrap();
        assert!(release.version().ends_with("+dirty"));
        assert!(release.tag().ends_with("-dirty"));
        assert!(release.version_text().ends_with(", dirty)"), "{}", release.version_text());
        assert!(release.variables().contains(&("LANDFALL_TREE_STATE", "dirty".to_owned())));
    }

    #[test]
    fn a_folder_without_git_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = Release::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
    }
}
