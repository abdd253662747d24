//! What survives a reboot, and what does not.

use serde_json::json;

use crate::rollout::bench::{Bench, NODES};
use crate::rollout::wishes::{MEMORY_ONLY, on};

const LASTING: &str = "/etc/NetworkManager/system-connections";
const PASSING: &str = "/run/NetworkManager/system-connections";

pub(crate) fn memory_only(bench: &mut Bench) {
    let [passing, lasting] = NODES;
    let bridge = json!({"interfaces": [{
        "name": "stay0", "type": "linux-bridge", "state": "up",
        "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
    }]});
    bench.apply_policy("passing", &on(passing, &bridge), &[(MEMORY_ONLY, "true")]);
    bench.apply_policy("lasting", &on(lasting, &bridge), &[]);
    bench.wait_until_available("passing");
    bench.wait_until_available("lasting");
    assert_eq!(bench.profile_folders(passing, "stay0"), [PASSING]);
    assert_eq!(bench.profile_folders(lasting, "stay0"), [LASTING]);
    NODES.iter().for_each(|node| assert!(bench.has_interface(node, "stay0")));

    NODES.iter().for_each(|node| bench.reboot(node));
    bench.wait("what lasts is there again", || bench.has_interface(lasting, "stay0").then_some(()));
    assert!(bench.profile_folders(passing, "stay0").is_empty());
    assert!(!bench.has_interface(passing, "stay0"));
    // The policy is still there, so the node gets it again.
    NODES.iter().for_each(|node| bench.start_handler(node));
    bench.wait("what does not last is made again", || {
        bench.has_interface(passing, "stay0").then_some(())
    });
    assert_eq!(bench.profile_folders(passing, "stay0"), [PASSING]);
}
