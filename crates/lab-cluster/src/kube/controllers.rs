//! kube-controller-manager beside an API server: what is deployed becomes pods, what lost its owner
//! is collected.
//!
//! There is still no scheduler and no kubelet: a test that needs running pods binds them and writes
//! their status.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::thread;
use std::time::Instant;

use test_tools::Tool;

use super::daemon::Daemon;
use super::{
    ApiServer, POLL, START_ATTEMPTS, START_DEADLINE, StartError, credentials, failed, tools,
};

const PROGRAM: &str = "kube-controller-manager";
const LOG: &str = "kube-controller-manager.log";

/// Those that act on what our programs deploy. Nodes are ready as long as a test decides: nothing
/// renews their leases here, and the node lifecycle controller would mark them unreachable.
const CONTROLLERS: [&str; 12] = [
    "clusterrole-aggregation-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    // Reports what is wrong with the types in an expression of admission.
    "validatingadmissionpolicy-status-controller",
];

/// The running program. It ends when dropped; where a test fails, its last lines are printed.
#[derive(Debug)]
pub(super) struct Controllers(Daemon);

impl Drop for Controllers {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- {PROGRAM}\n{}", self.0.log_tail());
        }
    }
}

impl ApiServer {
    /// Starts the controllers of a cluster, and waits until they run. They end with the
    /// server.
    ///
    /// Kinds that are added later are collected as well, but up to half a minute late: load CRDs
    /// first.
    pub async fn start_controllers(&mut self) -> Result<(), StartError> {
        self.start_controllers_with(&[]).await
    }

    /// The same, and one that removes pods of nodes that do not exist any more.
    pub async fn start_controllers_and_pod_collection(&mut self) -> Result<(), StartError> {
        self.start_controllers_with(&["pod-garbage-collector-controller"]).await
    }

    async fn start_controllers_with(&mut self, more: &[&str]) -> Result<(), StartError> {
        let program = tools::path(Tool::KubeControllerManager)?;
        let mut attempt = 1;
        loop {
            match self.start_controllers_once(&program, more).await {
                Err(StartError::Died { log_tail, .. })
                    if log_tail.contains("address already in use") && attempt < START_ATTEMPTS =>
                {
                    attempt += 1;
                }
                result => {
                    self.controllers = Some(result?);
                    return Ok(());
                }
            }
        }
    }

    async fn start_controllers_once(
        &self,
        program: &Path,
        more: &[&str],
    ) -> Result<Controllers, StartError> {
        let dir = self.folder.path();
        let port = free_port().map_err(failed("looking for a free port"))?;
        let mut daemon =
            Daemon::start(program, &arguments(dir, &self.kubeconfig, port, more), &dir.join(LOG))
                .map_err(failed("starting kube-controller-manager"))?;
        let health = format!("https://127.0.0.1:{port}/healthz");
        let deadline = Instant::now() + START_DEADLINE;
        while !self.client.is_healthy(&health).await {
            if let Some(status) = daemon.ended().map_err(failed("waiting for it"))? {
                let log_tail = daemon.log_tail();
                return Err(StartError::Died { program: PROGRAM, status, log_tail });
            }
            if Instant::now() > deadline {
                let log_tail = daemon.log_tail();
                return Err(StartError::NotReady { program: PROGRAM, log_tail });
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(Controllers(daemon))
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn arguments(dir: &Path, kubeconfig: &Path, port: u16, more: &[&str]) -> Vec<String> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", dir.join(name).display());
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={}", [&CONTROLLERS[..], more].concat().join(",")),
        format!("--secure-port={port}"),
        file("tls-cert-file", credentials::SERVER_CERTIFICATE),
        file("tls-private-key-file", credentials::SERVER_KEY),
        file("root-ca-file", credentials::AUTHORITY),
        "--bind-address=127.0.0.1".to_owned(),
        "--leader-elect=false".to_owned(),
        // Each acts in its own name, so that an audit log distinguishes them from our programs.
        "--use-service-account-credentials".to_owned(),
    ]
}
