//! A served workspace.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use super::Site;

/// A running `oc-mirror serve`. It ends when dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Serving {
    pub(crate) fn start(site: &Site, line: &str) -> Self {
        let mut command = site.command(&format!("serve {line} --listen 127.0.0.1:0"));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let address = lines.find_map(|line| line.split_once("://")?.1.parse().ok()).unwrap();
        // If the pipe is not read, the server stops when it is full.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
