//! A small OpenShift: registries in place of quay.io and Red Hat's own, an
//! update service, a store of signatures, and the key they are made with.

use std::io::Write;
use std::process::Command;

use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{LabRegistry, Settings};
use lab::releases::{Recipe, Release, ReleaseKey};
use lab::signature_store::SignatureStore;
use lab::update_service::{Graph, UpdateService};
use oci::Platform;

use super::{Ran, Site};

/// All servers that a connected side uses for releases.
pub(crate) struct World {
    pub(crate) quay: LabRegistry,
    pub(crate) service: UpdateService,
    pub(crate) signatures: SignatureStore,
    pub(crate) key: ReleaseKey,
}

impl World {
    /// An environment without any release.
    pub(crate) fn empty() -> Self {
        Self {
            quay: LabRegistry::start(Settings::default()).unwrap(),
            service: UpdateService::start().unwrap(),
            signatures: SignatureStore::start().unwrap(),
            key: ReleaseKey::generate().unwrap(),
        }
    }

    /// An environment with these releases for amd64, each an update of the one
    /// before, all in `stable-4.16`.
    pub(crate) fn with(versions: &[&str]) -> (Self, Vec<Release>) {
        let world = Self::empty();
        let releases: Vec<Release> = versions
            .iter()
            .map(|version| world.release(&Recipe { version, ..Recipe::default() }))
            .collect();
        world.service.publish("stable-4.16", "amd64", &chain(&releases));
        (world, releases)
    }

    /// Makes a release, signs it and stores it where clients search for it.
    pub(crate) fn release(&self, recipe: &Recipe<'_>) -> Release {
        let release = Release::generate(recipe).unwrap();
        release.put(&self.quay).unwrap();
        let signature = self.key.sign(&release.claim()).unwrap();
        self.signatures.put(&release.payload.digest(), 1, signature);
        release
    }

    /// What graph images are made of: data of the update service, and their base image.
    pub(crate) fn offer_graph_data(&self) {
        let layer = Layer::generate("ubi", 3_000, Compression::Gzip).unwrap();
        let on = |architecture: &str| {
            let platform = Platform::new("linux", architecture);
            Image::new(Format::Docker, platform, std::slice::from_ref(&layer)).unwrap()
        };
        let base = Image::list(Format::Docker, [on("amd64"), on("arm64")]).unwrap();
        self.quay.put_image(&base, "ubi9/ubi", "latest").unwrap();
        let mut tar = tar(&[
            ("version", b"1.2.0\n".as_slice()),
            ("channels/stable-4.16.yaml", b"name: stable-4.16\nversions: []\n"),
            ("blocked-edges/4.16.1.yaml", b"to: 4.16.1\nfrom: .*\n"),
        ]);
        let mut gzip = Command::new("gzip")
            .args(["-n", "-c"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = gzip.stdin.take().unwrap();
        stdin.write_all(&std::mem::take(&mut tar)).unwrap();
        drop(stdin);
        self.service.offer_graph_data(gzip.wait_with_output().unwrap().stdout);
    }

    /// A machine that uses these servers, and trusts their key.
    pub(crate) fn site(&self) -> Site {
        let site = Site::new();
        site.redirect("quay.io", self.quay.address());
        site.redirect("registry.access.redhat.com", self.quay.address());
        site.write("release-key.asc", self.key.public());
        site
    }

    /// The program with all that points it to this environment.
    pub(crate) fn command(&self, site: &Site, line: &str) -> Command {
        let mut command = site.command(line);
        command
            .env("UPDATE_URL_OVERRIDE", self.service.graph_url())
            .env("OCP_SIGNATURE_URL", self.signatures.url())
            .env("OCP_SIGNATURE_VERIFICATION_PK", site.path("release-key.asc"));
        command
    }

    /// Runs the program with a JSON report.
    pub(crate) fn run(&self, site: &Site, line: &str) -> Ran {
        Ran::of(self.command(site, &format!("--output=json {line}")).output().unwrap())
    }

    /// Runs the program and expects it to succeed.
    pub(crate) fn succeeds(&self, site: &Site, line: &str) -> Ran {
        let ran = self.run(site, line);
        assert_eq!(ran.code, 0, "{line}\n{}\n{}", ran.err, ran.out);
        ran
    }

    /// Clears the record of requests to all servers.
    pub(crate) fn forget_requests(&self) {
        self.quay.forget_requests();
        self.service.server.forget_requests();
        self.signatures.server.forget_requests();
    }
}

/// A graph in which each release updates the one before.
pub(crate) fn chain(releases: &[Release]) -> Graph {
    let channels = ["candidate-4.16", "fast-4.16", "stable-4.16"];
    let graph = releases.iter().fold(Graph::default(), |graph, release| {
        graph.node_in(&release.version, &release.pullspec(), &channels)
    });
    releases.windows(2).fold(graph, |graph, pair| graph.edge(&pair[0].version, &pair[1].version))
}

/// A configuration of one channel; `rest` follows its name.
pub(crate) fn channel(name: &str, rest: &str) -> String {
    format!("  platform:\n    channels:\n    - name: {name}\n{rest}")
}

/// Where the parts of a release are at a target, below its namespace.
pub(crate) fn places(release: &Release) -> Vec<(String, Vec<u8>)> {
    let tag = release.tag();
    let payload = (format!("openshift/release-images:{tag}"), release.payload.root().bytes.clone());
    let components = release.components.iter().map(|(name, image)| {
        (format!("openshift/release:{tag}-{name}"), image.root().bytes.clone())
    });
    std::iter::once(payload).chain(components).collect()
}

/// A tar of these files, written by GNU tar's rules for plain files.
fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let output = Command::new("tar")
        .args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "-cf", "-", "-C"])
        .arg(dir.path())
        .arg(".")
        .output()
        .unwrap();
    assert!(output.status.success());
    output.stdout
}
