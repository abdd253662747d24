//! The one document for this machine.

use crate::document_hash::DocumentHash;
use crate::matching::{self, Match, MatchError};
use machine_identity::{Machine, ShortName};

/// The name of the document for machines without their own.
const CLUSTER: &str = "cluster";

/// A document in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name without the extension.
    pub stem: String,
    pub file: String,
    pub bytes: Vec<u8>,
    pub hash: DocumentHash,
    /// Why it could not be read. That matters only to the machine it is for.
    pub unread: Option<String>,
}

impl Candidate {
    /// A document that could not be read; `None` for files that are not documents.
    pub fn unread(file: &str, problem: impl Into<String>) -> Option<Self> {
        let unread = Some(problem.into());
        Self::new(file, Vec::new()).map(|candidate| Self { unread, ..candidate })
    }

    /// `None` for files that are not documents.
    pub fn new(file: &str, bytes: Vec<u8>) -> Option<Self> {
        let stem = file.strip_suffix(".yml").or_else(|| file.strip_suffix(".yaml"))?;
        let hidden = stem.is_empty() || stem.starts_with('.');
        (!hidden).then(|| Self {
            stem: stem.to_owned(),
            file: file.to_owned(),
            hash: DocumentHash::of(&bytes),
            bytes,
            unread: None,
        })
    }

    fn text(&self) -> Result<&str, ChoiceError> {
        if let Some(problem) = &self.unread {
            let (file, problem) = (self.file.clone(), problem.clone());
            return Err(ChoiceError::Unread { file, problem });
        }
        std::str::from_utf8(&self.bytes).map_err(|_| ChoiceError::NotText(self.file.clone()))
    }

    fn matches(&self) -> Result<Vec<Match>, ChoiceError> {
        let wrong = |source| ChoiceError::Match { file: self.file.clone(), source };
        matching::matches(self.text()?).map_err(wrong)
    }
}

/// A document and why it is the one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice<'a> {
    pub document: &'a Candidate,
    pub because: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error("{0} and {1} are both for `{stem}`; remove one of them", stem = .0.trim_end_matches(".yaml").trim_end_matches(".yml"))]
    BothExtensions(String, String),
    #[error("{} all match this machine; only one may", .0.join(", "))]
    Several(Vec<String>),
    #[error(
        "{file} has the name of this machine, but specifies {wanted}, which does not match this machine"
    )]
    OtherMachine { file: String, wanted: String },
    #[error(
        "this machine has no host name yet, so its document cannot be determined; set a name, or add `# brex-match: mac=…` to the documents"
    )]
    Nameless,
    #[error("{0} is empty")]
    Empty(String),
    #[error("{file} cannot be read: {problem}")]
    Unread { file: String, problem: String },
    #[error("{0} is not UTF-8 text")]
    NotText(String),
    #[error("reading for which machine {file} is")]
    Match { file: String, source: MatchError },
}

/// Selects by name, then by the `brex-match` lines of documents, then the one for the cluster.
/// `Ok(None)` when none is for this machine.
pub fn choose<'a>(
    machine: &Machine,
    candidates: &'a [Candidate],
) -> Result<Option<Choice<'a>>, ChoiceError> {
    let choice = find(machine, candidates)?;
    match &choice {
        Some(Choice { document, .. }) if document.unread.is_some() => {
            document.text()?;
            Ok(choice)
        }
        Some(choice) if choice.document.bytes.iter().all(u8::is_ascii_whitespace) => {
            Err(ChoiceError::Empty(choice.document.file.clone()))
        }
        _ => Ok(choice),
    }
}

fn find<'a>(
    machine: &Machine,
    candidates: &'a [Candidate],
) -> Result<Option<Choice<'a>>, ChoiceError> {
    if let Some(name) = &machine.name
        && let Some(document) = by_stem(candidates, name.as_str())?
    {
        let wanted = document.matches()?;
        if !wanted.is_empty() && !wanted.iter().any(|one| one.fits(machine)) {
            let wanted = wanted.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
            return Err(ChoiceError::OtherMachine { file: document.file.clone(), wanted });
        }
        return Ok(Some(Choice {
            document,
            because: format!("the host name of this machine is {name}"),
        }));
    }
    if let Some(choice) = by_match(machine, candidates)? {
        return Ok(Some(choice));
    }
    let for_others = |candidate: &&Candidate| candidate.stem != CLUSTER;
    if machine.name.is_none() && candidates.iter().any(|candidate| for_others(&candidate)) {
        return Err(ChoiceError::Nameless);
    }
    let choice = by_stem(candidates, CLUSTER)?.map(|document| Choice {
        document,
        because: match &machine.name {
            Some(name) => format!("no document is for {name} alone"),
            None => "it is the only document".to_owned(),
        },
    });
    Ok(choice)
}

fn by_stem<'a>(
    candidates: &'a [Candidate],
    stem: &str,
) -> Result<Option<&'a Candidate>, ChoiceError> {
    let mut found = candidates.iter().filter(|candidate| candidate.stem == stem);
    match (found.next(), found.next()) {
        (Some(a), Some(b)) => Err(ChoiceError::BothExtensions(a.file.clone(), b.file.clone())),
        (first, _) => Ok(first),
    }
}

fn by_match<'a>(
    machine: &Machine,
    candidates: &'a [Candidate],
) -> Result<Option<Choice<'a>>, ChoiceError> {
    let mut found = Vec::new();
    for document in candidates {
        // A document that another machine's name selects may be broken in any way; that must
        // not keep this machine from its own.
        let Ok(matches) = document.matches() else { continue };
        if let Some(one) = matches.iter().find(|one| one.fits(machine)) {
            found.push(Choice { document, because: format!("it is for {one}") });
        }
    }
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(ChoiceError::Several(
            found.iter().map(|choice| choice.document.file.clone()).collect(),
        )),
    }
}

/// Whether waiting for a host name can change the choice.
pub fn needs_name(machine: &Machine, candidates: &[Candidate]) -> bool {
    machine.name.is_none() && matches!(find(machine, candidates), Err(ChoiceError::Nameless))
}

/// The names that are closest to this machine's, for a message.
pub fn nearest(name: &ShortName, candidates: &[Candidate]) -> Vec<String> {
    let lower = name.as_str().to_ascii_lowercase();
    let near = |candidate: &&Candidate| {
        let stem = candidate.stem.to_ascii_lowercase();
        stem == lower || stem.starts_with(&format!("{lower}.")) || stem.replace('_', "-") == lower
    };
    candidates.iter().filter(near).map(|candidate| candidate.file.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "interfaces: []\n";

    fn candidates(files: &[(&str, &str)]) -> Vec<Candidate> {
        files
            .iter()
            .filter_map(|(file, text)| Candidate::new(file, text.as_bytes().to_vec()))
            .collect()
    }

    fn machine(name: &str) -> Machine {
        Machine {
            name: ShortName::of(name),
            macs: ["52:54:00:00:00:01".parse().unwrap()].into(),
            serial: crate::Serial::of("CZ1"),
        }
    }

    fn chosen(name: &str, files: &[(&str, &str)]) -> Result<Option<String>, ChoiceError> {
        let candidates = candidates(files);
        let choice = choose(&machine(name), &candidates)?;
        Ok(choice.map(|choice| choice.document.file.clone()))
    }

    #[test]
    fn the_machines_own_document_comes_before_the_clusters() {
        let files =
            [("cluster.yml", DOCUMENT), ("worker-0.yaml", DOCUMENT), ("worker-1.yml", DOCUMENT)];
        assert_eq!(
            chosen("worker-0.example.com", &files).unwrap().as_deref(),
            Some("worker-0.yaml")
        );
        assert_eq!(chosen("worker-9", &files).unwrap().as_deref(), Some("cluster.yml"));
        assert_eq!(chosen("worker-9", &files[1..]).unwrap(), None);
    }

    #[test]
    fn files_that_are_no_documents_are_passed_over() {
        let files = [
            ("applied", "x"),
            ("worker-0.yml~", DOCUMENT),
            (".worker-0.yml", DOCUMENT),
            ("README.md", ""),
        ];
        assert_eq!(chosen("worker-0", &files).unwrap(), None);
    }

    #[test]
    fn a_document_may_be_for_a_mac_or_a_serial_number() {
        let by_mac = "# brex-match: mac=52:54:00:00:00:01\ninterfaces: []\n";
        let by_serial = "# brex-match: serial=cz1\ninterfaces: []\n";
        let files = [("rack-7.yml", by_mac), ("cluster.yml", DOCUMENT)];
        assert_eq!(chosen("localhost", &files).unwrap().as_deref(), Some("rack-7.yml"));
        let both = [("rack-7.yml", by_mac), ("rack-8.yml", by_serial)];
        assert!(
            matches!(chosen("localhost", &both), Err(ChoiceError::Several(files)) if files.len() == 2)
        );
    }

    #[test]
    fn a_document_with_the_right_name_and_another_mac_is_refused() {
        let other = "# brex-match: mac=52:54:00:00:00:99\ninterfaces: []\n";
        let error = chosen("worker-0", &[("worker-0.yml", other)]).unwrap_err();
        assert!(error.to_string().contains("specifies MAC 52:54:00:00:00:99"), "{error}");
    }

    #[test]
    fn without_a_name_only_a_lone_cluster_document_is_taken() {
        let lone = [("cluster.yml", DOCUMENT)];
        assert_eq!(chosen("localhost", &lone).unwrap().as_deref(), Some("cluster.yml"));
        let files = [("cluster.yml", DOCUMENT), ("worker-0.yml", DOCUMENT)];
        assert_eq!(chosen("localhost", &files), Err(ChoiceError::Nameless));
        assert!(needs_name(&machine("localhost"), &candidates(&files)));
        assert!(!needs_name(&machine("localhost"), &candidates(&lone)));
    }

    #[test]
    fn a_document_of_another_machine_may_be_unreadable() {
        let mut all = candidates(&[("worker-0.yml", DOCUMENT)]);
        all.extend(Candidate::unread("worker-1.yml", "Permission denied"));
        let choice = choose(&machine("worker-0"), &all).unwrap().unwrap();
        assert_eq!(choice.document.file, "worker-0.yml");
        let error = choose(&machine("worker-1"), &all).unwrap_err();
        assert_eq!(error.to_string(), "worker-1.yml cannot be read: Permission denied");
        assert_eq!(choose(&machine("worker-2"), &all), Ok(None));
        all.extend(Candidate::unread("cluster.yml", "too large"));
        let error = choose(&machine("worker-2"), &all).unwrap_err();
        assert!(matches!(error, ChoiceError::Unread { .. }), "{error}");
    }

    #[test]
    fn what_cannot_be_meant_is_an_error() {
        let twice = [("worker-0.yml", DOCUMENT), ("worker-0.yaml", DOCUMENT)];
        let error = chosen("worker-0", &twice).unwrap_err();
        assert_eq!(
            error.to_string(),
            "worker-0.yml and worker-0.yaml are both for `worker-0`; remove one of them"
        );
        assert_eq!(
            chosen("worker-0", &[("worker-0.yml", " \n")]),
            Err(ChoiceError::Empty("worker-0.yml".into()))
        );
    }

    #[test]
    fn names_that_were_nearly_right_are_offered() {
        let files =
            candidates(&[("worker-0.example.com.yml", ""), ("Worker-0.yml", ""), ("x.yml", "")]);
        let name = ShortName::of("worker-0").unwrap();
        assert_eq!(nearest(&name, &files), ["worker-0.example.com.yml", "Worker-0.yml"]);
    }
}
