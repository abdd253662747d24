//! What a machine must offer so that nodes can run on it. Absent parts are an error that names
//! all of them, never a reason to leave tests out.

use std::path::Path;

use anyhow::{Result, bail};

/// Programs of the host, and the packages that contain them.
const PROGRAMS: [(&str, &str); 4] =
    [("bash", "bash"), ("ip", "iproute2"), ("nsenter", "util-linux"), ("unshare", "util-linux")];

/// Checks that nodes in namespaces can run here.
pub(super) fn check() -> Result<()> {
    let offer = Offer {
        root: rustix::process::geteuid().is_root(),
        tun: Path::new("/dev/net/tun").exists(),
        absent_programs: PROGRAMS
            .into_iter()
            .filter(|(program, _)| !test_tools::is_installed(program))
            .collect(),
    };
    match offer.missing() {
        Some(text) => bail!("a node cannot run here: {text}"),
        None => Ok(()),
    }
}

/// What was found on this machine.
struct Offer {
    root: bool,
    tun: bool,
    absent_programs: Vec<(&'static str, &'static str)>,
}

impl Offer {
    fn missing(&self) -> Option<String> {
        let mut parts = Vec::new();
        if !self.root {
            parts.push("it takes root, for namespaces and mounts: run the tests as root".into());
        }
        if !self.tun {
            parts.push(
                "there is no /dev/net/tun, which Open vSwitch needs: `modprobe tun`, or give it \
                 to the container"
                    .into(),
            );
        }
        for (program, package) in &self.absent_programs {
            parts.push(format!("there is no `{program}`: `apt-get install {package}` installs it"));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_missing_is_named_at_once() {
        let nothing = Offer { root: false, tun: false, absent_programs: vec![("ip", "iproute2")] };
        let text = nothing.missing().unwrap();
        for part in ["root", "/dev/net/tun", "`ip`", "apt-get install iproute2"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_machine_that_has_all_of_it_is_enough() {
        assert_eq!(Offer { root: true, tun: true, absent_programs: vec![] }.missing(), None);
    }
}
