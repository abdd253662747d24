//! A real Kubernetes API server: etcd and kube-apiserver on loopback, stopped when dropped.
//!
//! It has no nodes; it stores, validates and admits objects exactly as a cluster does. With a
//! cluster's CRDs loaded it validates every manifest that we generate. Where a test needs
//! workloads to become pods and garbage to be collected, [`ApiServer::start_controllers`] starts a
//! real kube-controller-manager beside it.

mod client;
mod container;
mod controllers;
mod crds;
mod credentials;
mod daemon;
mod document;
mod pod_runner;
mod published;
mod table;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use reqwest::{Certificate, Url};
use serde_json::Value;
use tempfile::TempDir;
use test_tools::{self as tools, Tool};

pub use client::{ApiError, Client, FieldValidation, Persistence};
pub use container::ImageRoot;
pub use crds::open_crd;
pub use document::DocumentError;
pub use pod_runner::{PodOptions, PodRunner};
pub use published::{CLUSTER_CRDS, PublishedCrdError, published_crd};
pub use table::Table;

use controllers::Controllers;
use credentials::Credentials;
use daemon::Daemon;

/// Two seconds are usual. A machine that compiles at the same time needs far more; this only ends a
/// test that hangs.
const START_DEADLINE: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(50);
/// Every request of the client must get its response within this time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(180);
/// Another process can take a free port between our check and the server's bind.
const START_ATTEMPTS: usize = 3;

/// A server that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("starting an API server")]
    Tool(#[from] tools::Error),
    #[error("starting an API server: making its certificates")]
    Credentials(#[source] anyhow::Error),
    #[error("starting an API server: making its client")]
    Client(#[source] reqwest::Error),
    #[error("starting an API server: {what}")]
    Io { what: String, source: io::Error },
    #[error("starting an API server: {program} ended with {status}; its last lines:\n{log_tail}")]
    Died { program: &'static str, status: ExitStatus, log_tail: String },
    #[error(
        "starting an API server: {program} was not ready within {} s; its last lines:\n{log_tail}",
        START_DEADLINE.as_secs()
    )]
    NotReady { program: &'static str, log_tail: String },
}

/// A running API server with its own empty store. Its processes and files are removed when it
/// is dropped.
#[derive(Debug)]
pub struct ApiServer {
    client: Client,
    url: String,
    credentials: Credentials,
    kubeconfig: PathBuf,
    // Dropped in this order: clients of the server before it, the server before its store, all
    // before their files.
    controllers: Option<Controllers>,
    apiserver: Daemon,
    /// How it was started.
    started: (PathBuf, Vec<String>),
    etcd: Daemon,
    folder: TempDir,
}

/// What a server does besides storing, validating and admitting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerOptions {
    /// Everything that is written is recorded: see [`ApiServer::audit_log`].
    pub is_audited: bool,
    /// Pods are admitted with their service account only, and get its token. Accounts must then be
    /// made, which [`ApiServer::start_controllers`] does in every namespace.
    pub wants_service_accounts: bool,
    /// Requests are authorized by the Node authorizer too, admission includes NodeRestriction, and the
    /// kubelet of the node of this name has credentials: see [`ApiServer::kubelet_kubeconfig`].
    pub node: Option<&'static str>,
}

const KUBELET_KUBECONFIG: &str = "kubelet.kubeconfig";
const AUDIT_POLICY: &str = "audit-policy.yaml";
const AUDIT_LOG: &str = "audit.log";
/// Who wrote what and when, without the content; nothing about reading.
const AUDITED: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
";

struct Ports {
    etcd_client: u16,
    etcd_peer: u16,
    api: u16,
}

impl ApiServer {
    /// Starts a server and waits until it is ready.
    pub async fn start() -> Result<Self, StartError> {
        Self::start_with(ServerOptions::default()).await
    }

    /// The same with a record of everything that is written: see [`Self::audit_log`].
    pub async fn start_audited() -> Result<Self, StartError> {
        Self::start_with(ServerOptions { is_audited: true, ..ServerOptions::default() }).await
    }

    /// The same with these options.
    pub async fn start_with(options: ServerOptions) -> Result<Self, StartError> {
        let programs = (tools::path(Tool::Etcd)?, tools::path(Tool::KubeApiserver)?);
        let mut attempt = 1;
        loop {
            match Self::start_once(&programs.0, &programs.1, options).await {
                Err(StartError::Died { log_tail, .. })
                    if log_tail.contains("address already in use") && attempt < START_ATTEMPTS =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn start_once(
        etcd: &Path,
        kube_apiserver: &Path,
        options: ServerOptions,
    ) -> Result<Self, StartError> {
        let folder = tempfile::Builder::new()
            .prefix("landfall-kube-")
            .tempdir()
            .map_err(failed("making a temporary folder"))?;
        let dir = folder.path();
        let credentials = Credentials::generate().map_err(StartError::Credentials)?;
        credentials.write(dir, options.node).map_err(failed("writing certificates"))?;
        let ports = free_ports().map_err(failed("looking for free ports"))?;
        let url = format!("https://127.0.0.1:{}", ports.api);
        let kubeconfig = dir.join("kubeconfig");
        fs::write(&kubeconfig, credentials.kubeconfig(&url))
            .map_err(failed("writing the kubeconfig"))?;
        fs::write(dir.join(KUBELET_KUBECONFIG), credentials.kubelet_kubeconfig(&url))
            .map_err(failed("writing the kubeconfig of the kubelet"))?;

        let etcd = Daemon::start(etcd, &etcd_arguments(dir, &ports), &dir.join("etcd.log"))
            .map_err(failed("starting etcd"))?;
        let mut arguments = apiserver_arguments(dir, &ports);
        if options.node.is_some() {
            arguments.push("--authorization-mode=Node,RBAC".to_owned());
            arguments.push("--enable-admission-plugins=NodeRestriction".to_owned());
        } else {
            arguments.push("--authorization-mode=RBAC".to_owned());
        }
        if !options.wants_service_accounts {
            arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
        }
        if options.is_audited {
            fs::write(dir.join(AUDIT_POLICY), AUDITED).map_err(failed("writing what to record"))?;
            let file = |flag: &str, name: &str| format!("--{flag}={}", dir.join(name).display());
            arguments.extend([
                file("audit-policy-file", AUDIT_POLICY),
                file("audit-log-path", AUDIT_LOG),
            ]);
        }
        let apiserver = Daemon::start(kube_apiserver, &arguments, &dir.join("kube-apiserver.log"))
            .map_err(failed("starting kube-apiserver"))?;
        let client = client(&url, &credentials).map_err(StartError::Client)?;
        let controllers = None;
        let started = (kube_apiserver.to_owned(), arguments);
        let mut server = Self {
            client,
            url,
            credentials,
            kubeconfig,
            controllers,
            apiserver,
            started,
            etcd,
            folder,
        };
        server.wait_until_ready().await?;
        Ok(server)
    }

    /// Kills the server and starts it again, with its store, at the same address.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        self.apiserver.kill();
        let (program, arguments) = &self.started;
        let log = self.folder.path().join("kube-apiserver.log");
        self.apiserver =
            Daemon::start(program, arguments, &log).map_err(failed("starting kube-apiserver"))?;
        self.wait_until_ready().await
    }

    async fn wait_until_ready(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + START_DEADLINE;
        while !self.client.is_ready().await {
            for (program, daemon) in
                [("etcd", &mut self.etcd), ("kube-apiserver", &mut self.apiserver)]
            {
                if let Some(status) = daemon.ended().map_err(failed("waiting for it"))? {
                    let log_tail = daemon.log_tail();
                    return Err(StartError::Died { program, status, log_tail });
                }
            }
            if Instant::now() > deadline {
                let (program, log_tail) = ("kube-apiserver", self.apiserver.log_tail());
                return Err(StartError::NotReady { program, log_tail });
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Where it listens: `https://127.0.0.1:<port>`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The same as an address.
    pub fn address(&self) -> SocketAddr {
        self.url.trim_start_matches("https://").parse().expect("it was made of address and port")
    }

    /// The certificate authority of its certificate, as PEM.
    pub fn ca_pem(&self) -> &str {
        &self.credentials.ca_pem
    }

    /// Where an audited server records what is written: one JSON object per line.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.path().join(AUDIT_LOG)
    }

    /// A kubeconfig with an administrator's rights, for other programs.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A kubeconfig with the rights of the kubelet of [`ServerOptions::node`].
    pub fn kubelet_kubeconfig(&self) -> PathBuf {
        self.folder.path().join(KUBELET_KUBECONFIG)
    }

    /// The same for programs that reach it at another address, such as that of a
    /// [`Relay`](crate::node::Relay).
    pub fn kubeconfig_at(&self, address: SocketAddr) -> String {
        self.credentials.kubeconfig(&format!("https://{address}"))
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// See [`Client::apply`].
    pub async fn apply(
        &self,
        yaml: &str,
        persistence: Persistence,
        fields: FieldValidation,
    ) -> Result<Vec<Value>, ApiError> {
        self.client.apply(yaml, persistence, fields).await
    }

    /// Creates a Node that is ready.
    pub async fn add_ready_node(&self, name: &str) -> Result<(), ApiError> {
        let node = format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}\n"
        );
        self.apply(&node, Persistence::Stored, FieldValidation::Strict).await?;
        let status = format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{conditions: [{{type: Ready, status: 'True'}}]}}\n"
        );
        self.client.apply_status(&status).await.map(drop)
    }

    /// See [`Client::load_cluster_crds`].
    pub async fn load_cluster_crds(&self) -> Result<Vec<String>, ApiError> {
        self.client.load_cluster_crds().await
    }

    /// See [`Client::load_crds`].
    pub async fn load_crds(&self, folder: &Path) -> Result<Vec<String>, ApiError> {
        self.client.load_crds(folder).await
    }
}

fn failed(what: &str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::Io { what: what.to_owned(), source }
}

fn client(url: &str, credentials: &Credentials) -> Result<Client, reqwest::Error> {
    let ca = Certificate::from_pem(credentials.ca_pem.as_bytes())?;
    let http = reqwest::Client::builder()
        .tls_certs_only([ca])
        .no_proxy()
        .timeout(REQUEST_TIMEOUT)
        .build()?;
    let base = Url::parse(url).expect("an address and a port are a URL");
    Ok(Client::new(http, base, credentials.token.clone()))
}

/// All are held while they are looked for, so that they differ.
fn free_ports() -> io::Result<Ports> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let held = [listen()?, listen()?, listen()?];
    let port = |listener: &TcpListener| Ok::<_, io::Error>(listener.local_addr()?.port());
    Ok(Ports { etcd_client: port(&held[0])?, etcd_peer: port(&held[1])?, api: port(&held[2])? })
}

fn etcd_arguments(dir: &Path, ports: &Ports) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", ports.etcd_client);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // The data need not survive a power cut.
        "--unsafe-no-fsync".to_owned(),
    ]
}

fn apiserver_arguments(dir: &Path, ports: &Ports) -> Vec<String> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", dir.join(name).display());
    let mut arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd_client),
        format!("--secure-port={}", ports.api),
        file("cert-dir", "certs"),
        file("tls-cert-file", credentials::SERVER_CERTIFICATE),
        file("tls-private-key-file", credentials::SERVER_KEY),
        file("token-auth-file", credentials::TOKENS),
        file("service-account-key-file", credentials::SERVICE_ACCOUNT_PUBLIC_KEY),
        file("service-account-signing-key-file", credentials::SERVICE_ACCOUNT_KEY),
    ];
    arguments.extend(
        [
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            // There is one server; its address need not be kept in the store.
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--allow-privileged",
        ]
        .map(str::to_owned),
    );
    arguments
}
