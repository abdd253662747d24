//! What is written reads back as the same, whatever it holds.

use machine_config::{Encoding, File, MachineConfig, Unit, difference, parse};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn encoding() -> impl Strategy<Value = Encoding> {
    prop_oneof![Just(Encoding::Plain), Just(Encoding::Gzip)]
}

prop_compose! {
    fn machine_config()(
        name in "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?",
        role in "[a-z]{1,10}",
        files in btree_map("[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?", vec(any::<u8>(), 0..2000), 0..6),
        encoding in encoding(),
        units in btree_map("[a-z]{1,8}\\.service", "(?s).{0,200}", 0..3),
    ) -> MachineConfig {
        let mut config = MachineConfig::new(name.parse().expect("a name"), role.parse().expect("a role"));
        for (name, bytes) in files {
            let path = format!("/etc/nmstate/openshift/{name}").parse().expect("a path");
            config.files.push(File::new(path, &bytes, encoding));
        }
        config.units.extend(units.iter().map(|(name, text)| Unit::enabled(name, text)));
        config
    }
}

proptest! {
    #[test]
    fn yaml_and_json_give_back_every_byte(config in machine_config()) {
        for text in [config.to_yaml().unwrap(), config.to_json()] {
            let read = parse(&text).unwrap();
            prop_assert_eq!(&read, &config);
            prop_assert_eq!(difference(&config, &read), []);
            prop_assert_eq!(read.to_yaml().unwrap(), config.to_yaml().unwrap());
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(?s).{0,400}") {
        let _ = parse(&text);
    }
}
