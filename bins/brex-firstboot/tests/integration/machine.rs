//! The units on a whole machine: systemd starts them beside `nmstatectl service` and units with the
//! names and dependencies of the machine-config operator's.

// A test that cannot continue panics with the reason and its location.
mod mco;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use br_ex_authoring::render::OnFailure;
use lab::tools::{self, Tool};
use lab_cluster::node::machine::{Machine, MachineOptions};
use lab_cluster::node::{NodeFile, Profile};

/// What `oc-brex render --service` enables.
const OURS: [&str; 4] = [
    "brex-firstboot-recover.service",
    "brex-firstboot-stage.service",
    "brex-firstboot-confirm.service",
    "brex-firstboot-mtu-residue.service",
];
const PROFILES: &str = "sha256sum /etc/NetworkManager/system-connections/* | sort -k 2\n";

/// The network a node is provisioned with. The node is known by this address, so br-ex must have
/// it, too.
fn provisioned() -> Profile {
    Profile::fixed("nic0", "198.51.100.10/24", "198.51.100.1")
}

/// br-ex over nic0, with the node's address and this gateway.
fn document(gateway: &str) -> String {
    format!(
        "interfaces:
- name: nic0
  type: ethernet
  state: up
  ipv4: {{enabled: false}}
  ipv6: {{enabled: false}}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge:
    allow-extra-patch-ports: true
    port:
    - name: nic0
    - name: br-ex
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: nic0
  ipv4: {{enabled: true, dhcp: false, address: [{{ip: 198.51.100.10, prefix-length: 24}}]}}
  ipv6: {{enabled: false}}
routes:
  config:
  - {{destination: 0.0.0.0/0, next-hop-address: {gateway}, next-hop-interface: br-ex, metric: 48}}
dns-resolver:
  config: {{server: [198.51.100.1]}}
"
    )
}

/// A node with our units as they are delivered, and this document.
fn machine(document: &str) -> Machine {
    machine_with(document, Vec::new(), &["nmstate-configuration.service"])
}

/// The same with further files, and with these units masked.
fn machine_with(document: &str, further: Vec<NodeFile>, mask: &[&str]) -> Machine {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd");
    let mut files = mco::files();
    files.extend(further);
    for unit in fs::read_dir(&units).unwrap().map(Result::unwrap) {
        files.push(NodeFile {
            path: format!("/usr/lib/systemd/system/{}", unit.file_name().to_str().unwrap()),
            content: fs::read(unit.path()).unwrap(),
            mode: 0o644,
        });
    }
    files.push(NodeFile {
        path: "/etc/nmstate/openshift/worker-0.yml".into(),
        content: document.into(),
        mode: 0o644,
    });
    // A gateway that does not exist never responds.
    files.push(NodeFile {
        path: "/etc/systemd/system/brex-firstboot-confirm.service.d/patience.conf".into(),
        content:
            b"[Service]\nExecStart=\nExecStart=/usr/bin/brex-firstboot confirm --patience 45\n"
                .to_vec(),
        mode: 0o644,
    });
    let program = PathBuf::from(env!("CARGO_BIN_EXE_brex-firstboot"));
    let nmstatectl = tools::path(Tool::Nmstatectl).unwrap();
    let enable = mco::ENABLED.into_iter().chain(OURS).map(str::to_owned).collect();
    Machine::new(&MachineOptions {
        hostname: "worker-0".into(),
        profiles: vec![provisioned()],
        files,
        programs: vec![
            (program, "/usr/bin/brex-firstboot".into()),
            (nmstatectl, "/usr/bin/nmstatectl".into()),
        ],
        enable,
        mask: mask.iter().map(|unit| (*unit).to_owned()).collect(),
    })
    .unwrap()
}

/// When a unit's program started and ended, in microseconds since the machine started, and how.
#[derive(Debug)]
struct Ran {
    began: u64,
    ended: u64,
    result: String,
}

/// Prints what [`units`] reads.
fn show_units() -> String {
    let names: Vec<&str> = mco::ENABLED.into_iter().chain(OURS).collect();
    format!(
        "systemctl show --property=Id,Result,ExecMainStartTimestampMonotonic,\
         ExecMainExitTimestampMonotonic {}\necho ==\n",
        names.join(" ")
    )
}

/// The units that ran, and the rest of what was printed.
fn units(output: &str) -> (BTreeMap<String, Ran>, &str) {
    let (printed, rest) = output.split_once("==\n").unwrap();
    let mut units = BTreeMap::new();
    for block in printed.split("\n\n") {
        let values: BTreeMap<&str, &str> =
            block.lines().filter_map(|line| line.split_once('=')).collect();
        let number = |name: &str| values.get(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let ran = Ran {
            began: number("ExecMainStartTimestampMonotonic"),
            ended: number("ExecMainExitTimestampMonotonic"),
            result: values.get("Result").copied().unwrap_or_default().to_owned(),
        };
        if let Some(id) = values.get("Id").filter(|_| ran.began > 0) {
            let name = id.trim_end_matches(".service").to_owned();
            units.insert(name, ran);
        }
    }
    (units, rest)
}

fn assert_order(units: &BTreeMap<String, Ran>, names: &[&str]) {
    for pair in names.windows(2) {
        let (first, second) = (&units[pair[0]], &units[pair[1]]);
        assert!(first.ended <= second.began, "{} and {}: {units:#?}", pair[0], pair[1]);
    }
}

const ORDER: [&str; 6] = [
    "nodeip-configuration",
    "brex-firstboot-stage",
    "nmstate",
    "brex-firstboot-confirm",
    "ovs-configuration",
    "kubelet",
];

#[test]
#[ignore = "a whole machine takes minutes: cargo xtask test --machine"]
fn a_good_document_is_staged_applied_and_confirmed_in_order_and_once() {
    let mut machine = machine(&document("198.51.100.1"));
    let look = "
ovs-vsctl list-ports br-ex
ip -4 -o address show br-ex | grep -o '198.51.100.10/24'
ip route show default
ping -q -c 1 -W 5 198.51.100.1 > /dev/null && echo reached
cmp /etc/nmstate/openshift/applied /etc/nmstate/openshift/worker-0.yml && echo flag
journalctl -b -o cat -u ovs-configuration.service | grep configure-ovs
journalctl -b -o cat -u nmstate-configuration.service | grep -c Starting
systemctl is-active kubelet.service
";
    let script = [&show_units(), look, "echo PROFILES\n", PROFILES].concat();
    let run = machine.boot(&script).unwrap();
    let (ran, rest) = units(run.succeeded().unwrap());
    assert_order(&ran, &ORDER);
    for name in ORDER {
        assert_eq!(ran[name].result, "success", "{name}: {}", run.logs);
    }
    let (seen, profiles) = rest.split_once("PROFILES\n").unwrap();
    let expected = "nic0\n198.51.100.10/24\ndefault via 198.51.100.1 dev br-ex proto static metric 48 \n\
                    reached\nflag\nconfigure-ovs: skipped\n0\nactive\n";
    assert_eq!(seen, expected, "{}", run.logs);
    assert!(profiles.contains("br-ex"), "{profiles}");

    let script = [&show_units(), PROFILES].concat();
    let run = machine.boot(&script).unwrap();
    let (ran, same) = units(run.succeeded().unwrap());
    assert_eq!(same, profiles, "a later boot changes nothing");
    assert!(!ran.contains_key("brex-firstboot-stage"), "{ran:#?}");
    assert!(!ran.contains_key("brex-firstboot-confirm"), "{ran:#?}");
    assert_eq!(ran["kubelet"].result, "success");
}

#[test]
#[ignore = "a whole machine takes minutes: cargo xtask test --machine"]
fn a_bad_document_is_rolled_back_and_configure_ovs_creates_the_bridge() {
    let mut machine = machine(&document("198.51.100.254"));
    let look = "
systemctl is-failed brex-firstboot-confirm.service
systemctl show --property=ExecMainStatus --value brex-firstboot-confirm.service
journalctl -b -o cat -u brex-firstboot-confirm.service | grep -om 1 'gateway 198.51.100.254 on br-ex by ARP'
ls /etc/nmstate/openshift /etc/nmstate/*.yml
journalctl -b -o cat -u ovs-configuration.service | grep configure-ovs
cat /etc/NetworkManager/system-connections/*
systemctl is-active kubelet.service
for i in $(seq 60); do ping -q -c 1 -W 1 198.51.100.1 > /dev/null && break; done && echo reached
ip route show default
";
    let run = machine.boot(&[&show_units(), look].concat()).unwrap();
    let (ran, rest) = units(run.succeeded().unwrap());
    assert_order(&ran, &ORDER);
    let profile = provisioned().text;
    let expected = format!(
        "failed\n1\ngateway 198.51.100.254 on br-ex by ARP\n/etc/nmstate/openshift:\nworker-0.yml\nconfigure-ovs: makes br-ex\n{profile}\
         active\nreached\n"
    );
    assert!(rest.contains("ls: cannot access '/etc/nmstate/*.yml'"), "{rest}");
    let rest: String =
        rest.lines().filter(|line| !line.starts_with("ls:")).map(|l| format!("{l}\n")).collect();
    let (seen, route) = rest.split_at(expected.len().min(rest.len()));
    assert_eq!(seen, expected, "{}", run.logs);
    assert!(route.starts_with("default via 198.51.100.1 dev br-ex"), "{route}");
}

/// The drop-ins that `oc-brex render --service --required` writes.
fn required() -> Vec<NodeFile> {
    let role = "worker".parse().unwrap();
    let config = br_ex_authoring::render::service(&role, None, OnFailure::Stop).unwrap();
    let mut files = Vec::new();
    for unit in &config.units {
        for drop_in in &unit.dropins {
            files.push(NodeFile {
                path: format!("/etc/systemd/system/{}.d/{}", unit.name, drop_in.name),
                content: drop_in.contents.clone().unwrap_or_default().into_bytes(),
                mode: 0o644,
            });
        }
    }
    assert!(files.len() > 1, "{files:?}");
    files
}

/// With `--required`, neither configure-ovs nor kubelet runs on a node whose br-ex was not confirmed.
/// The unit of the machine-config operator is not masked: a drop-in keeps it from running.
#[test]
#[ignore = "a whole machine takes minutes: cargo xtask test --machine"]
fn a_required_document_that_is_rolled_back_leaves_no_guessed_bridge_and_no_kubelet() {
    let mut machine = machine_with(&document("198.51.100.254"), required(), &[]);
    let look = "
systemctl is-failed brex-firstboot-confirm.service
systemctl is-active ovs-configuration.service
systemctl show --property=AssertResult --value ovs-configuration.service
systemctl is-active kubelet.service
systemctl show --property=ExecMainStartTimestampMonotonic --value nmstate-configuration.service
ovs-vsctl list-br
test -e /etc/nmstate/openshift/applied || echo no flag
for i in $(seq 60); do ping -q -c 1 -W 1 198.51.100.1 > /dev/null && break; done && echo reached
";
    let run = machine.boot(&[&show_units(), look].concat()).unwrap();
    let (_, seen) = units(run.succeeded().unwrap());
    // A unit whose assertion fails is not started, so it is inactive; what requires it fails.
    assert_eq!(seen, "failed\ninactive\nno\ninactive\n0\nno flag\nreached\n", "{}", run.logs);
}
