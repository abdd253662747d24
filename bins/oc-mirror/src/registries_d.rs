//! `--registries.d`: says where signatures are kept. Cosign attachments travel
//! with their image anyway; a lookaside server cannot be honoured, and is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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

impl Entry {
    /// The keys of the entry that cannot be honoured.
    fn refused(&self) -> impl Iterator<Item = &'static str> {
        [
            ("lookaside", self.lookaside.is_some()),
            ("lookaside-staging", self.lookaside_staging.is_some()),
            ("sigstore", self.sigstore.is_some()),
            ("sigstore-staging", self.sigstore_staging.is_some()),
            ("use-sigstore-attachments: false", self.use_sigstore_attachments == Some(false)),
        ]
        .into_iter()
        .filter(|(_, given)| *given)
        .map(|(key, _)| key)
    }
}

/// Checks every `*.yaml` of the directory. An empty list means that all it
/// asks for is done anyway.
pub(crate) fn check(dir: &Path) -> Vec<Problem> {
    let unreadable = |path: &Path, reason: String| {
        vec![Problem::new(format!("--registries.d: reading {}: {reason}", path.display()))]
    };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => return unreadable(dir, error.to_string()),
    };
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => files.push(entry.path()),
            Err(error) => return unreadable(dir, error.to_string()),
        }
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
        .iter()
        .flat_map(|path| match read(path) {
            Ok(text) => check_text(path, &text),
            Err(error) => unreadable(path, error),
        })
        .collect()
}

fn read(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

fn check_text(path: &Path, text: &str) -> Vec<Problem> {
    let at = path.display();
    let file = match serde_saphyr::from_str::<Option<File>>(text) {
        Ok(file) => file.unwrap_or_default(),
        Err(error) => {
            let reason = chain(&error);
            return vec![Problem::new(format!("--registries.d: reading {at}: {reason}"))];
        }
    };
    let default = file.default_docker.iter().map(|entry| ("default-docker".to_owned(), entry));
    let named = file.docker.iter().flatten().filter_map(|(registry, entry)| {
        entry.as_ref().map(|entry| (format!("docker.{registry}"), entry))
    });
    default
        .chain(named)
        .flat_map(|(place, entry)| entry.refused().map(move |key| (place.clone(), key)))
        .map(|(place, key)| {
            Problem::new(format!("--registries.d: {at}: {place}: {key} cannot be honoured"))
                .with_hint(
                    "signatures attached in the registry are carried; \
                     those on a lookaside server are not. \
                     --remove-signatures leaves all of them behind",
                )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let problems = check_text(Path::new("/d/reg.yaml"), text);
        problems.into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn attachments_are_what_is_done_anyway() {
        let text = "default-docker:\n  use-sigstore-attachments: true\n\
                    docker:\n  quay.io/x:\n    use-sigstore-attachments: true\n  reg.local:\n";
        assert_eq!(messages(text), [""; 0]);
        assert_eq!(messages(""), [""; 0]);
        assert_eq!(messages("docker: {}\n"), [""; 0]);
    }

    #[test]
    fn what_cannot_be_honoured_is_named_with_file_and_key() {
        let text = "default-docker:\n  sigstore-staging: file:///var/lib/x\n\
                    docker:\n  quay.io:\n    lookaside: https://x/y\n    \
                    use-sigstore-attachments: false\n";
        assert_eq!(
            messages(text),
            [
                "--registries.d: /d/reg.yaml: default-docker: sigstore-staging cannot be honoured",
                "--registries.d: /d/reg.yaml: docker.quay.io: lookaside cannot be honoured",
                "--registries.d: /d/reg.yaml: docker.quay.io: use-sigstore-attachments: false cannot be honoured",
            ]
        );
    }

    #[test]
    fn an_unknown_key_or_a_missing_directory_is_an_error() {
        assert!(messages("docker:\n  quay.io:\n    lookasid: x\n")[0].contains("lookasid"));
        let missing = check(Path::new("/nonexistent/registries.d"));
        assert!(missing[0].message.contains("/nonexistent/registries.d"), "{missing:?}");
    }

    #[test]
    fn only_yaml_files_of_the_directory_are_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.yaml"), "docker:\n  a.io:\n    lookaside: x\n").unwrap();
        std::fs::write(dir.path().join("b.conf"), "not: [yaml").unwrap();
        let problems = check(dir.path());
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].message.contains("a.yaml: docker.a.io: lookaside"));
    }
}
