//! Paths with slashes.

use go_template::{Arguments, Arity, Functions};

type Change = fn(&str) -> String;

pub(super) fn register(functions: &mut Functions) {
    let changes: [(&str, &str, Change); 4] = [
        ("base", "osBase", base),
        ("dir", "osDir", directory),
        ("clean", "osClean", clean),
        ("ext", "osExt", extension),
    ];
    for (name, os_name, change) in changes {
        for name in [name, os_name] {
            functions.add(name, Arity::exactly(1), move |call, values| {
                let path = values.text(0)?;
                call.text(change(&path))
            });
        }
    }
    for name in ["isAbs", "osIsAbs"] {
        functions
            .add(name, Arity::exactly(1), |_, values| Ok(values.text(0)?.starts_with('/').into()));
    }
}

pub(crate) fn base(path: &str) -> String {
    if path.is_empty() {
        return ".".to_owned();
    }
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit('/').next() {
        Some("") | None => "/".to_owned(),
        Some(name) => name.to_owned(),
    }
}

fn directory(path: &str) -> String {
    clean(&path[..path.rfind('/').map_or(0, |at| at + 1)])
}

fn extension(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rfind('.').map_or(String::new(), |at| name[at..].to_owned())
}

/// The shortest path that names the same, without reading any file.
pub(crate) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    match (rooted, parts.join("/")) {
        (true, joined) => format!("/{joined}"),
        (false, joined) if joined.is_empty() => ".".to_owned(),
        (false, joined) => joined,
    }
}
