//! What the cases run on: an API server, a coordinator, and a machine with its own kernel on which
//! the handler runs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lab_cluster::kube::{ApiError, ApiServer, FieldValidation, Persistence};
use lab_cluster::node::uml::{SwitchedOn, Uml, UmlOptions};
use lab_cluster::node::{Lan, LanOptions, Profile, Relay};
use node_policy::Phase;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::rollout::object::Object;
use crate::rollout::pool::Shared;

pub(crate) const NODE: &str = "worker-0";
/// The NICs for storage.
pub(crate) const NICS: [&str; 2] = ["ens1f0", "ens1f1"];
/// The NIC by which the node reaches the API.
pub(crate) const UPLINK: &str = "mgmt0";
/// Its address, and its router.
pub(crate) const ADDRESS: &str = "198.51.100.10";
pub(crate) const GATEWAY: &str = "198.51.100.1";

const PROGRAM: &str = env!("CARGO_BIN_EXE_nmstate-operator");
/// Long enough for a machine under load.
const DEADLINE: Duration = Duration::from_secs(600);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

const POLICIES: &str = "/apis/nmstate.io/v1/nodenetworkconfigurationpolicies";
const ENACTMENTS: &str = "/apis/nmstate.io/v1beta1/nodenetworkconfigurationenactments";
const REPORTS: &str = "/apis/nmstate.io/v1beta1/nodenetworkstates";

pub(crate) struct Bench {
    // Dropped in this order: programs before the servers that they use.
    machine: SwitchedOn,
    coordinator: Child,
    _relay: Relay,
    runtime: Runtime,
    logs: TempDir,
    handlers: u32,
    /// That of the running handler.
    patience: Option<u32>,
    server: ApiServer,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.coordinator.kill();
        let _ = self.coordinator.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.logs.path().join("coordinator"));
            eprintln!("--- coordinator\n{}", log.unwrap_or_default());
            eprintln!("--- handler\n{}\n{}", self.log(), self.machine.logs());
        }
    }
}

/// Removes all profiles but that of the uplink, and with them what NetworkManager created; then what
/// tests created themselves, also at the other end of the wires.
const RESTORE: &str = "
nmcli -g UUID connection | while read -r uuid; do
  case $(nmcli -g connection.interface-name connection show \"$uuid\") in
    mgmt0 | lo) ;;
    *) nmcli connection delete \"$uuid\" ;;
  esac
done
for bridge in $(ovs-vsctl --timeout=60 list-br); do ovs-vsctl --timeout=60 del-br \"$bridge\"; done
ip link del lldp0 2> /dev/null
for nic in ens1f0 ens1f1; do ip address flush dev $nic; ip link set $nic mtu 1500; done
if lan ip link del lag 2> /dev/null; then
  for port in port0 port1; do lan ip link set $port master br0 up; done
fi";

impl Shared for Bench {
    /// Seconds that the handler waits until the network works after a change.
    type Setting = u32;

    fn start() -> Self {
        Self::switch_on()
    }

    fn fits(&self, patience: u32) -> bool {
        self.patience == Some(patience)
    }

    fn begin(&mut self, patience: u32) {
        if self.patience == Some(patience) {
            return;
        }
        if self.patience.is_some() {
            self.stop_handler();
        }
        self.start_handler(patience);
    }

    fn restore(&mut self) {
        for policy in self.policies() {
            self.delete(&policy);
        }
        self.succeed(RESTORE);
    }
}

impl Bench {
    pub(crate) fn switch_on() -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(ApiServer::start()).unwrap();
        for crd in nmstate_api::crd::all() {
            runtime.block_on(server.client().load_crd_text(&crd.to_string())).unwrap();
        }
        runtime.block_on(server.add_ready_node(NODE)).unwrap();
        let logs = tempfile::tempdir().unwrap();
        let coordinator = lab::bound_command(Path::new(PROGRAM))
            .args(["coordinator", "--namespace", "default", "--listen", "127.0.0.1:0"])
            .env("KUBECONFIG", server.kubeconfig())
            .stderr(File::create(logs.path().join("coordinator")).unwrap())
            .spawn()
            .unwrap();

        let lan = Arc::new(Lan::start(&LanOptions::default()).unwrap());
        let relay = Relay::start(&lan, server.address()).unwrap();
        let machine = Uml::new(&UmlOptions {
            hostname: NODE.to_owned(),
            nics: NICS.map(str::to_owned),
            profiles: vec![Profile::fixed(UPLINK, &format!("{ADDRESS}/24"), GATEWAY)],
            uplink: Some(lan),
            ..UmlOptions::default()
        })
        .unwrap();
        machine.install(Path::new(PROGRAM)).unwrap();
        let kubeconfig = server.kubeconfig_at(relay.address());
        fs::write(machine.shared().join("kubeconfig"), kubeconfig).unwrap();
        let machine = machine.switch_on().unwrap();
        Self {
            machine,
            coordinator,
            _relay: relay,
            runtime,
            logs,
            handlers: 0,
            patience: None,
            server,
        }
    }

    // Policies and reports.

    pub(crate) fn apply(&self, yaml: &str) {
        let applied = self.server.apply(yaml, Persistence::Stored, FieldValidation::Strict);
        drop(self.runtime.block_on(applied).unwrap());
    }

    /// Applies a policy, and waits until the node reports it as applied.
    pub(crate) fn make_true(&self, yaml: &str) -> Object {
        self.apply(yaml);
        self.wait_for(yaml, Phase::Available)
    }

    /// Waits until the node has finished the current generation of a policy.
    pub(crate) fn wait_for(&self, yaml: &str, phase: Phase) -> Object {
        let name = name_of(yaml);
        let policy = self.get(&format!("{POLICIES}/{name}")).unwrap();
        let generation = policy.0["metadata"]["generation"].clone();
        self.wait(&format!("{name} is {phase:?}"), || {
            let enactment = self.get(&format!("{ENACTMENTS}/{NODE}.{name}"))?;
            let is_of = enactment.status()["policyGeneration"] == generation;
            (is_of && enactment.phase() == phase).then_some(enactment)
        })
    }

    /// Waits until this condition of a policy is true.
    pub(crate) fn wait_for_condition(&self, policy: &str, type_: &str, reason: &str) {
        self.wait(&format!("{policy} is {type_} ({reason})"), || {
            let policy = self.get(&format!("{POLICIES}/{policy}"))?;
            policy.holds(type_, reason).then_some(())
        });
    }

    /// Gives the node these labels besides its name, instead of those it was given before.
    pub(crate) fn label_node(&self, labels: &Value) {
        let mut all = labels.clone();
        all["kubernetes.io/hostname"] = json!(NODE);
        let metadata = json!({"name": NODE, "labels": all});
        self.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}).to_string());
    }

    pub(crate) fn enactment(&self, policy: &str) -> Object {
        self.get(&format!("{ENACTMENTS}/{NODE}.{policy}")).unwrap()
    }

    /// Waits until the node has applied a policy again since a report about it.
    pub(crate) fn wait_for_news(&self, policy: &str, since: &Object) {
        self.wait(&format!("{policy} is applied again"), || {
            let now = self.enactment(policy);
            (now.version() != since.version() && now.phase() == Phase::Available).then_some(())
        });
    }

    /// Names of all policies.
    fn policies(&self) -> Vec<String> {
        let list = self.get(POLICIES).unwrap();
        let items = list.0["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Deletes a policy, and waits until the handler has released it.
    pub(crate) fn delete(&self, policy: &str) {
        let path = format!("{POLICIES}/{policy}");
        self.runtime.block_on(self.server.client().delete(&path)).unwrap();
        self.wait(&format!("the report about {policy} is gone"), || {
            self.get(&format!("{ENACTMENTS}/{NODE}.{policy}")).is_none().then_some(())
        });
    }

    /// Waits until the node reports an interface as wanted; none is an interface that does not
    /// exist.
    pub(crate) fn wait_for_report(
        &self,
        name: &str,
        is_as_wanted: impl Fn(Option<&Value>) -> bool,
    ) {
        self.wait(&format!("the node reports {name} as wanted"), || {
            let report = self.get(&format!("{REPORTS}/{NODE}"))?;
            let interfaces = report.status()["currentState"]["interfaces"].as_array()?;
            is_as_wanted(interfaces.iter().find(|it| it["name"] == name)).then_some(())
        });
    }

    // The handler.

    /// Starts the handler with this `--patience` in seconds.
    pub(crate) fn start_handler(&mut self, patience: u32) {
        self.handlers += 1;
        self.patience = Some(patience);
        let start = format!(
            "export KUBECONFIG=/host/kubeconfig
setsid ./nmstate-operator handler --node-name {NODE} --namespace default --patience {patience} \\
  --listen 127.0.0.1:8089 < /dev/null > handler-{}.log 2>&1 &
echo $! > /run/handler.pid",
            self.handlers
        );
        self.succeed(&start);
    }

    /// Requests the handler to stop, as the kubelet does.
    pub(crate) fn stop_handler(&mut self) {
        self.patience = None;
        self.succeed(
            "is_over() { [ ! -e \"/proc/$(cat /run/handler.pid)/exe\" ]; }
kill -TERM \"$(cat /run/handler.pid)\"
await 'the handler ends' is_over",
        );
    }

    /// The log of the handler since its last start.
    pub(crate) fn log(&self) -> String {
        let path = self.machine.shared().join(format!("handler-{}.log", self.handlers));
        fs::read_to_string(path).unwrap_or_default()
    }

    // The machine.

    pub(crate) fn succeed(&self, script: &str) -> String {
        self.machine.succeed(script).unwrap()
    }

    /// Powers the machine off and on; no handler runs then.
    pub(crate) fn restart(&mut self) {
        self.patience = None;
        self.machine.restart().unwrap();
    }

    /// The kernel's description of a link, none if there is no link of this name.
    pub(crate) fn link(&self, name: &str) -> Option<Value> {
        let links = self.json("ip -details -json link");
        links.as_array().unwrap().iter().find(|link| link["ifname"] == name).cloned()
    }

    pub(crate) fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.succeed(command)).unwrap()
    }

    /// Each link with what it is part of, its MTU and its IPv4 addresses, as the kernel has them.
    pub(crate) fn network(&self) -> BTreeMap<String, Value> {
        let links = self.json("ip -json address");
        let addresses = |link: &Value| -> Vec<Value> {
            let all = link["addr_info"].as_array().into_iter().flatten();
            all.filter(|it| it["family"] == "inet").map(|it| it["local"].clone()).collect()
        };
        let facts = |link: &Value| json!([link["master"], link["mtu"], addresses(link)]);
        let links = links.as_array().unwrap().iter();
        links.map(|link| (link["ifname"].as_str().unwrap().to_owned(), facts(link))).collect()
    }

    /// Waits until the network is restored.
    pub(crate) fn wait_for_network(&self, wanted: &BTreeMap<String, Value>) {
        self.wait(&format!("the network is {wanted:?}"), || {
            (self.network() == *wanted).then_some(())
        });
    }

    /// Waits until the kernel reports this for the bond.
    pub(crate) fn wait_for_bond(&self, words: &str) {
        self.succeed(&format!("await '{words}' grep -qF '{words}' /proc/net/bonding/bond0"));
    }

    /// Waits until the LAN reaches an address with packets of this size that must not be
    /// fragmented.
    pub(crate) fn lan_reaches(&self, address: &str, mtu: u32) {
        // What IP and ICMP add to it.
        let size = mtu - 28;
        let ping = format!("lan ping -q -c 1 -W 1 -M do -s {size} {address}");
        self.succeed(&format!("await '{address} responds' {ping}"));
    }

    fn get(&self, path: &str) -> Option<Object> {
        match self.runtime.block_on(self.server.client().get(path)) {
            Ok(object) => Some(Object(object)),
            Err(ApiError::Refused { code: 404, .. }) => None,
            Err(error) => panic!("{error:?}"),
        }
    }

    fn wait<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            if Instant::now() > end {
                let list = |path: &str| self.get(path).map(|list| list.0.to_string());
                let network = self.machine.run("ip -brief address; nmcli connection");
                panic!(
                    "waited in vain until {what}\n{:?}\n{:?}\n{network:?}",
                    list(POLICIES),
                    list(ENACTMENTS)
                );
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// The name of a policy.
pub(crate) fn name_of(yaml: &str) -> &str {
    let (_, rest) = yaml.split_once("\n  name: ").unwrap();
    rest.lines().next().unwrap()
}
