//! What is reported to the cluster about a first boot: an annotation of the Node, and an event.

use node_network::Message;
use serde::{Deserialize, Serialize};

use crate::document_hash::DocumentHash;
use crate::report::{Ending, Report};

/// The annotation of a Node that holds the summary as JSON.
pub const ANNOTATION: &str = "brex.landfall.dev/first-boot";

/// How the first boot of a node ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub version: u32,
    pub result: Ending,
    pub message: Message,
    /// The document that was selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Document>,
    /// The SHA-256 of the flag, which holds the document that br-ex was configured from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<DocumentHash>,
    /// When the command ended, by the clock of the node; absent without a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    pub file: String,
    pub sha256: DocumentHash,
}

impl Summary {
    pub const VERSION: u32 = 1;

    /// From the last report of the node, if there is one, and its flag.
    pub fn of(report: Option<&Report>, flag: Option<&[u8]>) -> Self {
        let flag = flag.map(DocumentHash::of);
        let version = Self::VERSION;
        let Some((report, last)) = report.and_then(|report| Some((report, report.last()?))) else {
            let (result, message) = match flag {
                Some(_) => (
                    Ending::NothingToDo,
                    "br-ex was configured from a document; brex-firstboot left no report",
                ),
                None => (
                    Ending::NoDocument,
                    "brex-firstboot left no report and there is no flag: br-ex is left to configure-ovs",
                ),
            };
            let message = message.into();
            return Self {
                version,
                result,
                message,
                document: None,
                flag,
                at: None,
                boot_id: None,
            };
        };
        let chosen = report.entries.iter().rev().find_map(|entry| entry.document.as_ref());
        Self {
            version,
            result: last.result,
            message: last.message.clone(),
            document: chosen.map(|chosen| Document {
                file: chosen.file.clone(),
                sha256: chosen.sha256.clone(),
            }),
            flag,
            at: Some(last.at.clone()),
            boot_id: Some(report.boot_id.clone()),
        }
    }

    /// The reason of the event: fixed, so that alerts can refer to it.
    pub fn reason(&self) -> &'static str {
        match self.result {
            Ending::NothingToDo => "BrexConfigured",
            Ending::NoDocument => "BrexNoDocument",
            Ending::Staged | Ending::AlreadyStaged => "BrexNotConfirmed",
            Ending::Confirmed => "BrexConfirmed",
            Ending::Refused => "BrexDocumentRefused",
            Ending::GaveUp => "BrexGaveUp",
            Ending::TakenBack => "BrexRolledBack",
            Ending::Recovered => "BrexRecovered",
            Ending::Failed => "BrexFailed",
        }
    }

    /// Whether the node does not have the network that its document describes.
    pub fn is_warning(&self) -> bool {
        !matches!(self.result, Ending::NothingToDo | Ending::Confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Chosen, Command, Entry};

    #[test]
    fn a_summary_holds_the_last_result_and_the_document_of_the_boot() {
        let mut report = Report::new("p".into(), "b".into(), "worker-0".into());
        let mut stage = Entry::new(Command::Stage, "1".into());
        let sha256 = DocumentHash::of(b"x");
        let because = "this machine is called worker-0".into();
        stage.document = Some(Chosen { file: "worker-0.yml".into(), sha256, because });
        report.add(stage);
        let mut confirm = Entry::new(Command::Confirm, "2".into());
        confirm.result = Ending::TakenBack;
        report.add(confirm);
        let summary = Summary::of(Some(&report), None);
        assert_eq!((summary.reason(), summary.is_warning()), ("BrexRolledBack", true));
        assert_eq!(summary.document.as_ref().unwrap().file, "worker-0.yml");
        let text = serde_json::to_string(&summary).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
    }

    #[test]
    fn without_a_report_the_flag_is_used() {
        assert_eq!(Summary::of(None, None).reason(), "BrexNoDocument");
        let summary = Summary::of(None, Some(b"x"));
        assert_eq!((summary.reason(), summary.is_warning()), ("BrexConfigured", false));
        assert_eq!(summary.flag, Some(DocumentHash::of(b"x")));
    }
}
