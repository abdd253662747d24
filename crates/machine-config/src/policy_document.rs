//! Disruption policies that administrators set: the MachineConfiguration `cluster`.

use serde::Deserialize;
use serde_json::Value;

use crate::disruption::{Action, DisruptionPolicy};
use crate::file::FilePathError;
use crate::yaml;

const KIND: &str = "MachineConfiguration";
const API_GROUP: &str = "operator.openshift.io/";
const ACTIONS: [&str; 6] = ["Reboot", "Drain", "Reload", "Restart", "DaemonReload", "None"];

#[derive(Debug, thiserror::Error)]
pub enum PolicyDocumentError {
    #[error("it is not YAML")]
    Yaml(#[source] serde_saphyr::Error),
    #[error(
        "expected a MachineConfiguration, found none; `oc get machineconfiguration cluster -o yaml` prints it"
    )]
    Absent,
    #[error("`spec.nodeDisruptionPolicy` cannot be read")]
    Shape(#[source] serde_json::Error),
    #[error(transparent)]
    Path(#[from] FilePathError),
    #[error("{0:?} is not an action of a disruption policy; {hint}", hint = nearest(.0))]
    Action(String),
    #[error("the action {0} of a disruption policy needs the name of a service")]
    NoService(&'static str),
}

fn nearest(given: &str) -> String {
    let close = ACTIONS.iter().max_by(|a, b| {
        let score = |name: &&str| strsim::jaro_winkler(&name.to_lowercase(), &given.to_lowercase());
        score(a).total_cmp(&score(b))
    });
    match close {
        Some(name) if strsim::jaro_winkler(&name.to_lowercase(), &given.to_lowercase()) > 0.8 => {
            format!("did you mean {name}?")
        }
        _ => format!("there are {}", ACTIONS.join(", ")),
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Policies {
    files: Vec<FilePolicy>,
    units: Vec<UnitPolicy>,
    sshkey: Option<Actions>,
}

#[derive(Deserialize)]
struct FilePolicy {
    path: String,
    actions: Vec<RawAction>,
}

#[derive(Deserialize)]
struct UnitPolicy {
    name: String,
    actions: Vec<RawAction>,
}

#[derive(Deserialize)]
struct Actions {
    actions: Vec<RawAction>,
}

#[derive(Deserialize)]
struct RawAction {
    #[serde(rename = "type")]
    kind: String,
    reload: Option<Service>,
    restart: Option<Service>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Service {
    service_name: String,
}

/// The policy of a cluster with this MachineConfiguration. What it does not mention keeps its
/// default; the same path replaces the default's.
pub fn parse_disruption_policy(text: &str) -> Result<DisruptionPolicy, PolicyDocumentError> {
    let documents = yaml::documents(text).map_err(PolicyDocumentError::Yaml)?;
    let object = documents.iter().find(|document| {
        let text = |key| document.get(key).and_then(Value::as_str).unwrap_or_default();
        text("kind") == KIND && text("apiVersion").starts_with(API_GROUP)
    });
    let object = object.ok_or(PolicyDocumentError::Absent)?;
    let policies = match object.get("spec").and_then(|spec| spec.get("nodeDisruptionPolicy")) {
        None | Some(Value::Null) => Policies::default(),
        Some(value) => Policies::deserialize(value).map_err(PolicyDocumentError::Shape)?,
    };
    let mut policy = DisruptionPolicy::default();
    for FilePolicy { path, actions } in policies.files {
        // A slash at the end names the same folder.
        let trimmed = path.trim_end_matches('/');
        trimmed.parse::<crate::FilePath>()?;
        policy.files.insert(trimmed.to_owned(), read(actions)?);
    }
    for UnitPolicy { name, actions } in policies.units {
        policy.units.insert(name, read(actions)?);
    }
    if let Some(Actions { actions }) = policies.sshkey {
        policy.ssh_keys = read(actions)?;
    }
    Ok(policy)
}

fn read(actions: Vec<RawAction>) -> Result<Vec<Action>, PolicyDocumentError> {
    let service = |service: Option<Service>, action| match service {
        Some(Service { service_name }) => Ok(service_name),
        None => Err(PolicyDocumentError::NoService(action)),
    };
    let one = |action: RawAction| {
        Ok(match action.kind.as_str() {
            "Reboot" => Action::Reboot,
            "Drain" => Action::Drain,
            "DaemonReload" => Action::DaemonReload,
            "None" => Action::None,
            "Reload" => Action::Reload(service(action.reload, "Reload")?),
            "Restart" => Action::Restart(service(action.restart, "Restart")?),
            _ => return Err(PolicyDocumentError::Action(action.kind)),
        })
    };
    actions.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disruption::Outcome;
    use crate::{Change, FileChange};

    fn outcome(policy: &DisruptionPolicy, path: &str) -> Outcome {
        let path = path.parse().unwrap();
        policy.disruption(&[Change::File { path, what: FileChange::Added }]).outcome()
    }

    #[test]
    fn a_policy_of_ones_own_replaces_the_default_for_the_same_path() {
        let policy = parse_disruption_policy(
            "apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata:
  name: cluster
spec:
  nodeDisruptionPolicy:
    files:
    - path: /etc/nmstate/openshift
      actions:
      - type: Drain
    - path: /etc/force-reboot
      actions:
      - type: None
    units:
    - name: a.service
      actions:
      - type: DaemonReload
      - type: Restart
        restart:
          serviceName: a.service
    sshkey:
      actions:
      - type: Reboot
",
        )
        .unwrap();
        assert_eq!(
            outcome(&policy, "/etc/nmstate/openshift/cluster.yml"),
            Outcome::Actions(vec![Action::Drain]),
        );
        assert_eq!(outcome(&policy, "/etc/force-reboot"), Outcome::Nothing);
        assert_eq!(outcome(&policy, "/etc/other"), Outcome::Reboot);
        let unit = policy.disruption(&[Change::Unit { name: "a.service".to_owned() }]);
        let restart = Action::Restart("a.service".to_owned());
        assert_eq!(unit.outcome(), Outcome::Actions(vec![Action::DaemonReload, restart]));
        assert_eq!(policy.disruption(&[Change::SshKeys]).outcome(), Outcome::Reboot);
    }

    #[test]
    fn a_cluster_without_policies_of_its_own_has_the_defaults() {
        let text = "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nspec: {}\n";
        assert_eq!(parse_disruption_policy(text).unwrap(), DisruptionPolicy::default());
    }

    #[test]
    fn what_is_not_a_policy_is_rejected_with_the_reason() {
        let with = |actions: &str| {
            format!(
                "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nspec:\n  \
                 nodeDisruptionPolicy:\n    files:\n    - path: /etc/x\n      actions: [{actions}]\n",
            )
        };
        for (text, expected) in [
            (
                with("{type: none}"),
                "\"none\" is not an action of a disruption policy; did you mean None?",
            ),
            (
                with("{type: Halt}"),
                "\"Halt\" is not an action of a disruption policy; there are Reboot, Drain, Reload, \
                 Restart, DaemonReload, None",
            ),
            (
                with("{type: Reload}"),
                "the action Reload of a disruption policy needs the name of a service",
            ),
            (
                "kind: ConfigMap\n".to_owned(),
                "expected a MachineConfiguration, found none; `oc get machineconfiguration cluster -o \
                 yaml` prints it",
            ),
        ] {
            assert_eq!(parse_disruption_policy(&text).unwrap_err().to_string(), expected);
        }
    }
}
