//! The files of a catalog: which count, and all of them as JSON text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::load_error::LoadError;
use crate::yaml;

/// Files with patterns of files that are not part of the catalog.
const IGNORE_FILE: &str = ".indexignore";
const MAX_FILES: usize = 200_000;
const MAX_PATH_BYTES: usize = 4096;

/// The files of one catalog, ready to be read.
#[derive(Debug)]
pub struct Files<'a> {
    pub(crate) list: Vec<File<'a>>,
}

/// One file: a stream of JSON documents.
#[derive(Debug)]
pub(crate) struct File<'a> {
    pub(crate) path: String,
    pub(crate) json: Cow<'a, str>,
    /// Where the documents start in `json`, and on which line of the file; `None` when the file
    /// itself is JSON.
    pub(crate) yaml_lines: Option<Vec<(usize, usize)>>,
}

impl<'a> Files<'a> {
    /// Takes the files below a catalog's folder, each with its path from there. Files named in an
    /// `.indexignore` are left out. JSON stays where it is; YAML is written anew as JSON.
    pub fn read<P: Into<String>>(
        files: impl IntoIterator<Item = (P, &'a [u8])>,
    ) -> Result<Self, LoadError> {
        let mut by_path: BTreeMap<String, &'a [u8]> = BTreeMap::new();
        for (path, bytes) in files {
            let path = checked(&path.into())?;
            by_path.insert(path, bytes);
            if by_path.len() > MAX_FILES {
                return Err(LoadError::TooManyFiles { limit: MAX_FILES });
            }
        }
        let ignored = Ignored::of(&by_path)?;
        let mut list = Vec::with_capacity(by_path.len());
        for (path, bytes) in by_path {
            if file_name(&path) != IGNORE_FILE && !ignored.has(&path) {
                list.push(File::read(path, bytes)?);
            }
        }
        Ok(Self { list })
    }

    /// Bytes of all documents.
    pub fn json_bytes(&self) -> usize {
        self.list.iter().map(|file| file.json.len()).sum()
    }
}

impl<'a> File<'a> {
    fn read(path: String, bytes: &'a [u8]) -> Result<Self, LoadError> {
        let text = text(&path, bytes)?;
        if text.trim_start().starts_with('{') {
            return Ok(Self { path, json: Cow::Borrowed(text), yaml_lines: None });
        }
        let converted = yaml::to_json(text).map_err(|error| LoadError::Yaml {
            path: path.clone(),
            line: error.line,
            column: error.column,
            why: error.why,
        })?;
        let json = Cow::Owned(converted.json);
        Ok(Self { path, json, yaml_lines: Some(converted.starts) })
    }

    /// Line and column in the file of the byte at `offset` of the JSON.
    pub(crate) fn place(&self, offset: usize) -> (usize, usize) {
        if let Some(starts) = &self.yaml_lines {
            let before = starts.partition_point(|(start, _)| *start <= offset);
            return (before.checked_sub(1).map_or(1, |index| starts[index].1), 1);
        }
        let before = &self.json.as_bytes()[..offset.min(self.json.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        (lines + 1, before.len() - line_start + 1)
    }
}

fn text<'a>(path: &str, bytes: &'a [u8]) -> Result<&'a str, LoadError> {
    std::str::from_utf8(bytes)
        .map_err(|error| LoadError::NotText { path: path.to_owned(), at: error.valid_up_to() })
}

/// A path from the catalog's folder that stays below it.
fn checked(path: &str) -> Result<String, LoadError> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let bad = path.is_empty()
        || path.len() > MAX_PATH_BYTES
        || path.contains(['\0', '\n'])
        || path.split('/').any(|part| matches!(part, "" | "." | ".."));
    let path = path.to_owned();
    if bad { Err(LoadError::Path { path }) } else { Ok(path) }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The patterns of all `.indexignore` files; each counts for its own folder and those below.
struct Ignored(Vec<Gitignore>);

impl Ignored {
    fn of(files: &BTreeMap<String, &[u8]>) -> Result<Self, LoadError> {
        let mut matchers = Vec::new();
        for (path, bytes) in files.iter().filter(|(path, _)| file_name(path) == IGNORE_FILE) {
            let folder = path.strip_suffix(IGNORE_FILE).unwrap_or_default();
            let mut builder = GitignoreBuilder::new(Path::new("/").join(folder));
            for line in text(path, bytes)?.lines() {
                builder.add_line(None, line).map_err(|source| LoadError::Pattern {
                    path: path.clone(),
                    pattern: line.to_owned(),
                    source,
                })?;
            }
            let pattern = || "all of them together".to_owned();
            matchers.push(builder.build().map_err(|source| LoadError::Pattern {
                path: path.clone(),
                pattern: pattern(),
                source,
            })?);
        }
        Ok(Self(matchers))
    }

    /// Whether the file does not count. The deepest folder that says something decides.
    fn has(&self, path: &str) -> bool {
        let path = Path::new("/").join(path);
        let said = self.0.iter().rev().filter(|matcher| path.starts_with(matcher.path()));
        said.map(|matcher| matcher.matched_path_or_any_parents(&path, false))
            .find(|said| !said.is_none())
            .is_some_and(|said| said.is_ignore())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| (*path, text.as_bytes()));
        Files::read(files).unwrap().list.into_iter().map(|file| file.path).collect()
    }

    #[test]
    fn what_an_ignore_file_names_is_left_out() {
        let files = [
            (".indexignore", "/etcd\n/wrong.json\n*.md\n!keep.md\n# comment\n"),
            ("etcd/a.json", "{}"),
            ("other/etcd/a.json", "{}"),
            ("wrong.json", "{}"),
            ("other/wrong.json", "{}"),
            ("other/README.md", "not YAML: [\n"),
            ("other/keep.md", "{}"),
            ("third/.indexignore", "b.json\n"),
            ("third/b.json", "{}"),
            ("fourth/b.json", "{}"),
        ];
        assert_eq!(
            kept(&files),
            ["fourth/b.json", "other/etcd/a.json", "other/keep.md", "other/wrong.json"]
        );
    }

    #[test]
    fn files_are_taken_in_the_order_of_their_paths() {
        assert_eq!(kept(&[("b", "{}"), ("./a", "{}"), ("a.json", "a: 1")]), ["a", "a.json", "b"]);
    }

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        for path in ["/etc/passwd", "../x", "a/../b", "a//b", ""] {
            let files = [(path, &b"{}"[..])];
            assert!(matches!(Files::read(files), Err(LoadError::Path { .. })), "{path}");
        }
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_place() {
        let error = Files::read([("a.json", &b"{\"a\": \"\xff\"}"[..])]).unwrap_err();
        assert_eq!(error.to_string(), "a.json is not text: byte 7 is no UTF-8");
        let error = Files::read([("a.yaml", &b"a: 1\nb: [\n"[..])]).unwrap_err().to_string();
        assert!(error.starts_with("a.yaml:"), "{error}");
    }
}
