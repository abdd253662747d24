//! Entries of the journal. Message ids never change: users search and alert by them.

use crate::report::Ending;

/// An event that gets an entry in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    NoDocument,
    Staged,
    Confirmed,
    Refused,
    GaveUp,
    TakenBack,
    Recovered,
    Failed,
}

impl Event {
    pub const ALL: [Self; 8] = [
        Self::NoDocument,
        Self::Staged,
        Self::Confirmed,
        Self::Refused,
        Self::GaveUp,
        Self::TakenBack,
        Self::Recovered,
        Self::Failed,
    ];

    /// The event of an ending, where it is worth one.
    pub fn of(ending: Ending) -> Option<Self> {
        match ending {
            Ending::NothingToDo | Ending::AlreadyStaged => None,
            Ending::NoDocument => Some(Self::NoDocument),
            Ending::Staged => Some(Self::Staged),
            Ending::Confirmed => Some(Self::Confirmed),
            Ending::Refused => Some(Self::Refused),
            Ending::GaveUp => Some(Self::GaveUp),
            Ending::TakenBack => Some(Self::TakenBack),
            Ending::Recovered => Some(Self::Recovered),
            Ending::Failed => Some(Self::Failed),
        }
    }

    /// `MESSAGE_ID=` in the journal.
    pub fn message_id(self) -> &'static str {
        match self {
            Self::NoDocument => "3f1a6a0f0c4d4b0f9a3c0b7a5d6e1c01",
            Self::Staged => "8d7e2f4b9c1a4e6fb0d35a1c2e4f6a02",
            Self::Confirmed => "c5b1e09d7a2f4c38a6e4d90b1f3c5e03",
            Self::Refused => "1e9c4d7b6a3f4582b7d0c8e2a4f61b04",
            Self::GaveUp => "b24f8a6c0d1e4937a5c3e7f9d2b08c05",
            Self::TakenBack => "6a0d3c9e5b7f41288e4c1f2a9d7b3e06",
            Self::Recovered => "f7c2a5e81d3b46909b6e0d4c8a1f2507",
            Self::Failed => "92e6b0d4f8a34c71bd5f7e3a1c0d6908",
        }
    }

    /// As in syslog: 3 error, 4 warning, 5 notice.
    pub fn priority(self) -> u8 {
        match self {
            Self::Refused | Self::GaveUp | Self::TakenBack | Self::Failed => 3,
            Self::NoDocument | Self::Recovered => 4,
            Self::Staged | Self::Confirmed => 5,
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::NoDocument => "no document is for this machine; configure-ovs creates br-ex",
            Self::Staged => "a document was selected, checked and staged",
            Self::Confirmed => "br-ex is up and connects the node",
            Self::Refused => "the selection or the document is invalid; nothing was changed",
            Self::GaveUp => {
                "the document reached the maximum number of attempts; it is not retried"
            }
            Self::TakenBack => "br-ex did not come up; the previous network was restored",
            Self::Recovered => "an attempt that was interrupted was rolled back",
            Self::Failed => "the machine failed: a disk or D-Bus",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_message_id_is_a_128_bit_number_of_its_own() {
        let ids: BTreeSet<&str> = Event::ALL.iter().map(|event| event.message_id()).collect();
        assert_eq!(ids.len(), Event::ALL.len());
        for id in ids {
            let digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            assert!(id.len() == 32 && id.chars().all(digit), "{id}");
        }
    }

    #[test]
    fn an_ending_that_fails_its_unit_is_an_error_in_the_journal() {
        let endings = [Ending::Refused, Ending::GaveUp, Ending::TakenBack, Ending::Failed];
        for ending in endings {
            assert!(ending.is_failure());
            assert_eq!(Event::of(ending).unwrap().priority(), 3);
        }
    }
}
