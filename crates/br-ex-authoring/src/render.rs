//! Documents as MachineConfigs: one per role, and the one with the first-boot service.

use machine_config::{
    BR_EX_FOLDER, DropIn, Encoding, File, FilePath, FilePathError, MachineConfig, NameError, Role,
    Unit, WriteError, yaml,
};

use crate::inventory::{DocumentName, Inventory};

/// Units of the first-boot service, as in the layered image. They are written out so
/// that they are there, and enabled, before a node has that image.
const UNITS: [(&str, &str); 5] = [
    (
        "brex-firstboot-recover.service",
        include_str!("../../../deploy/systemd/brex-firstboot-recover.service"),
    ),
    (STAGE_UNIT, include_str!("../../../deploy/systemd/brex-firstboot-stage.service")),
    (
        "brex-firstboot-confirm.service",
        include_str!("../../../deploy/systemd/brex-firstboot-confirm.service"),
    ),
    (
        "brex-firstboot-mtu-residue.service",
        include_str!("../../../deploy/systemd/brex-firstboot-mtu-residue.service"),
    ),
    ("brex-report.service", include_str!("../../../deploy/systemd/brex-report.service")),
];
const STAGE_UNIT: &str = "brex-firstboot-stage.service";
/// It copies a document and sets the flag before anything is applied, so it must not run beside
/// brex-firstboot. On a node without that program it must run, or nothing applies the document.
const MCO_UNIT: &str = "nmstate-configuration.service";
const PROGRAM: &str = "/usr/bin/brex-firstboot";
const DROP_IN: &str = "10-brex-firstboot.conf";
/// It derives a bridge from the default route, unless the flag exists. kubelet requires it.
const CONFIGURE_OVS_UNIT: &str = "ovs-configuration.service";
const FLAG: &str = "/etc/nmstate/openshift/applied";
const REQUIRED_DROP_IN: &str = "20-brex-required.conf";

/// What a node does if br-ex cannot be configured from its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// configure-ovs creates the bridge, and the node joins the cluster.
    ConfigureOvs,
    /// The node keeps its previous network, reachable over SSH, and does not join the cluster.
    Stop,
}

#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Path(#[from] FilePathError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("writing the ConfigMap as YAML")]
    ConfigMap(#[from] yaml::WriteError),
    #[error(
        "the ConfigMap has {0} bytes, and a cluster stores {MAX_CONFIG_MAP} at most; give --gzip, or \
         give the manifests to the cluster in another way"
    )]
    TooLarge(usize),
}

/// The largest ConfigMap that the API server accepts.
const MAX_CONFIG_MAP: usize = 1 << 20;

/// The name of the ConfigMap with the manifests of a cluster that is provisioned without touch.
pub const EXTRA_MANIFESTS: &str = "br-ex-extra-manifests";

/// The ConfigMap that `extraManifestsRefs` of a ClusterInstance names, in the cluster's namespace.
pub fn extra_manifests(cluster: &str, configs: &[MachineConfig]) -> Result<String, RenderError> {
    let mut data = serde_json::Map::new();
    for config in configs {
        data.insert(format!("{}.yaml", config.name), config.to_yaml()?.into());
    }
    let size: usize =
        data.iter().map(|(key, text)| key.len() + text.as_str().map_or(0, str::len)).sum();
    if size > MAX_CONFIG_MAP {
        return Err(RenderError::TooLarge(size));
    }
    let object = serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": EXTRA_MANIFESTS, "namespace": cluster},
        "data": data,
    });
    Ok(yaml::manifest(&object)?)
}

/// Where a node reads the document.
pub fn path_of(stem: &DocumentName) -> Result<FilePath, FilePathError> {
    // Older nodes read nothing but .yml.
    format!("{BR_EX_FOLDER}/{stem}.yml").parse()
}

/// One MachineConfig per role, with the documents of all its hosts byte for byte.
pub fn machine_configs(
    inventory: &Inventory,
    encoding: Encoding,
) -> Result<Vec<MachineConfig>, RenderError> {
    let mut configs = Vec::new();
    for (role, documents) in inventory.roles() {
        let mut config = MachineConfig::new(format!("10-br-ex-{role}").parse()?, role.clone());
        for (stem, placed) in documents {
            config.files.push(File::new(path_of(stem)?, &placed.bytes, encoding));
        }
        configs.push(config);
    }
    Ok(configs)
}

/// The MachineConfig that replaces the unit of the operator by brex-firstboot, on every
/// node whose image has it. `os_image` is such an image.
pub fn service(
    role: &Role,
    os_image: Option<&str>,
    on_failure: OnFailure,
) -> Result<MachineConfig, RenderError> {
    let name = format!("10-brex-firstboot-{role}").parse()?;
    let mut config = MachineConfig::new(name, role.clone());
    for (name, text) in UNITS {
        let mut unit = Unit::enabled(name, text);
        unit.dropins.push(condition(PROGRAM));
        if on_failure == OnFailure::Stop && name == STAGE_UNIT {
            let start = format!("{PROGRAM} stage --required");
            unit.dropins.push(required(&format!("[Service]\nExecStart=\nExecStart={start}\n")));
        }
        config.units.push(unit);
    }
    if on_failure == OnFailure::Stop {
        // A condition would skip the unit, and kubelet would start. A failed assertion fails it.
        let drop_in = required(&format!("[Unit]\nAssertPathExists={FLAG}\n"));
        config.units.push(Unit::extended(CONFIGURE_OVS_UNIT, drop_in));
    }
    config.units.push(Unit::extended(MCO_UNIT, condition(&format!("!{PROGRAM}"))));
    config.os.image = os_image.map(str::to_owned);
    Ok(config)
}

fn required(contents: &str) -> DropIn {
    DropIn { name: REQUIRED_DROP_IN.to_owned(), contents: Some(contents.to_owned()) }
}

fn condition(path: &str) -> DropIn {
    let contents = format!("[Unit]\nConditionPathExists={path}\n");
    DropIn { name: DROP_IN.to_owned(), contents: Some(contents) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{FoundFile, place_files};

    fn inventory(files: &[(&str, &str)]) -> Inventory {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| FoundFile {
                path: (*path).to_owned(),
                bytes: text.as_bytes().to_owned(),
            })
            .collect();
        place_files("hosts", &files, None).into_inventory().unwrap()
    }

    #[test]
    fn each_role_gets_one_with_all_its_documents_byte_for_byte() {
        let text = "# a comment\r\ninterfaces: [ ]   \n";
        let inventory =
            inventory(&[("worker/b.yaml", text), ("worker/a.yml", "a"), ("master/c.yml", "c")]);
        for encoding in [Encoding::Plain, Encoding::Gzip] {
            let configs = machine_configs(&inventory, encoding).unwrap();
            let names: Vec<_> = configs.iter().map(|config| config.name.as_str()).collect();
            assert_eq!(names, ["10-br-ex-master", "10-br-ex-worker"]);
            let files: Vec<_> = configs[1]
                .files
                .iter()
                .map(|file| (file.path.as_str(), file.contents.bytes()))
                .collect();
            assert_eq!(
                files,
                [
                    ("/etc/nmstate/openshift/a.yml", &b"a"[..]),
                    ("/etc/nmstate/openshift/b.yml", text.as_bytes()),
                ],
            );
        }
    }

    #[test]
    fn extra_manifests_hold_the_machine_configs_as_text() {
        let inventory = inventory(&[("worker/a.yml", "a"), ("master/c.yml", "c")]);
        let configs = machine_configs(&inventory, Encoding::Plain).unwrap();
        let text = extra_manifests("sno-1", &configs).unwrap();
        let root = located_yaml::load(&text, located_yaml::Keys::Exact).root.unwrap();
        let value = root.to_json();
        assert_eq!(value["metadata"]["namespace"], "sno-1");
        for config in &configs {
            let inner = value["data"][format!("{}.yaml", config.name)].as_str().unwrap();
            assert_eq!(&machine_config::parse(inner).unwrap(), config);
        }
        let large = "x".repeat(1 << 20);
        let inventory = self::inventory(&[("worker/a.yml", &large)]);
        let configs = machine_configs(&inventory, Encoding::Plain).unwrap();
        assert!(matches!(extra_manifests("sno-1", &configs), Err(RenderError::TooLarge(_))));
    }

    #[test]
    fn the_service_takes_the_place_of_the_clusters_own_unit() {
        let config = service(&Role::worker(), None, OnFailure::ConfigureOvs).unwrap();
        assert_eq!(config.name.as_str(), "10-brex-firstboot-worker");
        assert!(config.units.iter().all(|unit| unit.mask.is_none()));
        // Where the program is not on the node, the operator's unit runs and ours do not.
        for unit in &config.units {
            let [drop_in] = unit.dropins.as_slice() else { panic!("{}", unit.name) };
            let not = if unit.name == "nmstate-configuration.service" { "!" } else { "" };
            let expected = format!("[Unit]\nConditionPathExists={not}/usr/bin/brex-firstboot\n");
            assert_eq!(drop_in.contents.as_deref(), Some(expected.as_str()), "{}", unit.name);
        }
        let operators =
            config.units.iter().find(|unit| unit.name == "nmstate-configuration.service");
        assert_eq!(operators.unwrap().contents, None);
        assert_eq!(config.os.image, None);
        let image = "quay.example.com/rhcos@sha256:0";
        let config = service(&Role::worker(), Some(image), OnFailure::ConfigureOvs).unwrap();
        assert_eq!(config.os.image.as_deref(), Some(image));
        let text = |name: &str| {
            let unit = config.units.iter().find(|unit| unit.name == name).unwrap();
            assert_eq!(unit.enabled, Some(true));
            unit.contents.clone().unwrap()
        };
        let (stage, confirm) =
            (text("brex-firstboot-stage.service"), text("brex-firstboot-confirm.service"));
        let orders = |unit: &str, key: &str, other: &str| {
            unit.lines().any(|line| {
                line.strip_prefix(key).is_some_and(|rest| rest.split(' ').any(|it| it == other))
            })
        };
        assert!(orders(&stage, "After=", "nodeip-configuration.service"));
        assert!(orders(&stage, "Before=", "nmstate.service"));
        assert!(orders(&confirm, "After=", "nmstate.service"));
        assert!(orders(&confirm, "Before=", "ovs-configuration.service"));
        for unit in [&stage, &confirm] {
            assert!(orders(unit, "WantedBy=", "kubelet-dependencies.target"));
            assert!(!unit.contains("RequiredBy="));
        }
    }

    #[test]
    fn with_required_configure_ovs_fails_where_br_ex_was_not_confirmed() {
        let config = service(&Role::worker(), None, OnFailure::Stop).unwrap();
        let drop_in = |unit: &str| {
            let unit = config.units.iter().find(|it| it.name == unit).unwrap();
            let drop_in = unit.dropins.iter().find(|it| it.name == REQUIRED_DROP_IN).unwrap();
            drop_in.contents.clone().unwrap()
        };
        let guard = drop_in("ovs-configuration.service");
        assert_eq!(guard, "[Unit]\nAssertPathExists=/etc/nmstate/openshift/applied\n");
        let stage = drop_in("brex-firstboot-stage.service");
        assert!(stage.ends_with("ExecStart=/usr/bin/brex-firstboot stage --required\n"));
        let config = service(&Role::worker(), None, OnFailure::ConfigureOvs).unwrap();
        assert!(!config.units.iter().any(|unit| unit.name == "ovs-configuration.service"));
    }
}
