//! A MachineConfig: files, units and settings for the nodes of one role.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::file::File;
use crate::name::{MachineConfigName, Role};
use crate::unit::Unit;
use crate::version::IgnitionVersion;
use crate::yaml;

pub(crate) const API_VERSION: &str = "machineconfiguration.openshift.io/v1";
pub(crate) const KIND: &str = "MachineConfig";
pub(crate) const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";

#[derive(Debug, thiserror::Error)]
#[error("writing the MachineConfig {name} as YAML")]
pub struct WriteError {
    name: MachineConfigName,
    source: serde_saphyr::ser::Error,
}

/// A MachineConfig. What this crate gives no meaning to is kept as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineConfig {
    pub name: MachineConfigName,
    /// The pool it is for; none for one that no pool takes, or for a rendered one.
    pub role: Option<Role>,
    /// The labels beside the role's.
    pub(crate) labels: BTreeMap<String, Value>,
    pub(crate) annotations: BTreeMap<String, Value>,
    pub ignition: IgnitionVersion,
    pub files: Vec<File>,
    pub units: Vec<Unit>,
    pub os: OperatingSystem,
    /// Ignition's other sections: users, disks, links, directories.
    pub(crate) ignition_rest: Map<String, Value>,
    /// Fields of the spec that are not known here.
    pub(crate) spec_rest: BTreeMap<String, Value>,
}

/// Settings of the operating system. Every change of them reboots a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperatingSystem {
    pub image: Option<String>,
    pub extensions_image: Option<String>,
    pub kernel_arguments: Vec<String>,
    pub kernel_type: Option<String>,
    pub extensions: Vec<String>,
    pub fips: Option<bool>,
}

impl MachineConfig {
    /// One without any content.
    pub fn new(name: MachineConfigName, role: Role) -> Self {
        Self {
            name,
            role: Some(role),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            ignition: IgnitionVersion::WRITTEN,
            files: Vec::new(),
            units: Vec::new(),
            os: OperatingSystem::default(),
            ignition_rest: Map::new(),
            spec_rest: BTreeMap::new(),
        }
    }

    /// The file of this path. Where a path is given twice, the last one counts.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().rfind(|file| file.path.as_str() == path)
    }

    /// The document for a cluster.
    pub fn to_yaml(&self) -> Result<String, WriteError> {
        yaml::sorted_manifest(self.to_value())
            .map_err(|source| WriteError { name: self.name.clone(), source })
    }

    /// The Ignition in it, as JSON. This is what a node reads.
    pub fn ignition_json(&self) -> String {
        let mut config = self.config();
        config.sort_all_objects();
        config.to_string()
    }

    /// The whole object as JSON: what the API server stores, and limits the size of.
    pub fn to_json(&self) -> String {
        let mut object = self.to_value();
        object.sort_all_objects();
        object.to_string()
    }

    fn to_value(&self) -> Value {
        let mut metadata = json!({ "name": self.name.as_str() });
        let mut labels = self.labels.clone();
        if let Some(role) = &self.role {
            labels.insert(ROLE_LABEL.to_owned(), json!(role.as_str()));
        }
        if !labels.is_empty() {
            metadata["labels"] = json!(labels);
        }
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        let mut spec = json!(self.spec_rest);
        spec["config"] = self.config();
        self.os.write(&mut spec);
        json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec})
    }

    fn config(&self) -> Value {
        let mut config = Value::Object(self.ignition_rest.clone());
        config["ignition"]["version"] = json!(self.ignition.to_string());
        if !self.files.is_empty() {
            config["storage"]["files"] = self.files.iter().map(File::to_value).collect();
        }
        if !self.units.is_empty() {
            config["systemd"]["units"] = self.units.iter().map(Unit::to_value).collect();
        }
        config
    }
}

impl OperatingSystem {
    fn write(&self, spec: &mut Value) {
        let texts = [
            ("osImageURL", &self.image),
            ("baseOSExtensionsContainerImage", &self.extensions_image),
            ("kernelType", &self.kernel_type),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                spec[key] = json!(text);
            }
        }
        let lists = [("kernelArguments", &self.kernel_arguments), ("extensions", &self.extensions)];
        for (key, list) in lists {
            if !list.is_empty() {
                spec[key] = json!(list);
            }
        }
        if let Some(fips) = self.fips {
            spec["fips"] = json!(fips);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::Encoding;

    #[test]
    fn a_machine_config_is_written_the_way_kubernetes_tools_write_it() {
        let mut config = MachineConfig::new("10-br-ex-worker".parse().unwrap(), Role::worker());
        let path = "/etc/nmstate/openshift/worker-0.yml".parse().unwrap();
        config.files.push(File::new(path, b"interfaces: []\n", Encoding::Plain));
        config.units.push(Unit::enabled("a.service", "[Unit]\nAfter=b.service\n"));
        config.units.push(Unit::masked("c.service"));
        // The base64 is that of coreutils.
        let expected = r#"apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  labels:
    machineconfiguration.openshift.io/role: worker
  name: 10-br-ex-worker
spec:
  config:
    ignition:
      version: "3.2.0"
    storage:
      files:
      - contents:
          compression: ""
          source: data:text/plain;charset=utf-8;base64,aW50ZXJmYWNlczogW10K
        mode: 420
        overwrite: true
        path: /etc/nmstate/openshift/worker-0.yml
    systemd:
      units:
      - contents: |
          [Unit]
          After=b.service
        enabled: true
        name: a.service
      - enabled: false
        mask: true
        name: c.service
"#;
        assert_eq!(config.to_yaml().unwrap(), expected);
    }
}
