//! Every rule, violated alone: a good document with one change.

use br_ex::{ClusterFacts, Document, NmstateVersion, Platform, Severity, check};

/// A good static document without findings.
const STATIC: &str = "\
interfaces:
- name: eno1
  type: ethernet
  state: up
  ipv4: {enabled: false}
  ipv6: {enabled: false}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge:
    allow-extra-patch-ports: true
    options:
      mcast-snooping-enable: true
    port:
    - name: eno1
    - name: br-ex
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: eno1
  ipv4:
    enabled: true
    address:
    - {ip: 192.0.2.10, prefix-length: 24}
  ipv6: {enabled: false}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: br-ex, metric: 48}
dns-resolver:
  config:
    server: [192.0.2.53]
";

/// A good document with DHCP.
fn dhcp() -> String {
    let text = STATIC.replace(
        "    address:\n    - {ip: 192.0.2.10, prefix-length: 24}\n",
        "    dhcp: true\n    auto-route-metric: 48\n",
    );
    text[..text.find("routes:").unwrap()].to_owned()
}

/// The lines of the bridge with the bond, behind a patch port.
const SLB: &str = "\
- name: br-phy
  type: ovs-bridge
  state: up
  bridge:
    allow-extra-patch-ports: true
    port:
    - name: patch-phy-to-ex
    - name: ovs-bond
      link-aggregation: {mode: balance-slb, port: [{name: eno1}, {name: eno2}]}
- {name: patch-ex-to-phy, type: ovs-interface, state: up, patch: {peer: patch-phy-to-ex}}
- {name: patch-phy-to-ex, type: ovs-interface, state: up, patch: {peer: patch-ex-to-phy}}
- {name: eno2, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
";

fn slb() -> String {
    let text = STATIC.replace("    - name: eno1\n", "    - name: patch-ex-to-phy\n").replace(
        "    - name: br-ex\n- name: br-ex\n",
        "    - name: br-ex\n  ovs-db: {external_ids: {bridge-uplink: patch-ex-to-phy}}\n- name: br-ex\n",
    );
    text.replace("routes:\n", &format!("{SLB}routes:\n"))
}

const BOND: &str = "\
- name: bond0
  type: bond
  state: up
  ipv4: {enabled: false}
  ipv6: {enabled: false}
  link-aggregation:
    mode: active-backup
    options: {miimon: '100'}
    port: [eno1, eno2]
";

fn bond() -> String {
    STATIC
        .replace("    - name: eno1\n", "    - name: bond0\n")
        .replace("routes:\n", &format!("{BOND}routes:\n"))
}

fn broken_in(text: &str, around: &ClusterFacts) -> Vec<String> {
    let findings = check(&Document::parse(text.as_bytes()), around);
    let letter = |severity| match severity {
        Severity::Error => 'E',
        Severity::Warning => 'W',
        Severity::Info => 'I',
    };
    let printed =
        |it: &br_ex::Finding| format!("{} {} {}", it.rule, letter(it.severity), it.at.line);
    findings.iter().map(printed).collect()
}

fn broken(text: &str) -> Vec<String> {
    broken_in(text, &ClusterFacts::default())
}

/// The document with one thing replaced, which must be there.
fn with(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "{old:?} is not in\n{text}");
    text.replacen(old, new, 1)
}

#[test]
fn good_documents_break_no_rule() {
    for text in [STATIC.to_owned(), dhcp(), slb(), bond()] {
        assert_eq!(broken(&text), Vec::<String>::new(), "{text}");
    }
}

/// Rule, weight and line of what is found when `old` becomes `new` in the static document.
const STATIC_CASES: &[(&str, &str, &[&str])] = &[
    ("type: ovs-bridge", "type: linux-bridge", &["B1 E 1"]),
    ("ovs-bridge\n  state: up", "ovs-bridge\n  state: down", &["B1 E 9"]),
    ("type: ovs-interface", "type: dummy", &["B2 E 1"]),
    ("ovs-interface\n  state: up", "ovs-interface\n  state: absent", &["B2 E 19"]),
    ("    - name: br-ex\n", "", &["B3 E 10"]),
    ("    - name: eno1\n", "", &["B4 E 10"]),
    ("    - name: eno1\n", "    - name: eno1\n    - name: eno2\n", &["B4 E 16"]),
    ("  ipv4: {enabled: false}\n", "  ipv4: {enabled: true, dhcp: true}\n", &["B6 E 5"]),
    ("  ipv6: {enabled: false}\n- name: br-ex", "- name: br-ex", &["B6 W 2"]),
    ("ovs-bridge\n", "ovs-bridge\n  copy-mac-from: eno1\n", &["B7 W 9"]),
    ("ovs-bridge\n", "ovs-bridge\n  mac-address: 02:00:00:00:00:01\n", &["B7 E 9"]),
    ("  copy-mac-from: eno1\n", "", &["B8 W 17"]),
    ("copy-mac-from: eno1", "copy-mac-from: eno9", &["B8 W 20"]),
    (
        "enabled: true\n    address:\n    - {ip: 192.0.2.10, prefix-length: 24}\n",
        "enabled: true\n",
        &["B11 E 22"],
    ),
    (
        "ipv4:\n    enabled: true\n    address:\n    - {ip: 192.0.2.10, prefix-length: 24}\n",
        "ipv4: {enabled: false}\n",
        &["B11 E 17"],
    ),
    ("0.0.0.0/0", "198.51.100.0/24", &["B12 E 21"]),
    ("metric: 48", "metric: 100", &["B13 W 28"]),
    ("192.0.2.1,", "198.51.100.1,", &["B14 W 28"]),
    ("dns-resolver:\n  config:\n    server: [192.0.2.53]\n", "", &["B15 W 17"]),
    ("[192.0.2.53]", "['2001:db8::53']", &["B15 I 31"]),
    ("ovs-bridge\n", "ovs-bridge\n  mtu: 9000\n", &["B18 W 9"]),
    ("interfaces:\n", "interfaces:\n- {name: ovn-k8s-mp0, type: dummy}\n", &["B19 E 2"]),
    (
        "interfaces:\n",
        "interfaces:\n- {name: eno2, type: ethernet, ipv4: {enabled: true, dhcp: true}}\n",
        &["B20 W 2"],
    ),
    (
        "interfaces:\n",
        "interfaces:\n- {name: eno2, type: ethernet, ipv4: {enabled: true, address: [{ip: 192.0.2.11, prefix-length: 24}]}}\n",
        &["B20 W 2"],
    ),
    ("interfaces:\n", "interfaces:\n- {name: a-name-of-16-let, type: dummy}\n", &["B21 E 2"]),
    (
        "interfaces:\n",
        "interfaces:\n- {name: dummy0, type: dummy}\n- {name: dummy0, type: dummy}\n",
        &["B22 E 3"],
    ),
    ("  state: up\n", "  state: up\n  state: up\n", &["B22 E 5"]),
    ("    allow-extra-patch-ports: true\n", "", &["B23 I 10"]),
    ("mcast-snooping-enable: true", "mcast-snooping-enable: false", &["B24 I 10"]),
    ("snooping-enable: true\n", "snooping-enable: true\n      stp: true\n", &["B25 W 14"]),
    ("snooping-enable: true\n", "snooping-enable: true\n      fail-mode: secure\n", &["B25 W 14"]),
    ("    - name: eno1\n", "    - {name: eno1, vlan: {mode: access, tag: 5}}\n", &["B25 W 15"]),
    ("routes:\n", "ovs-db: {external_ids: {a: b}}\nroutes:\n", &["B27 W 26"]),
    (
        "routes:\n",
        "ovs-db: {external_ids: {ovn-bridge-mappings: 'a:b'}}\nroutes:\n",
        &["B27 W 26", "B26 E 26"],
    ),
    (
        "interfaces:\n",
        "interfaces:\n- {name: eno2, type: ethernet, 802.1x: {identity: me, eap-methods: [peap], password: secret}}\n",
        &["B28 W 2"],
    ),
    ("interfaces:\n", "interfaces:\n- {name: eno2}\n", &["B29 W 2"]),
    ("interfaces:\n", "interfaces:\n- {name: eno2, type: ethernet, mtuu: 3}\n", &["B34 E 2"]),
    ("prefix-length: 24", "prefix: 24", &["B34 E 24"]),
    ("192.0.2.53", "CHANGE_ME", &["B34 E 31"]),
    ("192.0.2.10", "100.64.0.9", &["B14 W 28", "B37 E 24"]),
    (
        "- {ip: 192.0.2.10",
        "- {ip: 169.254.0.2, prefix-length: 17}\n    - {ip: 192.0.2.10",
        &["B38 W 24"],
    ),
    ("ovs-bridge\n", "ovs-bridge\n  profile-name: bridge\n", &["B42 W 9"]),
];

#[test]
fn each_rule_is_broken_by_one_change_of_a_static_document() {
    for (old, new, expected) in STATIC_CASES {
        let text = with(STATIC, old, new);
        let mut found = broken(&text);
        found.retain(|it| !is_consequence(it, expected));
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        found.sort();
        assert_eq!(found, expected, "{old:?} → {new:?}");
    }
}

/// A bridge or port of another type causes further findings, and so does DHCP on another
/// interface. Only the findings that the case is about count.
fn is_consequence(finding: &str, expected: &[&str]) -> bool {
    let missing = expected.iter().any(|it| it.starts_with("B1 ") || it.starts_with("B2 "));
    missing && !finding.starts_with("B1 ") && !finding.starts_with("B2 ")
}

#[test]
fn rules_on_other_shapes_are_broken_by_one_change() {
    let slb = slb();
    let cases: Vec<(String, &str, &str, &[&str])> = vec![
        (slb.clone(), "{bridge-uplink: patch-ex-to-phy}", "{x: y}", &["B5 E 15"]),
        (slb.clone(), "{bridge-uplink: patch-ex-to-phy}", "{bridge-uplink: eno9}", &["B4 E 17"]),
        (slb.clone(), "{peer: patch-ex-to-phy}", "{peer: other}", &["B5 E 37"]),
        (slb, "[{name: eno1}, {name: eno2}]", "[{name: eno1}]", &["B39 W 34"]),
        (bond(), "[eno1, eno2]", "[eno1]", &["B39 W 26"]),
        (bond(), "port: [eno1, eno2]", "ports-config: [{name: eno1}, {name: eno2}]", &[]),
        (bond(), "port: [eno1, eno2]", "ports-config: [{name: eno1}]", &["B39 W 26"]),
        (bond(), "[eno1, eno2]", "[eno1, eno2, eno2]", &["N1 E 26", "B39 W 34"]),
        (
            bond(),
            "mode: active-backup\n    options: {miimon: '100'}",
            "mode: 802.3ad",
            &["B39 W 32"],
        ),
        (bond(), "copy-mac-from: eno1", "copy-mac-from: bond0", &["B9 E 20"]),
        (bond(), "{miimon: '100'}", "{miimon: '100', fail_over_mac: active}", &[]),
        (
            bond().replace("{miimon: '100'}", "{fail_over_mac: active}"),
            "type: bond\n",
            "type: bond\n  mac-address: 02:00:00:00:00:01\n",
            &["B10 W 28"],
        ),
        (dhcp(), "    auto-route-metric: 48\n", "", &["B13 W 21"]),
        (dhcp(), "dhcp: true\n", "dhcp: true\n    auto-gateway: false\n", &["B12 E 21"]),
        (dhcp(), "  copy-mac-from: eno1\n", "  copy-mac-from: eno1\n  mtu: 9000\n", &["B16 W 15"]),
        (
            dhcp().replace("ethernet\n", "ethernet\n  mtu: 1500\n"),
            "copy-mac-from: eno1\n",
            "copy-mac-from: eno1\n  mtu: 9000\n",
            &["B16 E 4"],
        ),
    ];
    for (text, old, new, expected) in cases {
        let found = broken(&with(&text, old, new));
        assert_eq!(found, expected, "{old:?} → {new:?}");
    }
}

/// The good documents with this as the last section of the ovs-interface.
fn with_ipv6(text: &str, section: &str) -> String {
    let place = text.rfind("  ipv6: {enabled: false}\n").unwrap();
    let (start, end) = text.split_at(place);
    format!("{start}{}", end.replacen("{enabled: false}", section, 1))
}

#[test]
fn ipv6_with_a_small_mtu_is_refused() {
    let text = with(&dhcp(), "copy-mac-from: eno1\n", "copy-mac-from: eno1\n  mtu: 1200\n");
    let section = "{enabled: true, dhcp: true, autoconf: true, auto-route-metric: 48}";
    assert_eq!(broken(&with_ipv6(&text, section)), ["B17 E 21"]);
}

#[test]
fn a_family_that_is_enabled_without_an_address_is_found_beside_one_that_has_one() {
    // nmstate gives IPv6 without a method link-local addresses only, and refuses IPv4 without one.
    assert_eq!(broken(&with_ipv6(STATIC, "{enabled: true}")), ["B11 W 25"]);
    assert_eq!(
        broken(&with_ipv6(STATIC, "{enabled: true, dhcp: false, address: []}")),
        ["B11 W 25"]
    );
    let automatic = "{enabled: true, dhcp: true, autoconf: true, auto-route-metric: 48}";
    let dual = with_ipv6(&dhcp(), automatic);
    assert_eq!(broken(&dual), Vec::<String>::new());
    let dhcp_lines = "    dhcp: true\n    auto-route-metric: 48\n";
    assert_eq!(broken(&with(&dual, dhcp_lines, "")), ["B11 E 22"]);
    // An empty list is not verified: IPv4 is disabled without a message.
    assert_eq!(broken(&with(&dual, dhcp_lines, "    address: []\n")), ["B11 W 22"]);
    // Without `enabled` a section of a new interface is off.
    assert_eq!(broken(&with(&dual, "    enabled: true\n    dhcp", "    dhcp")), ["B11 E 21"]);
    let findings = check(
        &Document::parse(with_ipv6(STATIC, "{enabled: true}").as_bytes()),
        &ClusterFacts::default(),
    );
    assert!(
        findings[0].message.starts_with(
            "expected an address or `dhcp: true` beside `ipv6.enabled: true` of `br-ex`, found neither"
        ),
        "{findings:?}"
    );
}

#[test]
fn the_second_bridge_and_other_gateways_need_addresses_too() {
    let second = "- {name: br-ex1, type: ovs-bridge, state: up, bridge: {allow-extra-patch-ports: true, \
                  options: {mcast-snooping-enable: true}, port: [{name: eno2}, {name: br-ex1}]}}\n\
                  - {name: eno2, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}\n\
                  - {name: br-ex1, type: ovs-interface, state: up, copy-mac-from: eno2, \
                  ipv4: {enabled: true, address: [{ip: 198.51.100.10, prefix-length: 24}]}, ipv6: {enabled: false}}\n\
                  routes:\n";
    let text = with(STATIC, "routes:\n", second);
    assert_eq!(broken(&text), Vec::<String>::new());
    let without = with(&text, ", address: [{ip: 198.51.100.10, prefix-length: 24}]", "");
    assert_eq!(broken(&without), ["B11 E 28"]);
}

#[test]
fn a_policy_without_addresses_keeps_those_of_the_node() {
    let text = with(STATIC, "    address:\n    - {ip: 192.0.2.10, prefix-length: 24}\n", "");
    let indented: String = text.lines().map(|line| format!("    {line}\n")).collect();
    let policy = format!(
        "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {{name: a}}\nspec:\n  desiredState:\n{indented}"
    );
    let findings = broken(&policy);
    assert!(findings.contains(&"B11 W 27".to_owned()), "{findings:?}");
    assert!(!findings.iter().any(|it| it.contains(" E ")), "{findings:?}");
}

#[test]
fn autoconf_without_dhcp_is_refused_because_nmstate_cannot_do_it() {
    let alone = with_ipv6(STATIC, "{enabled: true, autoconf: true, auto-route-metric: 48}");
    assert_eq!(broken(&alone), ["N1 E 25"]);
    let off =
        with_ipv6(STATIC, "{enabled: true, dhcp: false, autoconf: true, auto-route-metric: 48}");
    assert_eq!(broken(&off), ["N1 E 25"]);
}

#[test]
fn what_surrounds_a_document_breaks_rules_too() {
    let net = |text: &str| vec![text.parse().unwrap()];
    let none = ClusterFacts::default;
    for (around, expected) in [
        (ClusterFacts { cluster_mtu: Some(1400), ..none() }, &[][..]),
        (ClusterFacts { cluster_mtu: Some(1430), ..none() }, &["B16 W 17"]),
        (ClusterFacts { cluster_mtu: Some(1443), ..none() }, &["B16 E 17"]),
        (ClusterFacts { machine_networks: net("192.0.2.0/24"), ..none() }, &[]),
        (ClusterFacts { machine_networks: net("198.51.100.0/24"), ..none() }, &["B37 W 24"]),
        (ClusterFacts { machine_networks: net("2001:db8::/64"), ..none() }, &[]),
        (ClusterFacts { cluster_networks: net("192.0.0.0/16"), ..none() }, &["B37 E 24"]),
        (ClusterFacts { service_networks: net("192.0.0.0/16"), ..none() }, &["B37 E 24"]),
        (ClusterFacts { platform: Some(Platform::Baremetal), ..none() }, &[]),
        (ClusterFacts { platform: Some(Platform::Aws), ..none() }, &["B40 W 1"]),
    ] {
        assert_eq!(broken_in(STATIC, &around), expected, "{around:?}");
    }
    let newer = with(STATIC, "eno1\n  type", "eno1\n  alt-names: [{name: first}]\n  type");
    assert_eq!(broken(&newer), Vec::<String>::new());
    let version = |patch| ClusterFacts { nmstate: Some(NmstateVersion(2, 2, patch)), ..none() };
    assert_eq!(broken_in(&newer, &version(38)), ["B41 I 3"]);
    assert_eq!(broken_in(&newer, &version(62)), Vec::<String>::new());
}

/// The node before: one NIC with an address and the default route.
fn node(nic: &str, address: &str) -> ClusterFacts {
    let text = format!(
        "interfaces:\n- name: {nic}\n  type: ethernet\n  state: up\n  mac-address: 02:00:00:00:00:01\n  \
         mtu: 1500\n  max-mtu: 9000\n  ipv4: {{enabled: true, address: [{{ip: {address}, prefix-length: 24}}]}}\n\
         routes:\n  running: [{{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: {nic}, metric: 100}}]\n"
    );
    let mut states = br_ex::node_state::parse(&text).unwrap();
    ClusterFacts { current: Some(states.remove(0).state), ..ClusterFacts::default() }
}

#[test]
fn an_address_that_the_node_does_not_have_before_is_explained() {
    assert_eq!(broken_in(STATIC, &node("eno1", "192.0.2.10")), Vec::<String>::new());
    assert_eq!(broken_in(STATIC, &node("eno1", "192.0.2.11")), ["B36 W 24"]);
    // The lease moves along with the uplink, and with no other interface.
    assert_eq!(broken_in(&dhcp(), &node("eno1", "192.0.2.11")), Vec::<String>::new());
    let findings = broken_in(&dhcp(), &node("eno9", "192.0.2.11"));
    assert!(findings.contains(&"B36 W 17".to_owned()), "{findings:?}");
}

#[test]
fn a_nic_that_the_node_does_not_have_is_an_error() {
    let findings = broken_in(STATIC, &node("eno9", "192.0.2.10"));
    assert!(findings.contains(&"B9 E 20".to_owned()), "{findings:?}");
}

#[test]
fn what_only_nmstate_rejects_is_reported_with_its_message() {
    // A NIC that is port of a bond and of the bridge.
    let text = with(
        &bond(),
        "routes:\n",
        "- name: bond1\n  type: bond\n  state: up\n  link-aggregation: {mode: active-backup, port: [eno1, eno3]}\nroutes:\n",
    );
    let findings = check(&Document::parse(text.as_bytes()), &ClusterFacts::default());
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!(finding.rule.name(), "N1");
    assert!(finding.message.starts_with("nmstate reports: ") && finding.message.contains("eno1"));
}

#[test]
fn what_is_not_a_document_is_reported_at_its_location() {
    for (text, expected, output) in [
        ("", "B34 E 1", "the file is empty"),
        ("# nothing\n", "B34 E 1", "the file is empty"),
        ("- a\n", "B34 E 1", "expected a map with `interfaces`, found a list"),
        ("interfaces: [\n", "B34 E 1", "not valid YAML"),
        ("desiredState:\n  interfaces: []\n", "B34 E 1", "without `capture`"),
        (
            "kind: AgentConfig\n",
            "B34 E 1",
            "expected an NMState document, found the kind AgentConfig",
        ),
        ("capture: {a: 'interfaces.name==\"b\"'}\n", "B34 E 1", "without `desiredState`"),
    ] {
        let findings = check(&Document::parse(text.as_bytes()), &ClusterFacts::default());
        let hit = findings.iter().find(|it| it.rule.name() == "B34").unwrap();
        assert!(hit.message.contains(output), "{text:?}: {findings:?}");
        assert!(broken(text).contains(&expected.to_owned()), "{text:?}: {findings:?}");
    }
    let latin = b"interfaces: []\n# caf\xe9\n";
    let findings = check(&Document::parse(latin), &ClusterFacts::default());
    assert_eq!((findings[0].at.line, findings[0].at.column), (2, 6));
    let two = format!("{STATIC}---\ninterfaces: []\n");
    assert!(broken(&two).contains(&"B34 E 1".to_owned()));
}

#[test]
fn a_misspelt_key_is_reported_at_its_location_with_the_correct_one() {
    let text = with(&dhcp(), "auto-route-metric", "auto-rout-metric");
    let findings = check(&Document::parse(text.as_bytes()), &ClusterFacts::default());
    let hit = findings.iter().find(|it| it.rule.name() == "B34").unwrap();
    assert_eq!((hit.at.line, hit.at.column), (24, 5));
    assert!(hit.message.ends_with("did you mean `auto-route-metric`?"), "{}", hit.message);
}

#[test]
fn policies_of_a_running_cluster_need_extra_patch_ports_and_masquerade_addresses() {
    let indented: String = STATIC.lines().map(|line| format!("    {line}\n")).collect();
    let policy = format!(
        "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {{name: a}}\nspec:\n  desiredState:\n{indented}"
    );
    assert_eq!(broken(&policy), ["B38 W 26"]);
    let without = with(&policy, "        allow-extra-patch-ports: true\n", "");
    assert_eq!(broken(&without), ["B23 W 15", "B38 W 25"]);
    let other = "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {name: a}\nspec:\n  desiredState:\n    interfaces:\n    - {name: eno2, type: ethernet}\n";
    assert_eq!(broken(other), Vec::<String>::new());
}

/// The bond with a VLAN below br-ex, and one MAC address for all of them.
fn one_mac() -> String {
    let mac = "  mac-address: 02:00:00:00:00:01\n";
    let text = bond().replace("  copy-mac-from: eno1\n", mac);
    let text = text
        .replace("- name: bond0\n  type: bond\n", &format!("- name: bond0\n  type: bond\n{mac}"));
    text.replacen(
        "- name: eno1\n  type: ethernet\n",
        &format!("- name: eno1\n  type: ethernet\n{mac}"),
        1,
    )
}

#[test]
fn one_mac_address_is_allowed_on_a_bond_its_ports_and_br_ex() {
    let text = one_mac();
    assert_eq!(text.matches("02:00:00:00:00:01").count(), 3, "{text}");
    assert_eq!(broken(&text), Vec::<String>::new());
    // An interface that has nothing to do with them is another machine's, or a mistake.
    let other =
        "- {name: eno9, type: ethernet, state: up, mac-address: '02:00:00:00:00:01'}\nroutes:\n";
    let findings = broken(&with(&text, "routes:\n", other));
    assert!(findings.iter().any(|it| it.starts_with("B22 E ")), "{findings:?}");
    // Two ports that are found by one address are one NIC.
    let found_by = "  identifier: mac-address\n  mac-address: 02:00:00:00:00:07\n";
    let nic = "- name: eno1\n  type: ethernet\n";
    let twice = with(
        &bond(),
        nic,
        &format!("{nic}{found_by}- name: eno2\n  type: ethernet\n{found_by}- name: eno1\n  type: ethernet\n")
            .replace("- name: eno1\n  type: ethernet\n  identifier", "- name: eno3\n  type: ethernet\n  identifier"),
    );
    let twice = twice.replace("[eno1, eno2]", "[eno1, eno2, eno3]");
    let findings = broken(&twice);
    assert!(findings.iter().any(|it| it.starts_with("B22 E ")), "{findings:?}: {twice}");
}

#[test]
fn a_gateway_outside_of_the_subnet_is_silent_for_host_addresses_and_a_warning_elsewhere() {
    let text = with(STATIC, "192.0.2.1,", "198.51.100.1,");
    assert_eq!(broken(&text), ["B14 W 28"]);
    let host = with(&text, "prefix-length: 24", "prefix-length: 32");
    let findings = broken(&host);
    assert!(!findings.iter().any(|it| it.starts_with("B14")), "{findings:?}");
}

#[test]
fn the_same_state_breaks_the_same_rules_in_a_policy_and_in_a_document() {
    let state = "\
interfaces:
- name: bond7
  type: bond
  state: up
  mtu: 9000
  ipv4: {enabled: true, address: [{ip: 192.0.2.10, prefix-length: 24}]}
  link-aggregation: {mode: active-backup, port: [eno7, eno8]}
- {name: eno7, type: ethernet, state: up, mtu: 1500}
ovs-db:
  external_ids:
    ovn-bridge-mappings: physnet:br-ex
routes:
  config:
  - {destination: 198.51.100.0/24, next-hop-address: 203.0.113.1, next-hop-interface: bond7}
";
    let indented: String = state.lines().map(|line| format!("    {line}\n")).collect();
    let policy = format!(
        "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {{name: a}}\nspec:\n  desiredState:\n{indented}"
    );
    let rules = |findings: Vec<String>| -> Vec<String> {
        let line = |it: &String| it.rsplit_once(' ').unwrap().0.to_owned();
        findings.iter().map(line).collect()
    };
    let of_policy = rules(broken(&policy));
    for rule in ["B26 E", "B27 W", "B14 W", "B16 E"] {
        assert!(of_policy.contains(&rule.to_owned()), "{rule}: {of_policy:?}");
    }
    let of_document = rules(broken(state));
    assert!(of_policy.iter().all(|rule| of_document.contains(rule)), "{of_policy:?}");
}

#[test]
fn a_value_that_nmstate_refuses_is_named_with_its_field_and_line() {
    let vlan = "\
interfaces:
- name: eno1.x
  type: vlan
  state: up
  vlan:
    base-iface: eno1
    protocol: 802.1q
    id: VLAN
- name: eno1
  type: ethernet
  state: upp
  ipv4:
    enabled: true
    address:
    - {ip: 192.0.2.10, prefix-length: abc}
";
    let findings = check(&Document::parse(vlan.as_bytes()), &ClusterFacts::default());
    let hits: Vec<String> = findings
        .iter()
        .filter(|it| it.rule.name() == "B34")
        .map(|it| format!("{}: {}", it.at.line, it.message))
        .collect();
    assert_eq!(
        hits[0], "8: `vlan.id` of `eno1.x`: expected a whole number, found \"VLAN\"",
        "{hits:?}"
    );
    assert!(hits[1].starts_with("11: `state` of `eno1`: "), "{hits:?}");
    assert!(hits[2].starts_with("15: `ipv4.address[0].prefix-length` of `eno1`: "), "{hits:?}");
}

#[test]
fn every_policy_of_a_file_is_checked() {
    let policy = |name: &str, vlan: &str| {
        format!(
            "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\nmetadata: {{name: {name}}}\n\
             spec:\n  desiredState:\n    interfaces:\n    - {{name: v, type: vlan, vlan: {{id: {vlan}, \
             base-iface: eno1}}}}\n"
        )
    };
    let text = format!("{}---\nkind: Namespace\n---\n{}", policy("a", "7"), policy("b", "x"));
    let policies = Document::policies(&text).unwrap();
    let findings: Vec<Vec<_>> =
        policies.iter().map(|it| check(it, &ClusterFacts::default())).collect();
    assert_eq!(findings.len(), 2);
    assert!(findings[0].is_empty(), "{findings:?}");
    assert_eq!((findings[1][0].at.line, findings[1][0].rule.name()), (17, "B34"), "{findings:?}");
    assert!(Document::policies(&policy("a", "7")).is_none());
    assert!(Document::policies("interfaces: []\n---\ninterfaces: []\n").is_none());
}
