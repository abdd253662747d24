//! One mirror run with each oc-mirror: from a registry to disk and from disk to the registry. The
//! content is the image of oc-mirror itself, the registry Debian's.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::programs;
use crate::command;
use crate::job::Artefacts;

pub(crate) fn check(artefacts: &Artefacts) -> Result<()> {
    let image = artefacts.images.iter().find(|(name, _)| *name == "oc-mirror");
    let Some((_, image)) = image else { return Ok(()) };
    let registry = Registry::start(&artefacts.work.path().join("registry"))?;
    let host = registry.host();
    let mut skopeo = Command::new("skopeo");
    skopeo.args(["copy", "--quiet", "--all", "--dest-tls-verify=false"]);
    skopeo.arg(format!("oci-archive:{}", image.display()));
    command::output(skopeo.arg(format!("docker://{host}/source/oc-mirror:v1")))?;
    for contents in artefacts.contents.iter().filter(|one| one.built.program.name == "oc-mirror") {
        let architecture = contents.built.architecture;
        let program = programs::unpack(artefacts, contents)?;
        let work = artefacts.work.path().join(format!("mirror-{architecture}"));
        fs::create_dir_all(&work).context("creating a folder")?;
        let config = format!(
            "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\n\
             mirror: {{additionalImages: [{{name: \"{host}/source/oc-mirror:v1\"}}]}}\n"
        );
        fs::write(work.join("isc.yaml"), config).context("writing the configuration")?;
        let data = format!("file://{}", work.join("data").display());
        let target = format!("docker://{host}/{architecture}");
        let run = |words: &[&str]| -> Result<()> {
            let mut command = architecture.command(&program);
            command.args(["-c", "isc.yaml"]).args(words).current_dir(&work);
            command::output(&mut command).map(drop)
        };
        run(&["--src-tls-verify=false", &data]).context("mirroring to disk")?;
        run(&["--dest-tls-verify=false", "--from", &data, &target])
            .context("mirroring from disk")?;
        let digest = |repository: &str| {
            let mut skopeo = Command::new("skopeo");
            skopeo.args(["inspect", "--raw", "--tls-verify=false"]);
            command::output(skopeo.arg(format!("docker://{host}/{repository}:v1")))
        };
        ensure!(
            digest("source/oc-mirror")? == digest(&format!("{architecture}/source/oc-mirror"))?,
            "the mirrored image differs from its source"
        );
        println!(
            "    oc-mirror {architecture}: mirrored an image to disk and from disk to a registry"
        );
    }
    Ok(())
}

/// Debian's docker-registry; it ends with this value.
struct Registry {
    child: Child,
    port: u16,
}

impl Registry {
    fn start(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).context("creating a folder for the registry")?;
        // The port is free when it is chosen; another process may take it before the registry does.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let config: PathBuf = folder.join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: \"127.0.0.1:{port}\"}}\n",
            folder.join("data").display()
        );
        fs::write(&config, text).context("writing the configuration of the registry")?;
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&config).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.context("starting docker-registry; `cargo xtask tools` installs it")?;
        let registry = Self { child, port };
        for _ in 0..300 {
            if TcpStream::connect(registry.host()).is_ok() {
                return Ok(registry);
            }
            thread::sleep(Duration::from_millis(100));
        }
        bail!("docker-registry does not listen on {}", registry.host())
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
