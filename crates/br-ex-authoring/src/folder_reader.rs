//! Which program reads the folder of documents on the nodes of a pool.

use br_ex::hosts::Reader;
use machine_config::Pool;

/// The unit of the machine config operator that reads the folder.
const MCO_UNIT: &str = "nmstate-configuration.service";
/// The unit of brex-firstboot that reads it instead.
const FIRST_BOOT_UNIT: &str = "brex-firstboot-stage.service";

/// The reader according to the units of a pool. MachineConfigs that an administrator writes have none
/// of these units; those of the operator itself and of `oc-brex render --service` do.
pub fn of_pool(pool: &Pool<'_>) -> Reader {
    let has = |name: &str| {
        let mut units = pool.order().iter().flat_map(|config| &config.units);
        units.any(|unit| unit.name == name && unit.contents.is_some())
    };
    if has(FIRST_BOOT_UNIT) {
        Reader::FirstBoot
    } else if has(MCO_UNIT) {
        Reader::Mco
    } else {
        Reader::Unknown
    }
}

#[cfg(test)]
mod tests {
    use machine_config::{MachineConfig, Role, Unit};

    use super::*;

    #[test]
    fn the_units_of_a_pool_determine_the_reader() {
        let config = |unit: Option<Unit>| {
            let mut config = MachineConfig::new("10-x".parse().unwrap(), Role::worker());
            config.units.extend(unit);
            config
        };
        for (unit, expected) in [
            (None, Reader::Unknown),
            (Some(Unit::enabled(MCO_UNIT, "[Unit]\n")), Reader::Mco),
            (Some(Unit::masked(MCO_UNIT)), Reader::Unknown),
            (Some(Unit::enabled(FIRST_BOOT_UNIT, "[Unit]\n")), Reader::FirstBoot),
        ] {
            let config = config(unit);
            assert_eq!(of_pool(&Pool::new(&Role::worker(), [&config])), expected);
        }
    }
}
