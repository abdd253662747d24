//! `gather`: the network of a node, for `oc adm must-gather`. It runs in the handler's container, which
//! has the sockets and, read only, the folders of the node.

mod open_vswitch;

use std::env;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use node_collection::{Index, Item, STATE, Secrets, Sink};
use node_network::{Host, Network as _};

/// Of larger files the beginning is collected; none of these is.
const LARGEST: u64 = 4 << 20;
/// Where Open vSwitch listens.
const OPEN_VSWITCH: &str = "/run/openvswitch/db.sock";

const FILES: [&str; 2] = ["/etc/hostname", "/proc/cmdline"];

/// All files of these, not of folders below them.
const FOLDERS: [&str; 8] = [
    "/etc/nmstate",
    "/etc/nmstate/openshift",
    "/etc/NetworkManager/system-connections",
    "/run/NetworkManager/system-connections",
    "/etc/NetworkManager/conf.d",
    "/etc/NetworkManager/dispatcher.d",
    "/var/log/brex-firstboot",
    "/proc/net/bonding",
];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder to write to, which must be new or empty; `-` writes a tar archive to standard output
    #[arg(long, value_name = "DIR", default_value = "-")]
    out: PathBuf,
    /// Name of the node [default: the host name]
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node: Option<String>,
}

/// Collects what there is. What cannot be read is noted in the index and keeps nothing else from being
/// collected.
pub(crate) async fn gather(arguments: &Arguments) -> Result<()> {
    let mut sink = Sink::new(&arguments.out, "")?;
    let program = format!("nmstate-operator {}", env!("CARGO_PKG_VERSION"));
    let node = arguments.node.clone().unwrap_or_else(hostname);
    let mut index = Index::new(program, jiff::Timestamp::now().to_string(), node);
    let paths = paths();
    // A secret of a profile may occur in any other file.
    let mut secrets = Secrets::default();
    for path in &paths {
        if let Ok(bytes) = read(path) {
            secrets.learn(path, &bytes);
        }
    }
    for path in &paths {
        match read(path) {
            Ok(bytes) => {
                let file = format!("files{path}");
                sink.put(&file, &secrets.hide(path, &bytes))?;
                index.items.push(Item::collected(&file, path));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => index.items.push(Item::missing(path, error.to_string())),
        }
    }
    index.items.push(state(&mut sink, &secrets).await?);
    for (table, rows) in open_vswitch::tables(Path::new(OPEN_VSWITCH)).await {
        let source = format!("table {table} of Open vSwitch");
        match rows {
            Ok(rows) => {
                let file = format!("open-vswitch/{table}.json");
                let text = serde_json::to_vec_pretty(&rows).context("writing a table")?;
                sink.put(&file, &secrets.hide(&file, &text))?;
                index.items.push(Item::collected(&file, &source));
            }
            Err(error) => index.items.push(Item::missing(&source, format!("{error:#}"))),
        }
    }
    index.finish(sink)
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn paths() -> Vec<String> {
    let in_folder = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        let mut paths: Vec<String> =
            files.map(|entry| entry.path().to_string_lossy().into_owned()).collect();
        paths.sort();
        paths
    };
    FILES.map(str::to_owned).into_iter().chain(FOLDERS.into_iter().flat_map(in_folder)).collect()
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What nmstate reports, without secrets.
async fn state(sink: &mut Sink, secrets: &Secrets) -> Result<Item> {
    let source = "the network state";
    match Host.state().await {
        Ok(mut state) => {
            state.hide_secrets();
            let text = serde_json::to_vec_pretty(&state).context("writing the network state")?;
            sink.put(STATE, &secrets.hide(STATE, &text))?;
            Ok(Item::collected(STATE, source))
        }
        Err(error) => Ok(Item::missing(source, error.to_string())),
    }
}
