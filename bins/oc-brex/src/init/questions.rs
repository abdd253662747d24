//! The questions of `oc-brex init`: what flags do not answer is asked, with what the node has now as
//! the proposal.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::net::IpAddr;

use anyhow::{Result, bail};
use br_ex::layout::Family;
use br_ex::proposal::{Nic, Proposal};
use br_ex::topology::{
    Addressing, Bond, BondMode, Families, InterfaceName, MacAddress, StaticAddresses, Topology,
    Uplink,
};
use ipnet::IpNet;

/// What flags answer.
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

/// A question and where its answer can be given instead.
pub(super) struct Question<'a> {
    pub(super) text: &'a str,
    pub(super) proposal: Option<String>,
    pub(super) flag: &'a str,
}

/// A source of answers.
pub(super) trait Prompt {
    fn answer(&mut self, question: &Question<'_>) -> Result<String>;
    /// Shows something to choose from.
    fn show(&mut self, text: &str);
}

/// A person at a terminal.
pub(super) struct Terminal;

impl Prompt for Terminal {
    fn answer(&mut self, question: &Question<'_>) -> Result<String> {
        loop {
            let mut out = io::stderr().lock();
            match &question.proposal {
                Some(proposal) => write!(out, "{} [{proposal}]: ", question.text)?,
                None => write!(out, "{}: ", question.text)?,
            }
            out.flush()?;
            let mut line = String::new();
            if io::stdin().lock().read_line(&mut line)? == 0 {
                bail!("the input ended before all questions were answered; nothing was written");
            }
            match (line.trim(), &question.proposal) {
                ("", Some(proposal)) => return Ok(proposal.clone()),
                ("", None) => {}
                (answer, _) => return Ok(answer.to_owned()),
            }
        }
    }

    fn show(&mut self, text: &str) {
        command_line::say(text);
    }
}

/// No terminal: proposals are accepted, or a missing flag is an error.
pub(super) struct Silent {
    pub(super) accepts_proposals: bool,
}

impl Prompt for Silent {
    fn answer(&mut self, question: &Question<'_>) -> Result<String> {
        match &question.proposal {
            Some(proposal) if self.accepts_proposals => Ok(proposal.clone()),
            Some(_) => bail!(
                "{} is not given; give it, or --yes to accept what the node has",
                question.flag
            ),
            None => bail!(
                "{} is not given; give it, or a node that has one (--nns FILE or --node NAME)",
                question.flag
            ),
        }
    }

    fn show(&mut self, _: &str) {}
}

/// Asks for what is missing.
pub(super) fn ask(given: &Given, proposal: &Proposal, prompt: &mut dyn Prompt) -> Result<Topology> {
    let (ports, macs) = uplinks(given, proposal, prompt)?;
    let vlan = vlan(given, proposal, prompt)?;
    let uplink = match (ports.as_slice(), vlan) {
        ([nic], 0) => Uplink::Nic(nic.clone()),
        ([nic], id) => Uplink::Vlan { base: nic.clone(), id: id.to_string().parse()? },
        (_, id) => match (mode(given, proposal, prompt)?, id) {
            (Mode::Slb, 0) => Uplink::Slb { ports },
            (Mode::Slb, _) => bail!("--bond balance-slb: expected no VLAN, found {id}"),
            (Mode::Linux(mode), id) => {
                let name = "bond0".parse()?;
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
    Ok(topology)
}

type Uplinks = (Vec<InterfaceName>, BTreeMap<InterfaceName, MacAddress>);

fn uplinks(given: &Given, proposal: &Proposal, prompt: &mut dyn Prompt) -> Result<Uplinks> {
    let words: Vec<String> = match given.uplinks.as_slice() {
        [] => {
            if !proposal.nics.is_empty() {
                prompt.show(&list(proposal));
            }
            let uplinks = (!proposal.uplinks.is_empty()).then(|| proposal.uplinks.join(","));
            let text = "NICs below br-ex, by name or MAC address, with commas";
            let answer = prompt.answer(&Question { text, proposal: uplinks, flag: "--uplink" })?;
            answer.split(',').map(|word| word.trim().to_owned()).collect()
        }
        given => given.to_vec(),
    };
    let mut ports = Vec::new();
    let mut macs = BTreeMap::new();
    for word in words.iter().filter(|word| !word.is_empty()) {
        let by_mac: Option<MacAddress> = word.parse().ok();
        let nic = find(proposal, word, by_mac.as_ref())?;
        let (name, mac) = match nic {
            Some(nic) => (nic.name.clone(), nic.mac.clone()),
            // Without a node, names are as they are given.
            None => (word.clone(), None),
        };
        let name: InterfaceName = name.parse()?;
        if given.by_mac || by_mac.is_some() {
            match mac.map(|mac| mac.parse()).transpose()?.or(by_mac) {
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
fn find<'a>(
    proposal: &'a Proposal,
    word: &str,
    mac: Option<&MacAddress>,
) -> Result<Option<&'a Nic>> {
    let is_it = |nic: &&Nic| match mac {
        Some(mac) => nic.mac.as_deref() == Some(mac.to_string().as_str()),
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
            nic.mac.clone().unwrap_or_default(),
            state.to_owned(),
            nic.mtu.map(|mtu| mtu.to_string()).unwrap_or_default(),
            if is_used { "default route".to_owned() } else { String::new() },
        ]
    };
    let rows: Vec<_> = proposal.nics.iter().map(row).collect();
    drawing::columns(["NIC", "MAC", "STATE", "MTU", ""], &rows)
}

fn vlan(given: &Given, proposal: &Proposal, prompt: &mut dyn Prompt) -> Result<u16> {
    if let Some(vlan) = given.vlan {
        return Ok(vlan);
    }
    let proposed = proposal.vlan.unwrap_or(0).to_string();
    let text = "VLAN of br-ex, 0 for none";
    let answer = prompt.answer(&Question { text, proposal: Some(proposed), flag: "--vlan-id" })?;
    match answer.parse() {
        Ok(id) => Ok(id),
        Err(_) => bail!("--vlan-id: expected a number from 0 to 4094, found {answer:?}"),
    }
}

enum Mode {
    Linux(BondMode),
    Slb,
}

fn mode(given: &Given, proposal: &Proposal, prompt: &mut dyn Prompt) -> Result<Mode> {
    let answer = match &given.bond {
        Some(mode) => mode.clone(),
        None => {
            let proposed = proposal.bond_mode.clone().unwrap_or_else(|| "active-backup".to_owned());
            let text = "Mode of the bond: active-backup, 802.3ad (LACP on the switch), balance-xor, balance-slb (Open vSwitch)";
            prompt.answer(&Question { text, proposal: Some(proposed), flag: "--bond" })?
        }
    };
    let modes = [BondMode::ActiveBackup, BondMode::Lacp, BondMode::BalanceXor];
    match modes.into_iter().find(|mode| mode.name() == answer) {
        Some(mode) => Ok(Mode::Linux(mode)),
        None if answer == "balance-slb" => Ok(Mode::Slb),
        None => bail!(
            "--bond: expected active-backup, 802.3ad, balance-xor or balance-slb, found {answer:?}"
        ),
    }
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
            match prompt.answer(&Question { text, proposal, flag: "--dhcp or --static" })?.as_str()
            {
                "dhcp" => true,
                "static" => false,
                other => bail!("expected dhcp or static, found {other:?}"),
            }
        }
    };
    if is_dhcp {
        return Ok(Addressing::Dhcp(families(given, proposal, prompt)?));
    }
    let addresses = values(
        &given.addresses,
        &proposal.addresses,
        "Addresses with their prefixes, with commas",
        "--static",
        prompt,
    )?;
    // Gateways of other families are of no use.
    let of_family = |gateway: &&IpAddr| {
        addresses.iter().any(|address| address.addr().is_ipv4() == gateway.is_ipv4())
    };
    let proposed: Vec<IpAddr> = proposal.gateways.iter().filter(of_family).copied().collect();
    let text = "Gateways, one per family, with commas";
    let gateways = values(&given.gateways, &proposed, text, "--gateway", prompt)?;
    let text = "Name servers, with commas";
    let servers = values(&given.servers, &proposal.servers, text, "--dns", prompt)?;
    Ok(Addressing::Static(StaticAddresses::new(addresses, gateways, servers)?))
}

fn values<T: std::str::FromStr + ToString + Clone>(
    given: &[T],
    proposed: &[T],
    text: &str,
    flag: &str,
    prompt: &mut dyn Prompt,
) -> Result<Vec<T>> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let words: Vec<String> = proposed.iter().map(ToString::to_string).collect();
    let proposal = (!words.is_empty()).then(|| words.join(","));
    let answer = prompt.answer(&Question { text, proposal, flag })?;
    let mut found = Vec::new();
    for word in answer.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word.parse() {
            Ok(value) => found.push(value),
            Err(_) => bail!("{flag}: expected an address, found {word:?}"),
        }
    }
    Ok(found)
}

fn families(given: &Given, proposal: &Proposal, prompt: &mut dyn Prompt) -> Result<Families> {
    let answer = match &given.families {
        Some(families) => families.clone(),
        None => {
            let has = |family| proposal.automatic.contains(&family);
            let proposed = match (has(Family::V4), has(Family::V6)) {
                (true, true) => "dual",
                (false, true) => "ipv6",
                _ => "ipv4",
            };
            let text = "Families: ipv4, ipv6 or dual";
            let proposal = Some(proposed.to_owned());
            prompt.answer(&Question { text, proposal, flag: "--ip-family" })?
        }
    };
    match answer.as_str() {
        "ipv4" => Ok(Families::V4),
        "ipv6" => Ok(Families::V6),
        "dual" => Ok(Families::Both),
        other => bail!("--ip-family: expected ipv4, ipv6 or dual, found {other:?}"),
    }
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
    use br_ex::{Document, Severity, Surroundings};
    use nmstate::NetworkState;

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

    /// Answers from a list; what was asked is noted.
    struct Script {
        answers: Vec<&'static str>,
        asked: Vec<String>,
    }

    impl Prompt for Script {
        fn answer(&mut self, question: &Question<'_>) -> Result<String> {
            self.asked.push(question.flag.to_owned());
            match self.answers.remove(0) {
                "" => Ok(question.proposal.clone().unwrap()),
                answer => Ok(answer.to_owned()),
            }
        }

        fn show(&mut self, _: &str) {}
    }

    /// The document, which must satisfy every rule.
    fn document(topology: &Topology) -> String {
        let text = topology.document().unwrap();
        let findings = br_ex::check(&Document::parse(text.as_bytes()), &Surroundings::default());
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
    fn only_what_flags_leave_open_is_asked() {
        let answers = vec!["52:54:00:00:00:02", "100", "dhcp", "dual"];
        let mut prompt = Script { answers, asked: Vec::new() };
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
        let mut prompt = Script { answers: vec![], asked: Vec::new() };
        document(&ask(&given, &Proposal::default(), &mut prompt).unwrap());
    }

    #[test]
    fn values_that_cannot_be_used_are_named_with_their_flag() {
        let mut silent = Silent { accepts_proposals: true };
        let mut error =
            |given: Given| ask(&given, &node(), &mut silent).map(drop).unwrap_err().to_string();
        let uplinks = vec!["eno9".to_owned()];
        let said = error(Given { uplinks, ..Given::default() });
        assert_eq!(said, "--uplink eno9: the node has eno1, eno2");
        let said = error(Given { bond: Some("lacp".into()), ..Given::default() });
        assert!(said.starts_with("--bond: expected active-backup"), "{said}");
        let mut refusing = Silent { accepts_proposals: false };
        let said = ask(&Given::default(), &node(), &mut refusing).unwrap_err().to_string();
        assert_eq!(said, "--uplink is not given; give it, or --yes to accept what the node has");
        let mut silent = Silent { accepts_proposals: true };
        let said = ask(&Given::default(), &Proposal::default(), &mut silent).unwrap_err();
        assert!(said.to_string().contains("--uplink is not given; give it, or a node"), "{said}");
    }
}
