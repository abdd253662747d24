//! The files of a catalog: which count, and all of them as JSON text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::load_error::LoadError;
use crate::yaml::{self, RepeatedKey};

/// Files with patterns of files that are not part of the catalog.
const IGNORE_FILE: &str = ".indexignore";
const MAX_FILES: usize = 200_000;
const MAX_PATH_BYTES: usize = 4096;

/// The files of one catalog, ready to be read.
#[derive(Debug)]
pub struct Files<'a> {
    pub(crate) list: Vec<File<'a>>,
    /// Those that cannot be read. They do not affect the others.
    pub(crate) left_out: Vec<LeftOut>,
    /// Keys that a map of a file has more than once, each in a sentence with its place.
    pub(crate) repeated_keys: Vec<String>,
}

/// A file, or a document of one, that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub path: String,
    /// With the place in the file, where there is one.
    pub why: String,
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
    /// `.indexignore` are left out, and so are those that cannot be read, which the catalog lists
    /// then. JSON stays where it is; YAML is converted to JSON.
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
        let list = Vec::with_capacity(by_path.len());
        let mut read = Self { list, left_out: Vec::new(), repeated_keys: Vec::new() };
        for (path, bytes) in by_path {
            if file_name(&path) == IGNORE_FILE || ignored.has(&path) {
                continue;
            }
            match read.file(&path, bytes) {
                Ok(file) => read.list.push(file),
                Err(error) => read.left_out.push(LeftOut { path, why: error.to_string() }),
            }
        }
        Ok(read)
    }

    fn file(&mut self, path: &str, bytes: &'a [u8]) -> Result<File<'a>, LoadError> {
        let text = text(path, bytes)?;
        if text.trim_start().starts_with('{') {
            let json = Cow::Borrowed(text);
            return Ok(File { path: path.to_owned(), json, yaml_lines: None });
        }
        let converted = yaml::to_json(text).map_err(|error| LoadError::Yaml {
            path: path.to_owned(),
            line: error.line,
            column: error.column,
            why: error.why,
        })?;
        self.repeated_keys.extend(converted.repeated.iter().map(
            |RepeatedKey { line, column, key }| {
                format!(
                    "{path}:{line}:{column}: the key {key:?} is repeated; its last value is used"
                )
            },
        ));
        let json = Cow::Owned(converted.json);
        Ok(File { path: path.to_owned(), json, yaml_lines: Some(converted.starts) })
    }

    /// Bytes of all documents.
    pub fn json_bytes(&self) -> usize {
        self.list.iter().map(|file| file.json.len()).sum()
    }
}

impl File<'_> {
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

    /// Whether the file does not count. The deepest folder with an entry decides.
    fn has(&self, path: &str) -> bool {
        let path = Path::new("/").join(path);
        let rules = self.0.iter().rev().filter(|matcher| path.starts_with(matcher.path()));
        rules
            .map(|matcher| matcher.matched_path_or_any_parents(&path, false))
            .find(|found| !found.is_none())
            .is_some_and(|found| found.is_ignore())
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
    fn files_that_cannot_be_read_are_left_out_with_the_place_and_the_others_stay() {
        let files = [
            ("a.json", &b"{\"a\": \"\xff\"}"[..]),
            ("b.yaml", &b"a: 1\nb: [\n"[..]),
            ("c.yaml", &b"a: 1\na: 2\n"[..]),
        ];
        let read = Files::read(files).unwrap();
        let paths: Vec<&str> = read.list.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["c.yaml"]);
        assert_eq!(read.left_out[0].why, "a.json is not text: byte 7 is not UTF-8");
        assert!(read.left_out[1].why.starts_with("b.yaml:"), "{:?}", read.left_out);
        assert_eq!(
            read.repeated_keys,
            ["c.yaml:2:1: the key \"a\" is repeated; its last value is used"]
        );
    }
}
