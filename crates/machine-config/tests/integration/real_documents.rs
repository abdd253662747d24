//! MachineConfigs that projects published, each read as it is.
//!
//! They are not part of this repository; without them these tests are skipped.

use std::fs;

use data_tier::data_tier;
use machine_config::{BR_EX_FOLDER, parse};

#[test]
fn every_published_machine_config_decodes_to_the_bytes_another_program_decoded() {
    let Some(folder) = data_tier("nmstate-br-ex") else { return };
    let mut files = 0;
    for entry in fs::read_dir(folder.join("machineconfig")).unwrap() {
        let path = entry.unwrap().path();
        let config = parse(&fs::read_to_string(&path).unwrap()).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        for file in &config.files {
            assert!(file.path.is_within(BR_EX_FOLDER));
            let decoded = format!("decoded/{name}__{}", file.path.file_name());
            assert_eq!(file.contents.bytes(), fs::read(folder.join(decoded)).unwrap());
            files += 1;
        }
        let again = parse(&config.to_yaml().unwrap()).unwrap();
        assert_eq!(again, config, "{name}");
    }
    let decoded = fs::read_dir(folder.join("decoded")).unwrap().count();
    assert_eq!(files, decoded);
}
