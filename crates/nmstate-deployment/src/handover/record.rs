//! The record of a take-over, in a ConfigMap: enough to continue after an interruption, and to give
//! everything back. It is written before anything is removed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::installer::Installer;

const PHASE: &str = "phase";
const NAMESPACES: &str = "namespaces";
/// A List that `oc apply -f` accepts, too, in case it has to be done manually.
const OBJECTS: &str = "objects.json";
const PHASES: [(Phase, &str); 3] =
    [(Phase::Dismissing, "Dismissing"), (Phase::Clearing, "Clearing"), (Phase::Done, "Done")];

/// The phase of a take-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The other operator is in the cluster, possibly again.
    Dismissing,
    /// It has been removed; its leftovers are being removed.
    Clearing,
    /// No object of it is left.
    Done,
}

/// A take-over.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub phase: Phase,
    /// Where components of kubernetes-nmstate were found.
    pub namespaces: BTreeSet<String>,
    /// The objects to create again to restore it.
    pub installers: Vec<Installer>,
}

/// A record that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("the record of the take-over has no phase that is known: {phase:?}")]
    Phase { phase: String },
    #[error("the record of the take-over is not JSON: {why}")]
    Json { why: String },
    #[error(
        "the record of the take-over holds something that does not install kubernetes-nmstate: {what}"
    )]
    Stranger { what: String },
}

impl Record {
    /// Reads the data of the ConfigMap.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, RecordError> {
        let text = |key: &str| data.get(key).map(String::as_str).unwrap_or_default();
        let found = PHASES.iter().find(|(_, name)| *name == text(PHASE));
        let (phase, _) = found
            .ok_or_else(|| RecordError::Phase { phase: text(PHASE).chars().take(80).collect() })?;
        let list: Value = serde_json::from_str(text(OBJECTS))
            .map_err(|error| RecordError::Json { why: error.to_string() })?;
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let installers = items.iter().map(|item| {
            Installer::of(item).ok_or_else(|| {
                let of = |value: &Value| value.as_str().unwrap_or("?").to_owned();
                let what = format!("{} {}", of(&item["kind"]), of(&item["metadata"]["name"]));
                RecordError::Stranger { what: what.chars().take(200).collect() }
            })
        });
        let names = text(NAMESPACES).split(',').filter(|name| !name.is_empty());
        Ok(Self {
            phase: *phase,
            namespaces: names.map(str::to_owned).collect(),
            installers: installers.collect::<Result<_, _>>()?,
        })
    }

    /// The data of the ConfigMap.
    pub fn data(&self) -> BTreeMap<String, String> {
        let phase = PHASES.iter().find(|(phase, _)| *phase == self.phase);
        let phase = phase.map_or("", |(_, name)| name);
        let items: Vec<&Value> = self.installers.iter().map(|held| &held.copy).collect();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        let namespaces: Vec<&str> = self.namespaces.iter().map(String::as_str).collect();
        [
            (PHASE, phase.to_owned()),
            (NAMESPACES, namespaces.join(",")),
            (OBJECTS, format!("{list:#}\n")),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let object = json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "Subscription",
            "metadata": { "name": "s", "namespace": "n" },
            "spec": { "name": "kubernetes-nmstate-operator", "channel": "stable" },
        });
        Record {
            phase: Phase::Clearing,
            namespaces: ["n".to_owned(), "m".to_owned()].into(),
            installers: vec![Installer::of(&object).unwrap()],
        }
    }

    #[test]
    fn what_is_written_down_is_read_again() {
        assert_eq!(Record::parse(&record().data()), Ok(record()));
        let empty = Record { namespaces: BTreeSet::new(), installers: vec![], ..record() };
        assert_eq!(Record::parse(&empty.data()), Ok(empty));
    }

    #[test]
    fn a_changed_record_creates_no_object_of_other_kinds() {
        let mut data = record().data();
        let objects = data["objects.json"].replace("kubernetes-nmstate-operator", "anything");
        data.insert("objects.json".into(), objects);
        let error = Record::parse(&data).unwrap_err();
        assert!(error.to_string().ends_with("Subscription s"), "{error}");
        data.insert("objects.json".into(), "{".into());
        assert!(matches!(Record::parse(&data), Err(RecordError::Json { .. })));
        data.insert("phase".into(), "Later".into());
        assert!(matches!(Record::parse(&data), Err(RecordError::Phase { .. })));
    }
}
