//! The nodes of the bench as the cases read and change them.

use serde_json::Value;

use crate::rollout::bench::Bench;

/// NetworkManager at the bus.
const MANAGER: &str = "org.freedesktop.NetworkManager";
/// The PID file of the DNS server on the LAN.
const NAMES_PID: &str = "/run/names.pid";

impl Bench {
    pub(crate) fn mtu(&self, node: &str) -> u32 {
        let json = self.node(node).succeed(&["ip", "-json", "link", "show", "nic1"]).unwrap();
        let links: Value = serde_json::from_str(&json).unwrap();
        links[0]["mtu"].as_u64().unwrap().try_into().unwrap()
    }

    /// Changes it directly on the node, outside of any policy.
    pub(crate) fn set_mtu(&self, node: &str, mtu: u32) {
        let mtu = mtu.to_string();
        self.node(node).succeed(&["ip", "link", "set", "nic1", "mtu", &mtu]).unwrap();
    }

    pub(crate) fn wait_for_mtu(&self, node: &str, mtu: u32) {
        self.wait(&format!("{node} has an MTU of {mtu}"), || (self.mtu(node) == mtu).then_some(()));
    }

    pub(crate) fn has_address(&self, node: &str, address: &str) -> bool {
        let text = self.node(node).succeed(&["ip", "address"]).unwrap();
        text.contains(&format!("inet {address}/"))
    }

    pub(crate) fn has_interface(&self, node: &str, name: &str) -> bool {
        self.node(node).run(&["ip", "link", "show", name]).unwrap().status.success()
    }

    /// Removes what policies created on a node: profiles of all interfaces but the uplink, and the
    /// MTU of the spare NIC.
    pub(crate) fn restore_network(&self, node: &str) {
        const RESTORE: &str = "nmcli -g UUID connection | while read -r uuid; do
  case $(nmcli -g connection.interface-name connection show \"$uuid\") in
    nic0 | lo) ;;
    *) nmcli connection delete \"$uuid\" ;;
  esac
done
ip link set nic1 mtu 1500";
        self.node(node).succeed(&["sh", "-c", RESTORE]).unwrap();
    }

    pub(crate) fn signal_network_manager(&self, node: &str, signal: &str) {
        let kill = "kill -$1 $(pidof NetworkManager)";
        self.node(node).succeed(&["sh", "-c", kill, "sh", signal]).unwrap();
    }

    pub(crate) fn cut_off(&self, node: &str) {
        self.node(node).drop_packets(0).unwrap();
    }

    pub(crate) fn plug_in(&self, node: &str) {
        self.node(node).plug_in(0).unwrap();
    }

    /// Folders of the profiles that NetworkManager has for an interface.
    pub(crate) fn profile_folders(&self, node: &str, interface: &str) -> Vec<String> {
        let line = format!("interface-name={interface}");
        let profiles = self.node(node).nm_profiles().unwrap().into_iter();
        let of_it =
            profiles.filter(|(_, text)| String::from_utf8_lossy(text).lines().any(|it| it == line));
        of_it.map(|(path, _)| path.rsplit_once('/').unwrap().0.to_owned()).collect()
    }

    /// Restarts NetworkManager.
    pub(crate) fn restart_network_manager(&self, node: &str) {
        let node = self.node(node);
        node.succeed(&["sh", "-c", "kill -TERM $(pidof NetworkManager)"]).unwrap();
        node.wait_until("NetworkManager ends", |node| {
            Ok(!node.run(&["pidof", "NetworkManager"])?.status.success())
        })
        .unwrap();
        let again = "exec setsid --fork NetworkManager --debug >> /log/NetworkManager.log 2>&1";
        node.succeed(&["sh", "-c", again]).unwrap();
        node.wait_until("NetworkManager runs", |node| {
            Ok(node.run(&["nmcli", "-t", "general"])?.status.success())
        })
        .unwrap();
    }

    /// Another program starts to change a device and does not finish. Returns the checkpoint.
    pub(crate) fn foreign_checkpoint(&self, node: &str, interface: &str) -> String {
        let path = self.node(node).succeed(&[
            "nmcli",
            "-g",
            "GENERAL.DBUS-PATH",
            "device",
            "show",
            interface,
        ]);
        let device = format!("array:objpath:{}", path.unwrap().trim());
        let reply =
            self.manager(node, "CheckpointCreate", &[&device, "uint32:3600", "uint32:0"]).unwrap();
        let path = reply.split('"').nth(1);
        path.unwrap_or_else(|| panic!("no checkpoint in {reply}")).to_owned()
    }

    /// Confirms the change. Fails if the checkpoint does not exist any more.
    pub(crate) fn end_checkpoint(&self, node: &str, checkpoint: &str) {
        let argument = format!("objpath:{checkpoint}");
        self.manager(node, "CheckpointDestroy", &[&argument]).unwrap();
    }

    fn manager(&self, node: &str, method: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let (dest, method) = (format!("--dest={MANAGER}"), format!("{MANAGER}.{method}"));
        let words = ["dbus-send", "--system", "--print-reply", &dest];
        let path = ["/org/freedesktop/NetworkManager", &method];
        self.node(node).succeed(&[&words[..], &path, arguments].concat())
    }

    // The LAN.

    /// Starts the DNS server on the LAN, at the address that DHCP always announced.
    pub(crate) fn start_name_server(&self) {
        let (listen, pid) =
            (format!("--listen-address={}", self.lan.router()), format!("--pid-file={NAMES_PID}"));
        let options =
            ["--conf-file=/dev/null", "--user=root", "--no-resolv", "--no-hosts", "--port=53"];
        let more = ["--bind-interfaces", "--address=/root-servers.net/192.0.2.53", &listen, &pid];
        // It returns when it is up.
        self.on_lan(&[&["dnsmasq"][..], &options, &more].concat());
    }

    pub(crate) fn stop_name_server(&self) {
        let stop = format!("kill $(cat {NAMES_PID}) && rm -f {NAMES_PID}");
        self.on_lan(&["sh", "-c", &stop]);
        self.wait("the name server is gone", || {
            self.on_lan(&["ss", "-Hlun", "sport", "=", ":53"]).is_empty().then_some(())
        });
    }

    fn on_lan(&self, words: &[&str]) -> String {
        let output = self.lan.run(words).unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
