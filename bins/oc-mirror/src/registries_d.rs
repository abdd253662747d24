//! `--registries.d`: where signatures are kept. Signatures in the registry are mirrored with their
//! image in any case; those of GPG keys are on lookaside servers, where a trust policy reads them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mirror::Lookaside;
use registry::{Environment, Url};
use serde::Deserialize;

use crate::problem::{Problem, chain};

/// No such file is larger by intent.
const MAX_BYTES: u64 = 1024 * 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "default-docker", default)]
    default_docker: Option<Entry>,
    #[serde(default)]
    docker: Option<BTreeMap<String, Option<Entry>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Entry {
    lookaside: Option<String>,
    lookaside_staging: Option<String>,
    sigstore: Option<String>,
    sigstore_staging: Option<String>,
    use_sigstore_attachments: Option<bool>,
}

/// The directory to read: the one that was named, else that of the user, else that of the system.
pub(crate) fn directory(named: Option<&Path>, environment: &Environment) -> Option<PathBuf> {
    if let Some(named) = named {
        return Some(named.to_owned());
    }
    let user = environment.home.as_ref().map(|home| home.join(".config/containers/registries.d"));
    let system = environment.system_root.join("etc/containers/registries.d");
    user.into_iter().chain([system]).find(|path| path.is_dir())
}

/// Reads every `*.yaml` of the directory. `is_named`: a user named it, so that a setting that is
/// not honored is an error.
pub(crate) fn read(dir: &Path, is_named: bool) -> Result<Lookaside, Vec<Problem>> {
    let unreadable = |path: &Path, reason: String| {
        Problem::new(format!("registries.d: reading {}: {reason}", path.display()))
    };
    let files = yaml_files(dir).map_err(|error| vec![unreadable(dir, error.to_string())])?;
    let mut lookaside = Lookaside::default();
    let mut problems = Vec::new();
    for path in files {
        match text(&path) {
            Ok(text) => problems.extend(add(&mut lookaside, &path, &text, is_named)),
            Err(error) => problems.push(unreadable(&path, error)),
        }
    }
    if problems.is_empty() { Ok(lookaside) } else { Err(problems) }
}

fn yaml_files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = entries.collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    Ok(files)
}

fn text(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// Adds the content of one file; returns what is wrong with it.
fn add(lookaside: &mut Lookaside, path: &Path, text: &str, is_named: bool) -> Vec<Problem> {
    let at = path.display();
    let file = match serde_saphyr::from_str::<Option<File>>(text) {
        Ok(file) => file.unwrap_or_default(),
        Err(error) => {
            let reason = chain(&error);
            return vec![Problem::new(format!("registries.d: reading {at}: {reason}"))];
        }
    };
    let mut problems = Vec::new();
    let mut fail = |place: &str, why: &str| {
        problems.push(Problem::new(format!("registries.d: {at}: {place}: {why}")));
    };
    let default = file.default_docker.map(|entry| (None, entry));
    let named = file.docker.into_iter().flatten();
    let named = named.filter_map(|(scope, entry)| Some((Some(scope), entry?)));
    for (scope, entry) in default.into_iter().chain(named) {
        let place = match &scope {
            Some(scope) => format!("docker.{scope}"),
            None => "default-docker".to_owned(),
        };
        if is_named && entry.use_sigstore_attachments == Some(false) {
            let why = "use-sigstore-attachments: false cannot be honored: signatures in the registry are mirrored with their image, unless --remove-signatures is given";
            fail(&place, why);
        }
        // Where signatures are written to has no effect: none are made here.
        let Some(url) = entry.lookaside.or(entry.sigstore) else { continue };
        let url: Url = match url.parse() {
            Ok(url) => url,
            Err(_) => {
                fail(&place, &format!("lookaside {url:?} is not a URL"));
                continue;
            }
        };
        if !matches!(url.scheme(), "https" | "http" | "file") {
            fail(&place, "lookaside: expected https://, http:// or file://");
            continue;
        }
        let known = match scope {
            None => lookaside.default.replace(url).is_some(),
            Some(scope) => lookaside.scopes.insert(scope, url).is_some(),
        };
        if known {
            fail(&place, "another file has the same key");
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, is_named: bool) -> (Lookaside, Vec<String>) {
        let mut lookaside = Lookaside::default();
        let problems = add(&mut lookaside, Path::new("/d/reg.yaml"), text, is_named);
        (lookaside, problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn attachments_are_what_is_done_in_any_case() {
        let text = "default-docker:\n  use-sigstore-attachments: true\n\
                    docker:\n  quay.io/x:\n    use-sigstore-attachments: true\n  reg.local:\n";
        for text in [text, "", "docker: {}\n"] {
            assert_eq!(read_text(text, true), (Lookaside::default(), Vec::new()));
        }
    }

    #[test]
    fn lookaside_servers_are_found_by_scope_under_both_names() {
        let text = "default-docker:\n  lookaside: file:///var/lib/containers/sigstore\n  \
                    lookaside-staging: file:///var/lib/containers/sigstore\n\
                    docker:\n  registry.access.redhat.com:\n    \
                    sigstore: https://access.redhat.com/webassets/docker/content/sigstore\n";
        let (found, problems) = read_text(text, true);
        assert_eq!(problems, [""; 0]);
        assert_eq!(found.default.unwrap().as_str(), "file:///var/lib/containers/sigstore");
        let redhat = &found.scopes["registry.access.redhat.com"];
        assert_eq!(redhat.host_str(), Some("access.redhat.com"));
    }

    #[test]
    fn what_is_wrong_is_named_with_file_and_key() {
        let text = "docker:\n  quay.io:\n    lookaside: ftp://x/y\n    \
                    use-sigstore-attachments: false\n  a.io:\n    lookaside: nowhere\n";
        let (_, problems) = read_text(text, true);
        for (problem, part) in problems.iter().zip([
            "/d/reg.yaml: docker.a.io: lookaside \"nowhere\" is not a URL",
            "/d/reg.yaml: docker.quay.io: use-sigstore-attachments: false cannot be honored",
            "/d/reg.yaml: docker.quay.io: lookaside: expected https://",
        ]) {
            assert!(problem.contains(part), "{problem}");
        }
        assert_eq!(problems.len(), 3);
        // The directory of the system may have more than this program does.
        let system = read_text("default-docker:\n  use-sigstore-attachments: false\n", false);
        assert_eq!(system.1, [""; 0]);
    }

    #[test]
    fn an_unknown_key_or_a_missing_directory_is_an_error() {
        let (_, problems) = read_text("docker:\n  quay.io:\n    lookasid: x\n", false);
        assert!(problems[0].contains("lookasid"), "{problems:?}");
        let missing = read(Path::new("/nonexistent/registries.d"), true).unwrap_err();
        assert!(missing[0].message.contains("/nonexistent/registries.d"), "{missing:?}");
    }

    #[test]
    fn two_files_with_one_scope_are_an_error_and_other_files_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let text = "docker:\n  a.io:\n    lookaside: https://x\n";
        std::fs::write(dir.path().join("a.yaml"), text).unwrap();
        std::fs::write(dir.path().join("b.conf"), "not: [yaml").unwrap();
        assert_eq!(read(dir.path(), true).unwrap().scopes.len(), 1);
        std::fs::write(dir.path().join("b.yaml"), text).unwrap();
        let problems = read(dir.path(), true).unwrap_err();
        assert!(problems[0].message.contains("b.yaml: docker.a.io: another file"), "{problems:?}");
    }
}
