//! The documentation: what programs generate about themselves (man pages, the reference of flags, the
//! diagrams), and the book that is built from all of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::build::{self, Build};
use crate::{flags, repository, tools};

/// Programs that write documents about themselves.
const PROGRAMS: [&str; 6] =
    ["oc-mirror", "enhance", "oc-brex", "brex-firstboot", "brex-report", "nmstate-operator"];

/// What each of them writes: folders below `docs/` that hold generated files and nothing else.
const PROGRAM_FOLDERS: [&str; 2] = ["man", "reference"];

/// What the program `book` writes.
const DIAGRAMS: [&str; 1] = ["diagrams"];

/// Files by their path below `docs/`.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A file below `docs/` that is not what its program writes.
#[derive(Debug, PartialEq, Eq)]
enum Difference<'a> {
    Missing(&'a Path),
    Outdated(&'a Path),
    Stale(&'a Path),
}

/// `cargo xtask docs`.
pub(crate) fn docs(arguments: Vec<OsString>) -> Result<()> {
    let [only_check] = flags(arguments, ["check"])?;
    let build = build::workspace()?;
    let skipped = if only_check {
        check(&build)?
    } else {
        let (generated, committed) = (generate(&build)?, committed()?);
        let differences = compare(&generated, &committed);
        print(&differences);
        apply(&generated, &differences)?;
        tools::run(&["build", "book"])?;
        book(&build)?
    };
    skipped.iter().for_each(|part| println!("skipped: {part}"));
    Ok(())
}

/// Fails if a file is not what its program writes, a link of the book has no target, or a tutorial
/// does not work as printed. Returns the commands of tutorials that cannot run on this machine.
pub(crate) fn check(build: &Build) -> Result<Vec<String>> {
    let (generated, committed) = (generate(build)?, committed()?);
    let differences = compare(&generated, &committed);
    print(&differences);
    if !differences.is_empty() {
        bail!("generated documents differ from the programs; run `cargo xtask docs` and commit");
    }
    book(build)
}

/// Builds the book into `target/xtask/book/book`, checks its links, and runs its tutorials.
fn book(build: &Build) -> Result<Vec<String>> {
    let program = build.program("book")?;
    let (root, folder) = (repository::root(), repository::scratch("book")?);
    let mut collect = Command::new(program);
    collect.arg("collect").arg("--root").arg(&root).arg("--out").arg(&folder);
    repository::run(&mut collect)?;
    repository::run(Command::new(tools::path("mdbook")?).arg("build").arg(&folder))?;
    let html = folder.join("book");
    repository::run(Command::new(program).arg("check-html").arg(&html))?;
    println!("    the book is in {}", html.display());

    let programs = build.program("oc-mirror")?.parent().context("a program is in a folder")?;
    let mut tutorials = Command::new(program);
    tutorials.arg("tutorials").arg("--root").arg(&root).arg("--programs").arg(programs);
    let output = tutorials.stderr(Stdio::inherit()).output().context("starting `book`")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (skipped, printed): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with(SKIPPED));
    printed.iter().for_each(|line| println!("    {line}"));
    ensure!(output.status.success(), "a tutorial does not work as printed");
    Ok(skipped.iter().map(|line| line.trim_start_matches(SKIPPED).to_owned()).collect())
}

/// Begins a line of `book tutorials` about commands that were not run.
const SKIPPED: &str = "skipped: ";

fn print(differences: &[Difference<'_>]) {
    for difference in differences {
        println!("    {difference}");
    }
}

fn generate(build: &Build) -> Result<Files> {
    let mut all = Files::new();
    let of_programs = PROGRAMS.iter().map(|program| (*program, &PROGRAM_FOLDERS[..]));
    for (program, folders) in of_programs.chain([("book", &DIAGRAMS[..])]) {
        let out = repository::scratch("docs")?;
        let mut command = Command::new(build.program(program)?);
        repository::run(command.args(["generate-docs", "--out"]).arg(&out))?;
        let files = read(&out, folders)?;
        for folder in folders {
            if !files.keys().any(|path| path.starts_with(folder)) {
                bail!("`{program} generate-docs` wrote nothing into {folder}/");
            }
        }
        for (path, content) in files {
            if all.insert(path.clone(), content).is_some() {
                bail!(
                    "`{program} generate-docs` writes {}, as another program does",
                    path.display()
                );
            }
        }
    }
    Ok(all)
}

fn committed() -> Result<Files> {
    read(&repository::root().join("docs"), &[&PROGRAM_FOLDERS[..], &DIAGRAMS].concat())
}

/// The files in these folders below `top`.
fn read(top: &Path, folders: &[&str]) -> Result<Files> {
    let mut files = Files::new();
    for folder in folders {
        let entries = match fs::read_dir(top.join(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries,
        };
        let reading = || format!("reading {}", top.join(folder).display());
        for entry in entries.with_context(reading)? {
            let path = entry.with_context(reading)?.path();
            let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            files.insert(path.strip_prefix(top)?.to_owned(), content);
        }
    }
    Ok(files)
}

fn compare<'a>(generated: &'a Files, committed: &'a Files) -> Vec<Difference<'a>> {
    let new = generated.iter().filter_map(|(path, content)| match committed.get(path) {
        None => Some(Difference::Missing(path)),
        Some(held) if held != content => Some(Difference::Outdated(path)),
        Some(_) => None,
    });
    let stale = committed.keys().filter(|path| !generated.contains_key(*path));
    new.chain(stale.map(|path| Difference::Stale(path))).collect()
}

fn apply(generated: &Files, differences: &[Difference<'_>]) -> Result<()> {
    let docs = repository::root().join("docs");
    for difference in differences {
        match difference {
            Difference::Missing(path) | Difference::Outdated(path) => {
                let target = docs.join(path);
                let writing = || format!("writing {}", target.display());
                let folder = target.parent().unwrap_or(&docs);
                fs::create_dir_all(folder).with_context(writing)?;
                fs::write(&target, &generated[*path]).with_context(writing)?;
            }
            Difference::Stale(path) => {
                let target = docs.join(path);
                fs::remove_file(&target)
                    .with_context(|| format!("removing {}", target.display()))?;
            }
        }
    }
    Ok(())
}

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, what) = match self {
            Self::Missing(path) => (path, "is missing"),
            Self::Outdated(path) => (path, "is out of date"),
            Self::Stale(path) => (path, "is no longer written by any program"),
        };
        write!(f, "docs/{} {what}", path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        list.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn every_way_to_differ_is_found() {
        let generated = files(&[("man/a.1", "new"), ("man/b.1", "b"), ("man/c.1", "same")]);
        let committed = files(&[("man/a.1", "old"), ("man/c.1", "same"), ("man/d.1", "d")]);
        assert_eq!(
            compare(&generated, &committed),
            [
                Difference::Outdated(Path::new("man/a.1")),
                Difference::Missing(Path::new("man/b.1")),
                Difference::Stale(Path::new("man/d.1")),
            ]
        );
    }

    #[test]
    fn only_generated_folders_are_read() {
        let top = std::env::temp_dir().join(format!("xtask-docs-{}", std::process::id()));
        fs::create_dir_all(top.join("man")).unwrap();
        fs::write(top.join("man/a.1"), "a").unwrap();
        fs::write(top.join("handbook.md"), "by hand").unwrap();
        let found = read(&top, &PROGRAM_FOLDERS);
        fs::remove_dir_all(&top).unwrap();
        assert_eq!(found.unwrap(), files(&[("man/a.1", "a")]));
    }
}
