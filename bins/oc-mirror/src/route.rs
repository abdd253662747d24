//! From where to where: the destination, `--from` and `--workspace` decide the mode.

use std::path::{Path, PathBuf};

use mirror::Workflow;
use mirror_plan::Target;

use crate::problem::{Problem, chain};

const FILE: &str = "file://";
const REGISTRY: &str = "docker://";
/// What a workspace is called inside the directory the user names.
const WORKING_DIR: &str = "working-dir";

const THREE_WAYS: &str = "file://DIR; or --from file://DIR docker://REGISTRY; \
                          or --workspace file://DIR docker://REGISTRY";

/// Finds the mode, or everything that keeps it from being clear.
pub(crate) fn mode(
    destinations: &[String],
    from: Option<&str>,
    workspace: Option<&str>,
) -> Result<Workflow, Vec<Problem>> {
    // An empty value is what an unset shell variable leaves behind; Go programs take it as "not given".
    let from = from.filter(|text| !text.is_empty());
    let workspace = workspace.filter(|text| !text.is_empty());
    let mut problems = Vec::new();
    let destination = match destinations {
        [] => {
            problems.push(Problem::new("no destination was given").with_hint(THREE_WAYS));
            None
        }
        [destination] => Some(destination.as_str()),
        [first, others @ ..] => {
            problems.push(
                Problem::new(format!(
                    "expected one destination, found {}: {first} {}",
                    others.len() + 1,
                    others.join(" ")
                ))
                .with_hint("flags with a value need it right behind them, or behind `=`"),
            );
            None
        }
    };
    let mut take = |flag: &str, text: Option<&str>| match text.map(|text| directory(flag, text)) {
        Some(Ok(dir)) => Some(dir),
        Some(Err(problem)) => {
            problems.push(problem);
            None
        }
        None => None,
    };
    let from_dir = take("--from", from);
    let workspace_dir = take("--workspace", workspace);

    let found = match destination {
        None => None,
        Some(text) if text.starts_with(FILE) => {
            for (flag, given) in [("--from", from), ("--workspace", workspace)] {
                if given.is_some() {
                    problems.push(Problem::new(format!(
                        "{flag} is not needed when the destination is file://: \
                         mirror to disk keeps its workspace in the destination"
                    )));
                }
            }
            match directory("the destination", text) {
                Ok(dir) => Some(Workflow::MirrorToDisk { dir }),
                Err(problem) => {
                    problems.push(problem);
                    None
                }
            }
        }
        Some(text) if text.starts_with(REGISTRY) => {
            let target = match text.parse::<Target>() {
                Ok(target) => Some(target),
                Err(error) => {
                    problems.push(Problem::new(chain(&error)));
                    None
                }
            };
            match (from, workspace) {
                (Some(_), Some(_)) => problems.push(
                    Problem::new("--from and --workspace cannot be used together")
                        .with_hint("--from is disk to mirror, --workspace mirror to mirror"),
                ),
                (None, None) => problems.push(
                    Problem::new(
                        "a destination of docker:// needs --from or --workspace to define what is mirrored",
                    )
                    .with_hint(
                        "--from file://DIR pushes transferred content; \
                         --workspace file://DIR mirrors from the registries themselves",
                    ),
                ),
                _ => {}
            }
            match (from_dir, workspace_dir, target) {
                (Some(dir), None, Some(target)) => Some(Workflow::DiskToMirror { dir, target }),
                (None, Some(dir), Some(target)) => Some(Workflow::MirrorToMirror { dir, target }),
                _ => None,
            }
        }
        Some(text) => {
            problems.push(
                Problem::new(format!(
                    "the destination {text:?} is neither file:// nor docker://, nor a command"
                ))
                .with_hint(THREE_WAYS),
            );
            None
        }
    };
    match found {
        Some(mode) if problems.is_empty() => Ok(mode),
        _ => Err(problems),
    }
}

/// The directory a `file://` address names. A relative path stays relative
/// (`file://data` is `data`), and naming the `working-dir` inside it is naming it.
pub(crate) fn directory(what: &str, text: &str) -> Result<PathBuf, Problem> {
    let Some(path) = text.strip_prefix(FILE) else {
        return Err(Problem::new(format!("{what} must start with file://, and is {text:?}")));
    };
    if path.is_empty() {
        return Err(Problem::new(format!("{what} names no directory behind file://")));
    }
    Ok(outside_working_dir(Path::new(path)))
}

/// The directory that `--workspace` names.
pub(crate) fn workspace_directory(text: &str) -> Result<PathBuf, Problem> {
    directory("--workspace", text)
}

/// The directory for `serve`, where `file://` may be left out.
pub(crate) fn served_directory(text: &str) -> Result<PathBuf, Problem> {
    match text.starts_with(FILE) {
        true => directory("the workspace", text),
        false if text.contains("://") => Err(Problem::new(format!(
            "{text:?} is not a workspace: expected a directory or file://DIR"
        ))),
        false => Ok(outside_working_dir(Path::new(text))),
    }
}

fn outside_working_dir(path: &Path) -> PathBuf {
    // Components forget trailing slashes and `/./`; what a path means stays.
    let path: PathBuf = path.components().collect();
    match path.file_name() {
        Some(name) if name == WORKING_DIR => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        },
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(line: &str) -> Result<String, String> {
        let (mut destinations, mut from, mut workspace) = (Vec::new(), None, None);
        for word in line.split_whitespace() {
            if let Some(text) = word.strip_prefix("from=") {
                from = Some(text);
            } else if let Some(text) = word.strip_prefix("workspace=") {
                workspace = Some(text);
            } else {
                destinations.push(word.to_owned());
            }
        }
        match mode(&destinations, from, workspace) {
            Ok(mode) => {
                let dir = mode.directory().display();
                Ok(match &mode {
                    Workflow::MirrorToDisk { .. } => format!("{} {dir}", mode.name()),
                    Workflow::DiskToMirror { target, .. }
                    | Workflow::MirrorToMirror { target, .. } => {
                        format!("{} {dir} {target}", mode.name())
                    }
                })
            }
            Err(problems) => Err(problems.iter().map(|p| format!("{}\n", p.message)).collect()),
        }
    }

    #[test]
    fn destination_from_and_workspace_decide_the_mode() {
        for (line, expected) in [
            ("file:///data", "mirrorToDisk /data"),
            ("file:///data/", "mirrorToDisk /data"),
            ("file:///data//x/./y/", "mirrorToDisk /data/x/y"),
            ("file://data", "mirrorToDisk data"),
            ("file://../data", "mirrorToDisk ../data"),
            ("file:///data/working-dir", "mirrorToDisk /data"),
            ("file:///data/working-dir/", "mirrorToDisk /data"),
            ("file://working-dir", "mirrorToDisk ."),
            ("file:///data/my-working-dir", "mirrorToDisk /data/my-working-dir"),
            ("from=file:///data docker://reg:5000/ns", "diskToMirror /data reg:5000/ns"),
            ("workspace=file:///data docker://reg:5000/", "mirrorToMirror /data reg:5000"),
            ("workspace=file:///data/working-dir docker://reg", "mirrorToMirror /data reg"),
            ("from= workspace=file:///w docker://reg", "mirrorToMirror /w reg"),
        ] {
            assert_eq!(find(line).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn no_word_in_a_path_is_reserved() {
        for path in ["/home/helmut/x", "/data/deleted", "/logs", "/a/dry-run/signatures"] {
            assert_eq!(find(&format!("file://{path}")), Ok(format!("mirrorToDisk {path}")));
        }
    }

    #[test]
    fn what_is_not_a_mode_is_refused_with_the_reason() {
        for (line, expected) in [
            ("", "no destination"),
            ("file:///a file:///b", "expected one destination, found 2"),
            ("file://", "names no directory"),
            ("file:///a from=file:///b", "--from is not needed"),
            ("file:///a workspace=file:///b", "--workspace is not needed"),
            ("docker://r from=file:///a workspace=file:///b", "cannot be used together"),
            ("docker://r", "needs --from or --workspace"),
            ("docker://r from=/a", "--from must start with file://"),
            ("docker://r workspace=docker://b", "--workspace must start with file://"),
            ("docker:// from=file:///a", "the target is empty"),
            ("docker://r/n:tag from=file:///a", "names an image"),
            ("/data", "neither file:// nor docker://"),
            ("x-file:///data", "neither file:// nor docker://"),
            ("lst", "neither file:// nor docker://, nor a command"),
        ] {
            let error = find(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let error = find("docker://r/n:tag from=/a workspace=/b").unwrap_err();
        assert_eq!(error.lines().count(), 4, "{error}");
    }

    #[test]
    fn a_served_workspace_is_a_directory_in_either_form() {
        assert_eq!(served_directory("file:///data"), Ok("/data".into()));
        assert_eq!(served_directory("/data/working-dir/"), Ok("/data".into()));
        assert!(served_directory("docker://reg").is_err());
    }
}
