//! Checks the links of the HTML that mdBook wrote: files and anchors.
//!
//! The links of the pages are checked before. What mdBook makes of them may differ: it renames
//! pages, and gives headings their anchors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use regex::Regex;

use crate::summary::normalize;

/// One file.
#[derive(Debug, Default)]
struct Page {
    anchors: BTreeSet<String>,
    links: BTreeSet<String>,
}

/// Returns the links without a target below `folder`.
pub(crate) fn check(folder: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    read(folder, folder, &mut pages)?;
    let mut findings = Vec::new();
    for (path, page) in &pages {
        // The page with everything, for printing: its anchors repeat between chapters.
        if path == Path::new("print.html") || path == Path::new("404.html") {
            continue;
        }
        for link in &page.links {
            if let Some(reason) = problem(folder, &pages, path, link) {
                findings.push(format!("{}: {link} {reason}", path.display()));
            }
        }
    }
    Ok(findings)
}

fn problem(
    folder: &Path,
    pages: &BTreeMap<PathBuf, Page>,
    from: &Path,
    link: &str,
) -> Option<&'static str> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => from.to_owned(),
        path => normalize(&from.parent().unwrap_or(Path::new("")).join(path)),
    };
    if !folder.join(&target).is_file() {
        return Some("does not exist");
    }
    let has_anchor = match pages.get(&target) {
        Some(page) => anchor.is_empty() || page.anchors.contains(anchor),
        None => true,
    };
    (!has_anchor).then_some("has no such anchor")
}

fn read(top: &Path, folder: &Path, pages: &mut BTreeMap<PathBuf, Page>) -> Result<()> {
    let reading = || format!("reading {}", folder.display());
    for entry in fs::read_dir(folder).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        if path.is_dir() {
            read(top, &path, pages)?;
        } else if path.extension().is_some_and(|it| it == "html") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            pages.insert(path.strip_prefix(top)?.to_owned(), parse(&text)?);
        }
    }
    Ok(())
}

fn parse(text: &str) -> Result<Page> {
    let attributes = Regex::new(r#"\s(id|href|src)="([^"]*)""#)?;
    let scheme = Regex::new("^([a-z][a-z0-9+.-]*:|//)")?;
    let mut page = Page::default();
    for found in attributes.captures_iter(text) {
        let value = found[2].replace("&amp;", "&");
        match &found[1] {
            "id" => _ = page.anchors.insert(value),
            _ if value.is_empty() || value == "#" || scheme.is_match(&value) => {}
            _ => _ = page.links.insert(value),
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_and_anchors_are_found() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("docs")).unwrap();
        fs::write(top.path().join("index.html"), r#"<h1 id="a">A</h1>"#).unwrap();
        let page = r##"<a href="../index.html#a">1</a> <a href="../index.html#b">2</a>
            <a href="gone.html">3</a> <img src="gone.svg"> <a href="https://x/">4</a> <a href="#c">5</a>"##;
        fs::write(top.path().join("docs/b.html"), page).unwrap();
        assert_eq!(
            check(top.path()).unwrap(),
            [
                "docs/b.html: #c has no such anchor",
                "docs/b.html: ../index.html#b has no such anchor",
                "docs/b.html: gone.html does not exist",
                "docs/b.html: gone.svg does not exist",
            ]
        );
    }
}
