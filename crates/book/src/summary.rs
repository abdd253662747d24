//! `docs/SUMMARY.md`: the table of contents.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result};
use regex::Regex;

/// Where the table of contents is, from the top of the repository.
pub(crate) const PATH: &str = "docs/SUMMARY.md";

/// The table of contents.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The pages in their order, from the top of the repository.
    pub(crate) pages: Vec<PathBuf>,
    /// The text with paths from the top of the repository instead of from `docs/`.
    pub(crate) text: String,
}

/// Reads the table of contents of the repository at `root`.
pub(crate) fn read(root: &Path) -> Result<Summary> {
    let path = root.join(PATH);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(parse(&text))
}

static ENTRY: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\[(?<title>[^\]]+)\]\((?<path>[^)]+)\)").ok());

fn parse(text: &str) -> Summary {
    let mut pages = Vec::new();
    let lines = text.lines().map(|line| {
        let Some(entry) = ENTRY.as_ref().and_then(|entry| entry.captures(line)) else {
            return line.to_owned();
        };
        let page = normalize(&Path::new("docs").join(&entry["path"]));
        let line = line.replace(&format!("({})", &entry["path"]), &format!("({})", page.display()));
        pages.push(page);
        line
    });
    let text = lines.collect::<Vec<_>>().join("\n") + "\n";
    Summary { pages, text }
}

/// Removes `.` and `..` from a relative path.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::Normal(part) => parts.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_count_from_the_top_of_the_repository() {
        let summary = parse("# Summary\n\n[Start](../README.md)\n\n- [A](a.md)\n  - [B](b/c.md)\n");
        assert_eq!(summary.pages, ["README.md", "docs/a.md", "docs/b/c.md"].map(PathBuf::from));
        let expected =
            "# Summary\n\n[Start](README.md)\n\n- [A](docs/a.md)\n  - [B](docs/b/c.md)\n";
        assert_eq!(summary.text, expected);
    }
}
