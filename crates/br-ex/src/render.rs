//! Documents as MachineConfigs: one per role, and the one that brings the first-boot service.

use machine_config::{
    BR_EX_FOLDER, Encoding, File, FilePath, FilePathError, MachineConfig, NameError, Role, Unit,
};

use crate::inventory::{Inventory, Stem};

/// Units of the first-boot service, as the layered image carries them. They are written out so
/// that they are there, and enabled, before a node has that image.
const UNITS: [(&str, &str); 4] = [
    (
        "brex-firstboot-recover.service",
        include_str!("../../../deploy/systemd/brex-firstboot-recover.service"),
    ),
    (
        "brex-firstboot-stage.service",
        include_str!("../../../deploy/systemd/brex-firstboot-stage.service"),
    ),
    (
        "brex-firstboot-confirm.service",
        include_str!("../../../deploy/systemd/brex-firstboot-confirm.service"),
    ),
    (
        "brex-firstboot-mtu-residue.service",
        include_str!("../../../deploy/systemd/brex-firstboot-mtu-residue.service"),
    ),
];
/// It would copy a document and set the flag before anything is applied.
const MASKED: &str = "nmstate-configuration.service";

#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Path(#[from] FilePathError),
}

/// Where a node looks for the document.
pub fn path_of(stem: &Stem) -> Result<FilePath, FilePathError> {
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

/// The MachineConfig that lets the first-boot service do what the cluster's own unit did.
pub fn service(role: &Role) -> Result<MachineConfig, RenderError> {
    let name = format!("10-brex-firstboot-{role}").parse()?;
    let mut config = MachineConfig::new(name, role.clone());
    config.units.extend(UNITS.iter().map(|(name, text)| Unit::enabled(name, text)));
    config.units.push(Unit::masked(MASKED));
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{FoundFile, from_files};

    fn inventory(files: &[(&str, &str)]) -> Inventory {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| FoundFile {
                path: (*path).to_owned(),
                bytes: text.as_bytes().to_owned(),
            })
            .collect();
        from_files("hosts", &files, None).unwrap()
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
    fn the_service_takes_the_place_of_the_clusters_own_unit() {
        let config = service(&Role::worker()).unwrap();
        assert_eq!(config.name.as_str(), "10-brex-firstboot-worker");
        let masked: Vec<_> = config.units.iter().filter(|unit| unit.mask == Some(true)).collect();
        assert_eq!(masked.len(), 1);
        assert_eq!(masked[0].name, "nmstate-configuration.service");
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
}
