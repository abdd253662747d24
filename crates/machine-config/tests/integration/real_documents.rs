//! MachineConfigs that projects published, each read as it is.
//!
//! They are not part of this repository; without them this tier does not run.

use std::fs;
use std::io::Write;
use std::path::Path;

use machine_config::{BR_EX_FOLDER, parse};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/nmstate-br-ex");

#[test]
fn every_published_machine_config_decodes_to_the_bytes_another_program_decoded() {
    let folder = Path::new(FOLDER);
    if !folder.is_dir() {
        // Written past the test harness, which hides what passing tests print.
        let _ = writeln!(std::io::stderr(), "data tier: {FOLDER} is absent, not run");
        return;
    }
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
