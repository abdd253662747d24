//! The pages of the book: which there are, what they link to, and a copy for mdBook.
//!
//! The copy has the folders of the repository, so that links between pages, and to examples, work
//! in the book as they work in the repository.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use enhancement::{Document, Group, LinkResolver, LinkTarget, TemplateSentences};

use crate::summary::{self, Summary};

/// Checks all pages, and copies them with the files that they link to into `out`, which mdBook
/// builds. Returns what is wrong.
pub(crate) fn collect(root: &Path, out: &Path) -> Result<Vec<String>> {
    let summary = summary::read(root)?;
    let mut findings = missing_pages(root, &summary)?;
    let mut linked = BTreeSet::new();
    for page in &summary.pages {
        let links = check(root, page, &mut findings)?;
        for target in links {
            let path = root.join(&target);
            if path.is_dir() {
                findings.push(format!(
                    "{}: links to the directory {}, which is not part of a book; link to a file",
                    page.display(),
                    target.display()
                ));
            } else if target.extension().is_some_and(|it| it == "md") {
                if !summary.pages.contains(&target) {
                    findings.push(format!(
                        "{}: links to {}, which is not in {}",
                        page.display(),
                        target.display(),
                        summary::PATH
                    ));
                }
            } else {
                linked.insert(target);
            }
        }
    }
    let source = out.join("src");
    for file in summary.pages.iter().chain(&linked) {
        copy(&root.join(file), &source.join(file))?;
    }
    write(&source.join("SUMMARY.md"), &summary.text)?;
    copy(&root.join("docs/book.toml"), &out.join("book.toml"))?;
    Ok(findings)
}

/// Pages below `docs/` that the table of contents lacks, and entries without a page.
fn missing_pages(root: &Path, summary: &Summary) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for folder in ["docs", "docs/reference"] {
        let reading = || format!("reading {}", root.join(folder).display());
        for entry in fs::read_dir(root.join(folder)).with_context(reading)? {
            let page = Path::new(folder).join(entry.with_context(reading)?.file_name());
            let is_page = page.extension().is_some_and(|it| it == "md")
                && page != Path::new(summary::PATH)
                && !summary.pages.contains(&page);
            if is_page {
                findings.push(format!("{}: has no entry for {}", summary::PATH, page.display()));
            }
        }
    }
    findings.sort();
    let mut seen = BTreeSet::new();
    for page in &summary.pages {
        if !root.join(page).is_file() {
            findings.push(format!("{}: {} does not exist", summary::PATH, page.display()));
        }
        if !seen.insert(page) {
            findings.push(format!("{}: {} is listed twice", summary::PATH, page.display()));
        }
    }
    Ok(findings)
}

/// Checks the links of a page. Returns the files of the repository that it links to.
fn check(root: &Path, page: &Path, findings: &mut Vec<String>) -> Result<BTreeSet<PathBuf>> {
    let path = root.join(page);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let targets = Targets { root, page, found: RefCell::default() };
    let document = Document::parse("", text);
    for finding in document.findings(&targets, &TemplateSentences::community()) {
        if finding.rule.group() == Group::Links {
            findings.push(format!("{}:{}: {}", page.display(), finding.at, finding.message));
        }
    }
    Ok(targets.found.into_inner())
}

/// Finds the targets of links, and remembers them.
struct Targets<'a> {
    root: &'a Path,
    page: &'a Path,
    found: RefCell<BTreeSet<PathBuf>>,
}

impl LinkResolver for Targets<'_> {
    fn resolve(&self, path: &str) -> LinkTarget {
        let folder = match path.strip_prefix('/') {
            Some(_) => Path::new(""),
            None => self.page.parent().unwrap_or(Path::new("")),
        };
        let target = summary::normalize(&folder.join(path.trim_start_matches('/')));
        let file = self.root.join(&target);
        let resolved = match fs::metadata(&file) {
            Ok(kind) if kind.is_file() && target.extension().is_some_and(|it| it == "md") => {
                fs::read_to_string(&file).map_or(LinkTarget::Present, |text| {
                    LinkTarget::Document(enhancement::anchors(text))
                })
            }
            Ok(_) => LinkTarget::Present,
            Err(_) => return LinkTarget::Missing,
        };
        self.found.borrow_mut().insert(target);
        resolved
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
    write(to, bytes)
}

pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let writing = || format!("writing {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(writing)?;
    }
    fs::write(path, content).with_context(writing)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with these files, and what `collect` finds in it.
    fn collected(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<String>) {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("docs/reference")).unwrap();
        write(&top.path().join("docs/book.toml"), "").unwrap();
        for (path, text) in files {
            write(&top.path().join(path), text).unwrap();
        }
        let findings = collect(top.path(), &top.path().join("out")).unwrap();
        (top, findings)
    }

    #[test]
    fn pages_and_linked_files_are_copied_with_their_folders() {
        let (top, findings) = collected(&[
            ("docs/SUMMARY.md", "- [A](a.md)\n- [Top](../TOP.md)\n"),
            ("docs/a.md", "# A\n\n[up](../TOP.md#two) [file](../examples/x.yaml)\n"),
            ("TOP.md", "# Top\n\n## Two\n"),
            ("examples/x.yaml", "x: 1\n"),
            ("examples/not-linked.yaml", ""),
        ]);
        assert_eq!(findings, Vec::<String>::new());
        let has = |path: &str| top.path().join("out/src").join(path).is_file();
        assert!(has("docs/a.md") && has("TOP.md") && has("examples/x.yaml") && has("SUMMARY.md"));
        assert!(!has("examples/not-linked.yaml"));
    }

    #[test]
    fn every_kind_of_broken_link_is_found() {
        let (_top, findings) = collected(&[
            ("docs/SUMMARY.md", "- [A](a.md)\n- [Gone](gone.md)\n"),
            ("docs/a.md", "# A\n\n[1](b.md) [2](#c) [3](../docs) [4](unlisted.md)\n"),
            ("docs/unlisted.md", "# Unlisted\n"),
            ("docs/gone.md", ""),
        ]);
        let text = findings.join("\n");
        for expected in [
            "docs/SUMMARY.md: has no entry for docs/unlisted.md",
            "docs/a.md:3:1: b.md does not exist",
            "this document has no anchor #c",
            "links to the directory docs",
            "links to docs/unlisted.md, which is not in docs/SUMMARY.md",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
    }
}
