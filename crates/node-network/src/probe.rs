//! Probes that succeed in a working network, as values: which to send, and what their results
//! mean. They are sent by [`crate::reach`].

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use nmstate::NetworkState;
use serde::{Deserialize, Serialize};

use crate::message::Message;
use crate::view::{
    DefaultRoute, Family, default_routes, global_addresses, kernel_interface, name_servers,
};

/// What to probe, before its addresses are known. The same target can result in different probes
/// before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The gateways of the default routes in use, probed by ARP or neighbour discovery. ICMP may be
    /// filtered, but these cannot be. With an interface: only its gateways.
    DefaultGateway { interface: Option<String> },
    /// An address, probed by an ICMP echo request.
    Ping(IpAddr),
    /// The name servers in use. Any response for this name counts, NXDOMAIN too.
    NameServers { name: String },
    /// The API server: any response to a request counts.
    ApiServer(Endpoint),
    /// The gateways of default routes of one family through an interface.
    GatewayThrough { interface: String, family: Family },
    /// The API server by a connection that leaves through this interface, in one family if given.
    ApiServerThrough { endpoint: Endpoint, interface: String, family: Option<Family> },
    /// The addresses of an interface can be used: duplicate address detection is over.
    OwnAddresses { interface: String },
}

/// A host and port, with the host in its original spelling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
}

/// One probe of one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    Neighbour { interface: String, address: IpAddr },
    Echo(IpAddr),
    Dns { server: SocketAddr, interface: Option<String>, name: String },
    ApiServer(Endpoint),
    ApiServerThrough { endpoint: Endpoint, interface: String, family: Option<Family> },
    Bind(IpAddr),
}

/// A probe and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReport {
    pub probe: Message,
    pub answered: bool,
    /// The response, or why there was none.
    pub detail: Message,
    pub milliseconds: u64,
}

/// What must work after a change: each check, through any of its targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checks {
    pub list: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Identifies the check in reports.
    pub id: &'static str,
    /// One response from one of these is enough.
    pub any_of: Vec<Target>,
    pub when: When,
}

/// Whether a check must succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Always,
    /// Only if it succeeded before the change: a node without DNS needs none afterwards.
    HeldBefore,
}

/// A check with its probes for a given state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckProbes {
    pub check: Check,
    pub probes: Vec<Probe>,
}

/// A check and the results of its probes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// [`Check::id`].
    #[serde(default)]
    pub id: String,
    pub about: Message,
    pub holds: bool,
    pub probes: Vec<ProbeReport>,
}

impl Checks {
    /// The probes of each check for a network in this state.
    pub fn probes(&self, state: &NetworkState) -> Vec<CheckProbes> {
        let request = |check: &Check| CheckProbes {
            check: check.clone(),
            probes: check.any_of.iter().flat_map(|target| target.probes(state)).collect(),
        };
        self.list.iter().map(request).collect()
    }

    /// The checks to probe after the change, given what held before it. Reports
    /// are those of these checks, in order.
    pub fn after(&self, before: &[CheckReport]) -> Self {
        let keep = |(check, report): (&Check, &CheckReport)| {
            (check.when == When::Always || report.holds).then(|| check.clone())
        };
        Self { list: self.list.iter().zip(before).filter_map(keep).collect() }
    }
}

impl CheckProbes {
    /// Evaluates the results.
    pub fn judge(&self, probes: Vec<ProbeReport>) -> CheckReport {
        let about: Vec<String> = self.check.any_of.iter().map(ToString::to_string).collect();
        // Own addresses are different: each one must be usable.
        let all = self.check.any_of.iter().all(|t| matches!(t, Target::OwnAddresses { .. }));
        let holds = match all {
            true => !probes.is_empty() && probes.iter().all(|probe| probe.answered),
            false => probes.iter().any(|probe| probe.answered),
        };
        let id = self.check.id.to_owned();
        CheckReport { id, about: about.join(", or ").into(), holds, probes }
    }
}

impl Target {
    fn probes(&self, state: &NetworkState) -> Vec<Probe> {
        match self {
            Self::DefaultGateway { interface: wanted } => {
                let mut routes = default_routes(state);
                routes.retain(|route| wanted.as_ref().is_none_or(|it| *it == route.interface));
                // The kernel uses the routes with the lowest metric of a family. A gateway of another
                // route does not show that packets reach anything.
                let lowest = |family: Family| {
                    let metrics = routes.iter().filter(|it| it.family == family);
                    metrics.map(|it| it.metric).min()
                };
                let used = routes.iter().filter(|it| Some(it.metric) == lowest(it.family));
                let probe = |route: &DefaultRoute| {
                    let interface = route.interface.clone();
                    Some(Probe::Neighbour { interface, address: route.gateway? })
                };
                used.filter_map(probe).collect()
            }
            Self::Ping(address) => vec![Probe::Echo(*address)],
            Self::NameServers { name } => name_servers(state)
                .into_iter()
                .map(|server| Probe::Dns {
                    server: SocketAddr::new(server.address, 53),
                    interface: server.interface,
                    name: name.clone(),
                })
                .collect(),
            Self::GatewayThrough { interface, family } => default_routes(state)
                .into_iter()
                .filter(|route| route.interface == *interface && route.family == *family)
                .filter_map(|route| {
                    Some(Probe::Neighbour { interface: route.interface, address: route.gateway? })
                })
                .collect(),
            Self::ApiServer(endpoint) => vec![Probe::ApiServer(endpoint.clone())],
            Self::ApiServerThrough { endpoint, interface, family } => {
                let (endpoint, interface) = (endpoint.clone(), interface.clone());
                vec![Probe::ApiServerThrough { endpoint, interface, family: *family }]
            }
            Self::OwnAddresses { interface } => kernel_interface(state, interface)
                .map(global_addresses)
                .unwrap_or_default()
                .into_iter()
                .map(Probe::Bind)
                .collect(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DefaultGateway { interface: Some(interface) } => {
                write!(f, "the default gateway of {interface} responds")
            }
            Self::DefaultGateway { interface: None } => f.write_str("a default gateway responds"),
            Self::Ping(address) => write!(f, "{address} responds"),
            Self::NameServers { .. } => f.write_str("a name server responds"),
            Self::ApiServer(endpoint) => write!(f, "the API server {endpoint} responds"),
            Self::GatewayThrough { interface, family } => {
                write!(f, "the {} gateway of {interface} responds", family.name())
            }
            Self::ApiServerThrough { endpoint, interface, family } => {
                let family = family.map(|family| format!(" by {}", family.name()));
                let family = family.unwrap_or_default();
                write!(f, "the API server {endpoint} responds through {interface}{family}")
            }
            Self::OwnAddresses { interface } => {
                write!(f, "the addresses of {interface} can be used")
            }
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Neighbour { interface, address } => {
                let how = if address.is_ipv4() { "ARP" } else { "neighbour discovery" };
                write!(f, "gateway {address} on {interface} by {how}")
            }
            Self::Echo(address) => write!(f, "{address} by ICMP"),
            Self::Dns { server, name, .. } => write!(f, "name server {} about {name}", server.ip()),
            Self::ApiServer(endpoint) => write!(f, "API server {endpoint}"),
            Self::ApiServerThrough { endpoint, interface, .. } => {
                write!(f, "API server {endpoint} through {interface}")
            }
            Self::Bind(address) => write!(f, "own address {address}"),
        }
    }
}

/// The checks that did not succeed, in one line.
pub fn failures(reports: &[CheckReport]) -> String {
    let failed = reports.iter().filter(|report| !report.holds).map(|report| {
        let why: Vec<String> = report
            .probes
            .iter()
            .filter(|probe| !probe.answered)
            .map(|probe| format!("{}: {}", probe.probe, probe.detail))
            .collect();
        let why =
            if why.is_empty() { "there is no address to probe".to_owned() } else { why.join("; ") };
        format!("it does not hold that {} ({why})", report.about)
    });
    failed.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = "
interfaces:
- name: br-ex
  type: ovs-interface
  state: up
  ipv4: {enabled: true, address: [{ip: 198.51.100.10, prefix-length: 24}]}
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 198.51.100.1, metric: 48}
  - {destination: 0.0.0.0/0, next-hop-interface: nic1, next-hop-address: 192.0.2.1, metric: 100}
dns-resolver: {running: {server: [198.51.100.53]}}
";

    fn report(answered: bool) -> ProbeReport {
        ProbeReport { probe: "p".into(), answered, detail: "d".into(), milliseconds: 1 }
    }

    fn check(any_of: Vec<Target>, when: When) -> Check {
        Check { id: "test", any_of, when }
    }

    fn gateway() -> Target {
        Target::DefaultGateway { interface: Some("br-ex".into()) }
    }

    fn api() -> Target {
        Target::ApiServer(Endpoint { host: "api-int.example".into(), port: 6443 })
    }

    #[test]
    fn targets_become_probes_of_the_current_state() {
        let state = NetworkState::new_from_yaml(STATE).unwrap();
        let own = Target::OwnAddresses { interface: "br-ex".into() };
        let dns = Target::NameServers { name: "cluster.example".into() };
        let any = vec![gateway(), dns, api(), own];
        let checks = Checks { list: vec![check(any, When::Always)] };
        let probes: Vec<String> =
            checks.probes(&state)[0].probes.iter().map(ToString::to_string).collect();
        assert_eq!(
            probes,
            [
                "gateway 198.51.100.1 on br-ex by ARP",
                "name server 198.51.100.53 about cluster.example",
                "API server api-int.example:6443",
                "own address 198.51.100.10",
            ]
        );
    }

    #[test]
    fn only_gateways_of_routes_in_use_are_probed() {
        let state = NetworkState::new_from_yaml(STATE).unwrap();
        let probes = |interface: Option<&str>| {
            let target = Target::DefaultGateway { interface: interface.map(str::to_owned) };
            target.probes(&state).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(probes(None), ["gateway 198.51.100.1 on br-ex by ARP"]);
        assert_eq!(probes(Some("nic1")), ["gateway 192.0.2.1 on nic1 by ARP"]);
    }

    #[test]
    fn a_gateway_of_another_family_or_interface_is_not_probed() {
        let state = NetworkState::new_from_yaml(STATE).unwrap();
        let through = |interface: &str, family| {
            let target = Target::GatewayThrough { interface: interface.into(), family };
            let checks = Checks { list: vec![check(vec![target], When::Always)] };
            let requests = checks.probes(&state);
            requests[0].probes.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(through("br-ex", Family::V4), ["gateway 198.51.100.1 on br-ex by ARP"]);
        assert!(through("br-ex", Family::V6).is_empty());
        assert_eq!(through("nic1", Family::V4), ["gateway 192.0.2.1 on nic1 by ARP"]);
    }

    #[test]
    fn one_response_is_enough_and_no_probe_fails() {
        let request =
            CheckProbes { check: check(vec![api(), gateway()], When::Always), probes: vec![] };
        assert!(request.judge(vec![report(false), report(true)]).holds);
        assert!(!request.judge(vec![report(false)]).holds);
        let empty = request.judge(vec![]);
        assert!(!empty.holds);
        assert!(failures(&[empty]).contains("there is no address to probe"));
    }

    #[test]
    fn every_own_address_must_be_usable() {
        let own = Target::OwnAddresses { interface: "br-ex".into() };
        let request = CheckProbes { check: check(vec![own], When::Always), probes: vec![] };
        assert!(request.judge(vec![report(true), report(true)]).holds);
        assert!(!request.judge(vec![report(true), report(false)]).holds);
    }

    #[test]
    fn a_probe_that_failed_before_is_not_required_afterwards() {
        let checks = Checks {
            list: vec![check(vec![api()], When::Always), check(vec![gateway()], When::HeldBefore)],
        };
        let before =
            |holds| CheckReport { id: "test".into(), about: "x".into(), holds, probes: vec![] };
        assert_eq!(checks.after(&[before(false), before(false)]).list.len(), 1);
        assert_eq!(checks.after(&[before(false), before(true)]).list.len(), 2);
    }
}
