//! What happened in one boot: a JSON document for users without a network and for programs.

use node_network::{Message, Observation, Outcome};
use serde::{Deserialize, Serialize};

use crate::document_hash::DocumentHash;

/// One per boot; each command that ran added an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub version: u32,
    /// The program and its version.
    pub program: String,
    pub boot_id: String,
    pub hostname: String,
    pub entries: Vec<Entry>,
}

impl Report {
    pub const VERSION: u32 = 1;
    /// Commands that are started again and again must not fill the disk.
    pub const MOST_ENTRIES: usize = 20;

    pub fn new(program: String, boot_id: String, hostname: String) -> Self {
        Self { version: Self::VERSION, program, boot_id, hostname, entries: Vec::new() }
    }

    /// Adds what a command did. The oldest entries but the first give way.
    pub fn add(&mut self, entry: Entry) {
        while self.entries.len() >= Self::MOST_ENTRIES {
            self.entries.remove(1);
        }
        self.entries.push(entry);
    }

    /// How the boot ended, as far as it is known.
    pub fn last(&self) -> Option<&Entry> {
        self.entries.last()
    }
}

/// One run of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub command: Command,
    /// When it ended, as the clock of the node has it.
    pub at: String,
    pub result: Ending,
    /// What happened, in a sentence.
    pub message: Message,
    /// What there was to choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Listed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Chosen>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<FindingLine>,
    /// Which try of this document it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<Observation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What was restored, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,
    /// The network as nmstate shows it, secrets hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<serde_json::Value>,
    /// What could not be determined, and did not stop the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Message>,
}

impl Entry {
    pub fn new(command: Command, at: String) -> Self {
        Self {
            command,
            at,
            result: Ending::NothingToDo,
            message: "nothing to do".into(),
            candidates: Vec::new(),
            document: None,
            findings: Vec::new(),
            attempt: None,
            observation: None,
            outcome: None,
            restored: None,
            network: None,
            notes: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    Stage,
    Confirm,
    Apply,
    Recover,
}

impl Command {
    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Confirm => "confirm",
            Self::Apply => "apply",
            Self::Recover => "recover",
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The flag is there, or nothing was staged.
    NothingToDo,
    /// No document is for this machine.
    NoDocument,
    Staged,
    AlreadyStaged,
    /// br-ex is up and the flag is written.
    Confirmed,
    /// Nothing was changed: the selection or the document is invalid.
    Refused,
    /// The document reached the maximum number of attempts.
    GaveUp,
    /// br-ex did not come up; the previous network was restored.
    TakenBack,
    /// An attempt that a power failure interrupted was rolled back.
    Recovered,
    /// Something of the machine failed: a disk, a bus.
    Failed,
}

impl Ending {
    /// Whether the unit that ran it is to fail.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Refused | Self::GaveUp | Self::TakenBack | Self::Failed)
    }
}

/// A document there was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    pub file: String,
    pub sha256: DocumentHash,
    pub bytes: usize,
}

/// The document that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chosen {
    pub file: String,
    pub sha256: DocumentHash,
    pub because: Message,
}

/// A finding of a rule in the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingLine {
    pub rule: String,
    pub severity: String,
    pub line: usize,
    pub column: usize,
    pub message: Message,
}

/// What taking an attempt back did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    /// Files that were written again or removed.
    pub files: Vec<String>,
    /// Profiles that were in use before and are not in use now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_in_use: Vec<String>,
    /// Why NetworkManager could not be notified, if it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Message>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_bounded_and_the_first_and_last_stay() {
        let mut report = Report::new("p".into(), "b".into(), "h".into());
        for number in 0..100 {
            report.add(Entry::new(Command::Stage, number.to_string()));
        }
        assert_eq!(report.entries.len(), Report::MOST_ENTRIES);
        assert_eq!(report.entries[0].at, "0");
        assert_eq!(report.last().unwrap().at, "99");
    }

    #[test]
    fn a_report_is_read_back_as_it_was_written() {
        let mut report = Report::new("p".into(), "b".into(), "h".into());
        let mut entry = Entry::new(Command::Confirm, "2026-11-16T00:00:00Z".into());
        entry.result = Ending::TakenBack;
        entry.restored = Some(Restored::default());
        entry.observation = Some(Observation::default());
        report.add(entry);
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.contains(r#""result":"taken-back""#), "{text}");
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
