//! Whole machines: what they guarantee to tests.

use lab_cluster::node::machine::{Machine, MachineOptions};
use lab_cluster::node::{End, NodeFile};

#[test]
#[ignore = "a whole machine takes minutes: cargo xtask test --machine"]
fn a_machine_starts_with_systemd_and_a_lease_and_keeps_its_disk() {
    let unit = "[Unit]\nDescription=Fails\n[Service]\nType=oneshot\nExecStart=/bin/false\n\
                [Install]\nWantedBy=multi-user.target\n";
    let mut machine = Machine::new(&MachineOptions {
        hostname: "worker-3".into(),
        files: vec![NodeFile {
            path: "/etc/systemd/system/fails.service".into(),
            content: unit.into(),
            mode: 0o644,
        }],
        enable: vec!["fails.service".into()],
        ..MachineOptions::default()
    })
    .unwrap();
    let scenario = "
cat out/system; uname -n; nm-online --quiet --timeout 60
ping -q -c 1 -W 5 198.51.100.1; systemctl --failed --no-legend
lan ip -o -4 address show lan0; systemctl disable fails.service; echo kept > /etc/kept; exit 7";
    let run = machine.boot(scenario).unwrap();
    assert_eq!(run.end, End::Exit(7), "{}", run.output);
    for part in ["degraded", "worker-3", "1 received", "fails.service", "198.51.100.1/24"] {
        assert!(run.output.contains(part), "{part} is missing: {}", run.output);
    }
    assert!(run.logs.contains("Fails"), "{}", run.logs);

    let run = machine.boot("cat out/system /etc/kept").unwrap();
    assert_eq!(run.succeeded().unwrap(), "running\nkept\n");
}
