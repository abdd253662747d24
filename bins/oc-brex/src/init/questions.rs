//! The prompts of `oc-brex init`: values without a flag are prompted for, with what the node has now
//! as the default.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Result, bail};
use br_ex::layout::Family;
use br_ex_authoring::proposal::{Nic, Proposal};
use br_ex_authoring::topology::{
    Addressing, Bond, BondMode, Families, InterfaceName, StaticAddresses, Topology, Uplink,
};
use ipnet::IpNet;
use machine_identity::Mac;

use super::prompt::{self, Prompt, Question};

/// Values of flags.
#[derive(Debug, Clone, Default)]
pub(super) struct Given {
    pub(super) uplinks: Vec<String>,
    pub(super) by_mac: bool,
    pub(super) bond: Option<String>,
    pub(super) vlan: Option<u16>,
    pub(super) dhcp: bool,
    pub(super) families: Option<String>,
    pub(super) addresses: Vec<IpNet>,
    pub(super) gateways: Vec<IpAddr>,
    pub(super) servers: Vec<IpAddr>,
    pub(super) mtu: Option<u32>,
}

/// Asks for what is missing.
pub(super) fn ask(given: &Given, proposal: &Proposal, prompt: &mut dyn Prompt) -> Result<Topology> {
    let (ports, macs) = uplinks(given, proposal, prompt)?;
    let vlan = vlan(given, proposal, prompt)?;
    let uplink = match (ports.as_slice(), vlan) {
        ([nic], 0) => Uplink::Nic(nic.clone()),
        ([nic], id) => Uplink::Vlan { base: nic.clone(), id: id.to_string().parse()? },
        (_, id) => match (mode(given, proposal, prompt)?, id) {
            (BondChoice::Slb, 0) => Uplink::Slb { ports },
            (BondChoice::Slb, _) => bail!("--bond balance-slb: expected no VLAN, found {id}"),
            (BondChoice::Linux(mode), id) => {
                // The bond of the node keeps its name: another one would leave it with its addresses.
                let name = proposal.bond_name.as_deref().unwrap_or("bond0").parse()?;
                let bond = Bond { name, mode, ports, options: BTreeMap::new() };
                match id {
                    0 => Uplink::Bond(bond),
                    id => Uplink::VlanOnBond { bond, id: id.to_string().parse()? },
                }
            }
        },
    };
    let addressing = addressing(given, proposal, prompt)?;
    let mut topology = Topology::new(uplink, addressing);
    topology.mtu = mtu(given, proposal)?;
    topology.macs = macs;
    // The kernel refuses a second VLAN of the same number.
    if proposal.vlan == Some(vlan) {
        topology.vlan_name = proposal.vlan_name.as_deref().map(str::parse).transpose()?;
    }
    Ok(topology)
}

type Uplinks = (Vec<InterfaceName>, BTreeMap<InterfaceName, Mac>);

fn uplinks(given: &Given, proposal: &Proposal, prompt: &mut dyn Prompt) -> Result<Uplinks> {
    if !given.uplinks.is_empty() {
        return read_uplinks(&given.uplinks, given.by_mac, proposal);
    }
    if !proposal.nics.is_empty() {
        prompt.show(&list(proposal));
    }
    let uplinks = (!proposal.uplinks.is_empty()).then(|| proposal.uplinks.join(","));
    let text = "NICs below br-ex, by name or MAC address, with commas";
    prompt::ask(prompt, &Question { text, proposal: uplinks, flag: "--uplink" }, |answer| {
        let words: Vec<String> = answer.split(',').map(|word| word.trim().to_owned()).collect();
        read_uplinks(&words, given.by_mac, proposal)
    })
}

fn read_uplinks(words: &[String], by_mac: bool, proposal: &Proposal) -> Result<Uplinks> {
    let mut ports = Vec::new();
    let mut macs = BTreeMap::new();
    for word in words.iter().filter(|word| !word.is_empty()) {
        let given_mac: Option<Mac> = word.parse().ok();
        let nic = find(proposal, word, given_mac.as_ref())?;
        let (name, mac) = match nic {
            Some(nic) => (nic.name.clone(), nic.mac),
            // Without a node, names are as they are given.
            None => (word.clone(), None),
        };
        let name: InterfaceName = name.parse()?;
        if by_mac || given_mac.is_some() {
            match mac.or(given_mac) {
                Some(mac) => drop(macs.insert(name.clone(), mac)),
                None => bail!(
                    "--by-mac: the MAC address of {name} is unknown; give --nns, or --uplink with MAC addresses"
                ),
            }
        }
        ports.push(name);
    }
    if ports.is_empty() {
        bail!("--uplink: expected at least one NIC");
    }
    Ok((ports, macs))
}

/// The NIC of this name or MAC address. Without a node, none is known.
fn find<'a>(proposal: &'a Proposal, word: &str, mac: Option<&Mac>) -> Result<Option<&'a Nic>> {
    let is_it = |nic: &&Nic| match mac {
        Some(mac) => nic.mac.as_ref() == Some(mac),
        None => nic.name == word,
    };
    match (proposal.nics.iter().find(is_it), proposal.nics.is_empty(), mac) {
        (Some(nic), ..) => Ok(Some(nic)),
        (None, true, None) => Ok(None),
        (None, true, Some(mac)) => {
            bail!(
                "--uplink {mac}: which name the NIC has is unknown without a node; give --nns or --node"
            )
        }
        (None, false, _) => {
            let known: Vec<&str> = proposal.nics.iter().map(|nic| nic.name.as_str()).collect();
            bail!("--uplink {word}: the node has {}", known.join(", "))
        }
    }
}

fn list(proposal: &Proposal) -> String {
    let row = |nic: &Nic| {
        let state = if nic.is_up { "up" } else { "down" };
        let is_used = proposal.uplinks.contains(&nic.name);
        [
            nic.name.clone(),
            nic.mac.map(|mac| mac.to_string()).unwrap_or_default(),
            state.to_owned(),
            nic.mtu.map(|mtu| mtu.to_string()).unwrap_or_default(),
            if is_used { "default route".to_owned() } else { String::new() },
        ]
    };
    let rows: Vec<_> = proposal.nics.iter().map(row).collect();
    drawing::columns(["NIC", "MAC", "STATE", "MTU", ""], &rows)
}

fn vlan(given: &Given, proposal: &Proposal, prompt: &mut dyn Prompt) -> Result<u16> {
    let read = |text: &str| match text.parse() {
        Ok(id) if id <= 4094 => Ok(id),
        _ => bail!("--vlan-id: expected a number from 0 to 4094, found {text:?}"),
    };
    if let Some(vlan) = given.vlan {
        return read(&vlan.to_string());
    }
    let proposed = proposal.vlan.unwrap_or(0).to_string();
    let text = "VLAN of br-ex, 0 for none";
    prompt::ask(prompt, &Question { text, proposal: Some(proposed), flag: "--vlan-id" }, read)
}

enum BondChoice {
    Linux(BondMode),
    Slb,
}

fn mode(given: &Given, proposal: &Proposal, prompt: &mut dyn Prompt) -> Result<BondChoice> {
    let read = |text: &str| {
        let modes = [BondMode::ActiveBackup, BondMode::Lacp, BondMode::BalanceXor];
        match modes.into_iter().find(|mode| mode.name() == text) {
            Some(mode) => Ok(BondChoice::Linux(mode)),
            None if text == "balance-slb" => Ok(BondChoice::Slb),
            None => bail!(
                "--bond: expected active-backup, 802.3ad, balance-xor or balance-slb, found {text:?}"
            ),
        }
    };
    if let Some(mode) = &given.bond {
        return read(mode);
    }
    let proposed = proposal.bond_mode.clone().unwrap_or_else(|| "active-backup".to_owned());
    let text = "Mode of the bond: active-backup, 802.3ad (LACP on the switch), balance-xor, balance-slb (Open vSwitch)";
    prompt::ask(prompt, &Question { text, proposal: Some(proposed), flag: "--bond" }, read)
}

fn addressing(given: &Given, proposal: &Proposal, prompt: &mut dyn Prompt) -> Result<Addressing> {
    let is_known = given.dhcp || !given.addresses.is_empty();
    let is_dhcp = match is_known {
        true => given.dhcp,
        false => {
            let is_static = proposal.automatic.is_empty() && !proposal.addresses.is_empty();
            let proposed = if is_static { "static" } else { "dhcp" };
            let text = "Addresses of br-ex: dhcp (and router advertisements) or static";
            let proposal = Some(proposed.to_owned());
            let question = Question { text, proposal, flag: "--dhcp or --static" };
            prompt::ask(prompt, &question, |answer| match answer {
                "dhcp" => Ok(true),
                "static" => Ok(false),
                other => bail!("expected dhcp or static, found {other:?}"),
            })?
        }
    };
    if is_dhcp {
        return Ok(Addressing::Dhcp(families(given, proposal, prompt)?));
    }
    let text = "Addresses with their prefixes, with commas";
    let question = (text, "--static", "an address with its prefix, 192.0.2.10/24");
    let addresses = values(&given.addresses, &proposal.addresses, question, prompt)?;
    // Gateways of other families are of no use.
    let of_family = |gateway: &&IpAddr| {
        addresses.iter().any(|address| address.addr().is_ipv4() == gateway.is_ipv4())
    };
    let proposed: Vec<IpAddr> = proposal.gateways.iter().filter(of_family).copied().collect();
    let text = "Gateways, one per family, with commas";
    let question = (text, "--gateway", "an address without a prefix, 192.0.2.1");
    let gateways = values(&given.gateways, &proposed, question, prompt)?;
    let text = "Name servers, with commas";
    let question = (text, "--dns", "an address, 192.0.2.53");
    let servers = values(&given.servers, &proposal.servers, question, prompt)?;
    Ok(Addressing::Static(StaticAddresses::new(addresses, gateways, servers)?))
}

fn values<T: std::str::FromStr + ToString + Clone>(
    given: &[T],
    proposed: &[T],
    (text, flag, example): (&str, &str, &str),
    prompt: &mut dyn Prompt,
) -> Result<Vec<T>> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let words: Vec<String> = proposed.iter().map(ToString::to_string).collect();
    let proposal = (!words.is_empty()).then(|| words.join(","));
    prompt::ask(prompt, &Question { text, proposal, flag }, |answer| {
        let words = answer.split(',').map(str::trim).filter(|word| !word.is_empty());
        let value = |word: &str| match word.parse() {
            Ok(value) => Ok(value),
            Err(_) => bail!("{flag}: expected {example}, found {word:?}"),
        };
        words.map(value).collect()
    })
}

fn families(given: &Given, proposal: &Proposal, prompt: &mut dyn Prompt) -> Result<Families> {
    let read = |text: &str| match text {
        "ipv4" => Ok(Families::V4),
        "ipv6" => Ok(Families::V6),
        "dual" => Ok(Families::Both),
        other => bail!("--ip-family: expected ipv4, ipv6 or dual, found {other:?}"),
    };
    if let Some(families) = &given.families {
        return read(families);
    }
    let has = |family| proposal.automatic.contains(&family);
    let proposed = match (has(Family::V4), has(Family::V6)) {
        (true, true) => "dual",
        (false, true) => "ipv6",
        _ => "ipv4",
    };
    let (text, proposal) = ("Families: ipv4, ipv6 or dual", Some(proposed.to_owned()));
    prompt::ask(prompt, &Question { text, proposal, flag: "--ip-family" }, read)
}

/// The default of 1500 need not be written.
fn mtu(given: &Given, proposal: &Proposal) -> Result<Option<u32>> {
    match (given.mtu, proposal.mtu) {
        (Some(mtu), _) => Ok(Some(mtu)),
        (None, Some(1500) | None) => Ok(None),
        (None, Some(mtu)) => Ok(Some(mtu.try_into()?)),
    }
}

#[cfg(test)]
mod tests {
    use br_ex::{ClusterFacts, Document, Severity};
    use nmstate::NetworkState;

    use super::super::prompt::Silent;
    use super::*;

    const NODE: &str = "interfaces:
- {name: eno1, type: ethernet, state: up, mac-address: '52:54:00:00:00:01', mtu: 1500}
- {name: eno2, type: ethernet, state: up, mac-address: '52:54:00:00:00:02', mtu: 1500}
- name: bond7
  type: bond
  state: up
  mtu: 9000
  link-aggregation: {mode: 802.3ad, port: [eno1, eno2]}
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.10, prefix-length: 24}]}
routes: {running: [{destination: 0.0.0.0/0, next-hop-interface: bond7, next-hop-address: 192.0.2.1, metric: 300}]}
dns-resolver: {running: {server: [192.0.2.53]}}
";

    fn node() -> Proposal {
        Proposal::of(&NetworkState::new_from_yaml(NODE).unwrap())
    }

    /// Values from a list; prompts are recorded.
    #[derive(Default)]
    struct Script {
        answers: Vec<&'static str>,
        asked: Vec<String>,
        shown: Vec<String>,
    }

    impl Prompt for Script {
        fn answer(&mut self, question: &Question<'_>) -> Result<String> {
            self.asked.push(question.flag.to_owned());
            match self.answers.remove(0) {
                "" => Ok(question.proposal.clone().unwrap()),
                answer => Ok(answer.to_owned()),
            }
        }

        fn show(&mut self, text: &str) {
            self.shown.push(text.to_owned());
        }

        fn can_correct(&self) -> bool {
            true
        }
    }

    /// The document, which must satisfy every rule.
    fn document(topology: &Topology) -> String {
        let text = topology.document().unwrap();
        let findings = br_ex::check(&Document::parse(text.as_bytes()), &ClusterFacts::default());
        let errors: Vec<_> = findings.iter().filter(|it| it.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{errors:?}\n{text}");
        text
    }

    #[test]
    fn the_proposals_of_a_node_make_its_document() {
        let mut prompt = Silent { accepts_proposals: true };
        let topology = ask(&Given::default(), &node(), &mut prompt).unwrap();
        let text = document(&topology);
        for expected in
            ["mode: 802.3ad", "192.0.2.10", "192.0.2.53", "mtu: 9000", "- eno1", "- eno2"]
        {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn only_values_without_a_flag_are_prompted_for() {
        let answers = vec!["52:54:00:00:00:02", "100", "dhcp", "dual"];
        let mut prompt = Script { answers, ..Script::default() };
        let topology = ask(&Given::default(), &node(), &mut prompt).unwrap();
        assert_eq!(prompt.asked, ["--uplink", "--vlan-id", "--dhcp or --static", "--ip-family"]);
        let text = document(&topology);
        // A NIC that is given by its MAC address is identified by it.
        for expected in ["eno2.100", "identifier: mac-address", "52:54:00:00:00:02"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let given = Given {
            uplinks: vec!["eno1".into()],
            vlan: Some(0),
            dhcp: true,
            families: Some("ipv4".into()),
            ..Given::default()
        };
        let mut prompt = Script { answers: vec![], ..Script::default() };
        document(&ask(&given, &Proposal::default(), &mut prompt).unwrap());
    }

    #[test]
    fn an_invalid_value_is_explained_and_prompted_for_again() {
        let answers =
            vec!["eno9", "eno1", "5000", "0", "static", "192.0.2.10", "192.0.2.10/24", "x", "", ""];
        let mut prompt = Script { answers, ..Script::default() };
        let topology = ask(&Given::default(), &node(), &mut prompt).unwrap();
        document(&topology);
        let [table, uplink, vlan, address, gateway] = prompt.shown.as_slice() else {
            panic!("{:?}", prompt.shown)
        };
        assert!(table.starts_with("NIC"), "{table}");
        assert_eq!(uplink, "--uplink eno9: the node has eno1, eno2");
        assert_eq!(vlan, "--vlan-id: expected a number from 0 to 4094, found \"5000\"");
        assert!(address.ends_with("192.0.2.10/24, found \"192.0.2.10\""), "{address}");
        assert!(
            gateway.starts_with("--gateway: expected an address without a prefix"),
            "{gateway}"
        );
    }

    #[test]
    fn the_bond_and_the_vlan_of_the_node_keep_their_names() {
        // A second VLAN of the same number is refused by the kernel, and a second bond would leave the
        // addresses on the first.
        let text = format!(
            "{}- name: storage\n  type: vlan\n  state: up\n  vlan: {{base-iface: bond7, id: 7}}\n  \
             ipv4: {{enabled: true, dhcp: true}}\nroutes: {{running: [{{destination: 0.0.0.0/0, \
             next-hop-interface: storage, next-hop-address: 192.0.2.1}}]}}\n",
            NODE.split("routes:").next().unwrap()
        );
        let proposal = Proposal::of(&NetworkState::new_from_yaml(&text).unwrap());
        let mut silent = Silent { accepts_proposals: true };
        let text = document(&ask(&Given::default(), &proposal, &mut silent).unwrap());
        for expected in ["name: bond7", "name: storage", "base-iface: bond7", "id: 7"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        // Another number is another VLAN.
        let given = Given { vlan: Some(8), ..Given::default() };
        let text = document(&ask(&given, &proposal, &mut silent).unwrap());
        assert!(text.contains("name: bond7.8") && !text.contains("storage"), "{text}");
    }

    #[test]
    fn values_that_cannot_be_used_are_named_with_their_flag() {
        let mut silent = Silent { accepts_proposals: true };
        let mut error =
            |given: Given| ask(&given, &node(), &mut silent).map(drop).unwrap_err().to_string();
        let uplinks = vec!["eno9".to_owned()];
        let output = error(Given { uplinks, ..Given::default() });
        assert_eq!(output, "--uplink eno9: the node has eno1, eno2");
        let output = error(Given { bond: Some("lacp".into()), ..Given::default() });
        assert!(output.starts_with("--bond: expected active-backup"), "{output}");
        let mut refusing = Silent { accepts_proposals: false };
        let output = ask(&Given::default(), &node(), &mut refusing).unwrap_err().to_string();
        assert_eq!(output, "--uplink is not given; give it, or --yes to accept what the node has");
        let mut silent = Silent { accepts_proposals: true };
        let output = ask(&Given::default(), &Proposal::default(), &mut silent).unwrap_err();
        assert!(
            output.to_string().contains("--uplink is not given; give it, or a node"),
            "{output}"
        );
    }
}
