//! The flags of `oc-mirror job`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Args, Subcommand};
use mirror_job::{PodArchives, PodSettings, RunName};

use registry::Side;

use crate::arguments::{MirrorArguments, command};
use crate::problem::Problem;

const ABOUT: &str = "\
Resolves and verifies everything here, stores the plan in the destination registry (repository oc-mirror-runs), and \
lets pods of a cluster transfer the content: one Indexed Job with a pod per shard, then one pod that publishes. \
Nothing can be pulled before all blobs are there.

  Manifests, to review and apply:
    oc-mirror job -c isc.yaml --shards 16 --auth-secret pull --out job/ docker://reg.example/ocp
  Create and follow them:
    oc-mirror job -c isc.yaml --shards 16 --auth-secret pull --submit --follow \\
      docker://reg.example/ocp
  How far it is, what pods log, and how to end it:
    oc-mirror job status [NAME]
    oc-mirror job logs NAME [--shard N]
    oc-mirror job cancel NAME

  An archive in an object store, each pod writing its own files:
    oc-mirror job -c isc.yaml --shards 16 --image REG/oc-mirror:TAG --auth-secret pull \\
      --store-secret bucket --submit --follow s3://BUCKET/PREFIX
  Archives of an object store, with pods of the disconnected side:
    oc-mirror job -c isc.yaml --from s3://BUCKET/PREFIX --shards 16 --auth-secret pull \\
      --store-secret bucket --submit --follow docker://reg.example/ocp

Credentials come from a Secret of the type kubernetes.io/dockerconfigjson, CAs from ConfigMaps with *.crt files. \
docs/cluster-jobs.md has more.";

const PODS: &str = "Pods";
const CLUSTER: &str = "Cluster";

/// Flags that apply to what pods do. Others concern planning, which is done here.
const FOR_PODS: [&str; 21] = [
    "src_tls_verify",
    "src_no_creds",
    "dest_tls_verify",
    "dest_no_creds",
    "parallel_images",
    "parallel_layers",
    "retry_times",
    "retry_delay",
    "stall_timeout",
    "image_timeout",
    "limit_rate",
    "src_limit_rate",
    "dest_limit_rate",
    "icsp",
    "skip_broken_bundles",
    "src_limit_requests",
    "dest_limit_requests",
    "dest_profile",
    "s3_endpoint",
    "s3_region",
    "s3_virtual_hosted",
];

#[derive(Debug, Args)]
#[command(after_help = ABOUT, args_conflicts_with_subcommands = true)]
pub(crate) struct JobArguments {
    #[command(subcommand)]
    pub(crate) command: Option<JobCommand>,
    /// Write the manifests into this directory
    #[arg(long, value_name = "DIR", help_heading = PODS)]
    pub(crate) out: Option<PathBuf>,
    /// Create the Jobs in the cluster of the kubeconfig
    #[arg(long, help_heading = PODS)]
    pub(crate) submit: bool,
    /// Wait for the end of the run; print its report and exit with its exit code
    #[arg(long, requires = "submit", help_heading = PODS)]
    pub(crate) follow: bool,
    /// Fail if no pod has started after this time, such as 10m (0: no limit); does not apply while Kueue has not admitted the Jobs
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = crate::go_syntax::parse_duration, requires = "follow", help_heading = PODS)]
    pub(crate) start_timeout: std::time::Duration,
    /// Container image of oc-mirror; it must be of this version [default: oc-mirror:VERSION at the destination registry]
    #[arg(long, value_name = "IMAGE", help_heading = PODS)]
    pub(crate) image: Option<String>,
    /// Secret with credentials for both sides (.dockerconfigjson)
    #[arg(long, value_name = "NAME", help_heading = PODS)]
    auth_secret: Option<String>,
    /// ConfigMap with CAs of source registries (*.crt)
    #[arg(long, value_name = "NAME", help_heading = PODS)]
    src_ca: Option<String>,
    /// ConfigMap with CAs of the destination registry (*.crt)
    #[arg(long, value_name = "NAME", help_heading = PODS)]
    dest_ca: Option<String>,
    /// PersistentVolumeClaim that is the directory of --from file://DIR or of the destination file://DIR; several nodes must be able to mount it
    #[arg(long, value_name = "NAME", help_heading = PODS)]
    archives_claim: Option<String>,
    /// Secret for s3:// with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or with a file `credentials` of the AWS tools, which can be replaced while pods run
    #[arg(long, value_name = "NAME", help_heading = PODS)]
    store_secret: Option<String>,
    /// Role for s3:// that pods get with the token of their ServiceAccount (web identity), such as arn:aws:iam::ACCOUNT:role/NAME
    #[arg(long, value_name = "ARN", conflicts_with = "store_secret", help_heading = PODS)]
    store_role: Option<String>,
    /// ConfigMap with the CA of the object store (ca.crt)
    #[arg(long, value_name = "NAME", help_heading = PODS)]
    store_ca: Option<String>,
    /// Pods at the same time [default: all shards, or the smaller of --src-limit-requests and --dest-limit-requests]; rates and requests are divided by it
    #[arg(long, value_name = "N", help_heading = PODS)]
    parallelism: Option<NonZeroU32>,
    /// CPU that a pod requests
    #[arg(long, value_name = "QUANTITY", default_value = "500m", help_heading = PODS)]
    cpu: String,
    /// Memory that a pod requests, which is also its limit
    #[arg(long, value_name = "QUANTITY", default_value = "1Gi", help_heading = PODS)]
    memory: String,
    /// Space for unfinished downloads of a pod
    #[arg(long, value_name = "QUANTITY", default_value = "20Gi", help_heading = PODS)]
    scratch: String,
    /// LocalQueue of Kueue that admits the Jobs
    #[arg(long, value_name = "NAME", help_heading = PODS)]
    queue: Option<String>,
    /// Namespace of the Jobs [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NAME", help_heading = CLUSTER)]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    #[command(flatten)]
    pub(crate) mirror: MirrorArguments,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ClusterArguments {
    /// The kubeconfig [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig, instead of its current one
    #[arg(long, value_name = "NAME", help_heading = CLUSTER)]
    pub(crate) context: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Show the progress of each shard, and why shards wait or fail; without NAME, list the runs of a namespace
    Status(StatusArguments),
    /// Print the logs of the pods of a run
    Logs(LogsArguments),
    /// Delete the Jobs of a run; what they transferred stays at the destination, invisible until a later run publishes it
    Cancel(RunArguments),
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// The run, such as oc-mirror-0123456789ab [default: list all runs]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<RunName>,
    /// Namespace of the Jobs [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The run, such as oc-mirror-0123456789ab
    #[arg(value_name = "NAME")]
    pub(crate) name: RunName,
    /// Namespace of the Jobs [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    /// Only this shard, from 0
    #[arg(long, value_name = "N")]
    pub(crate) shard: Option<u32>,
}

impl JobArguments {
    /// What is wrong with the flags of Jobs.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.mirror.shards.shards.is_none() {
            problems.push(Problem::new("--shards N is required: how many pods transfer content"));
        }
        let to_registry = self.mirror.destinations.iter().any(|to| to.starts_with("docker://"));
        if self.image.is_none() && !to_registry && !self.mirror.destinations.is_empty() {
            problems.push(
                Problem::new("--image IMAGE is required: the container image that pods run")
                    .with_hint(
                        "docs/install.md describes how to push the image of a release to a registry",
                    ),
            );
        }
        if self.out.is_none() && !self.submit {
            problems.push(Problem::new("--out DIR or --submit is required: where the Jobs go"));
        }
        let from = self.mirror.from.as_deref().unwrap_or_default();
        let is_store = from.starts_with("s3://");
        let writes_claim = self.mirror.destinations.iter().any(|to| to.starts_with("file://"));
        match (&self.archives_claim, (from.is_empty() || is_store) && !writes_claim) {
            (None, false) if writes_claim => problems.push(
                Problem::new("a destination of file://DIR needs --archives-claim NAME: pods write the archive into a volume")
                    .with_hint("mount a volume that several nodes can write to at DIR; or use s3://BUCKET/PREFIX, or --shards without `job`"),
            ),
            (None, false) => problems.push(
                Problem::new("--from file://DIR needs --archives-claim NAME: pods read the archives from a volume")
                    .with_hint("put the archives into a volume that several nodes can read, or into an object store (--from s3://BUCKET/PREFIX)"),
            ),
            (Some(_), true) => problems.push(Problem::new(
                "--archives-claim has an effect only together with --from file://DIR or a destination of file://DIR: it is the volume that has this directory",
            )),
            _ => {}
        }
        let writes_store = self.mirror.destinations.iter().any(|to| to.starts_with("s3://"));
        for (flag, given) in [
            ("--store-secret", &self.store_secret),
            ("--store-role", &self.store_role),
            ("--store-ca", &self.store_ca),
        ] {
            if given.is_some() && !is_store && !writes_store {
                problems.push(Problem::new(format!(
                    "{flag} has an effect only together with s3://BUCKET"
                )));
            }
        }
        if (writes_store || writes_claim) && self.follow && self.out.is_some() {
            problems.push(Problem::new(
                "--out cannot be used with --follow for an archive: a command that follows completes the archive by itself, and a pod completes it otherwise",
            ));
        }
        if (writes_store || writes_claim) && !self.follow && self.mirror.sign_archive.is_some() {
            problems.push(Problem::new(
                "--sign-archive needs --submit --follow: pods do not have the key",
            ));
        }
        let (source, destination) = (&self.mirror.source, &self.mirror.destination);
        for (flag, given) in [
            ("--src-creds", source.creds.is_some()),
            ("--src-password", source.password.is_some()),
            ("--src-registry-token", source.registry_token.is_some()),
            ("--dest-creds", destination.creds.is_some()),
            ("--dest-password", destination.password.is_some()),
            ("--dest-registry-token", destination.registry_token.is_some()),
        ] {
            if given {
                problems.push(
                    Problem::new(format!(
                        "{flag} cannot be used with `job`: pods do not get secrets from flags"
                    ))
                    .with_hint("use --authfile here, and --auth-secret for the pods"),
                );
            }
        }
        problems
    }

    /// What pods are like. `line` is the command line, of which some flags apply to pods.
    pub(super) fn pods(
        &self,
        image: String,
        shards: NonZeroU32,
        line: &[OsString],
    ) -> anyhow::Result<PodSettings> {
        let parallelism = self.parallelism.unwrap_or_else(|| self.most_pods(shards)).min(shards);
        let mut arguments = vec![format!("--sharing={parallelism}")];
        arguments.extend(forwarded(line)?);
        Ok(PodSettings {
            namespace: self.namespace.clone(),
            image,
            auth_secret: self.auth_secret.clone(),
            src_ca_config_map: self.src_ca.clone(),
            dest_ca_config_map: self.dest_ca.clone(),
            parallelism,
            cpu: self.cpu.clone(),
            memory: self.memory.clone(),
            scratch: self.scratch.clone(),
            queue: self.queue.clone(),
            archives: self.archives(),
            arguments,
        })
    }
}

impl JobArguments {
    /// As many as shards, but not more than requests that a registry gets at the same time.
    fn most_pods(&self, shards: NonZeroU32) -> NonZeroU32 {
        let budgets = [Side::Source, Side::Destination];
        let budgets = budgets.into_iter().filter_map(|side| self.mirror.pace.requests(side));
        let budgets = budgets.filter_map(|budget| NonZeroU32::try_from(budget).ok());
        budgets.fold(shards, NonZeroU32::min)
    }

    /// Whether pods use an object store whose endpoint no flag names.
    pub(super) fn lacks_endpoint(&self) -> bool {
        matches!(self.archives(), Some(PodArchives::Store { .. }))
            && !self.mirror.store.has_endpoint()
    }

    /// Where pods read archives.
    fn archives(&self) -> Option<PodArchives> {
        if let Some(claim) = &self.archives_claim {
            let writes = self.mirror.destinations.iter().any(|to| to.starts_with("file://"));
            return Some(match writes {
                true => PodArchives::WritableClaim(claim.clone()),
                false => PodArchives::Claim(claim.clone()),
            });
        }
        let is_store = |text: &String| text.starts_with("s3://");
        let url = self.mirror.from.clone().filter(is_store);
        if url.is_none() && !self.mirror.destinations.iter().any(is_store) {
            return None;
        }
        Some(PodArchives::Store {
            url,
            secret: self.store_secret.clone(),
            role: self.store_role.clone(),
            ca_config_map: self.store_ca.clone(),
        })
    }
}

/// The flags of a command line that apply to pods, as they were given.
fn forwarded(line: &[OsString]) -> anyhow::Result<Vec<String>> {
    let command = command();
    let matches = command.clone().try_get_matches_from(line)?;
    let (Some(matches), Some(command)) =
        (matches.subcommand_matches("job"), command.find_subcommand("job"))
    else {
        return Ok(Vec::new());
    };
    let mut flags = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let (true, Some(long)) = (FOR_PODS.contains(&id), argument.get_long()) else { continue };
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        if !argument.get_action().takes_values() {
            flags.push(format!("--{long}"));
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            flags.push(format!("--{long}={}", value.to_string_lossy()));
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_get_the_flags_that_concern_transfers_and_no_others() {
        let line = "oc-mirror job -c isc.yaml --workspace file://d --shards 2 --image i --out o \
                    --dest-tls-verify=false --authfile secret.json --retry-times 3 --icsp docker://r";
        let line: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        let mut flags = forwarded(&line).unwrap();
        flags.sort();
        assert_eq!(flags, ["--dest-tls-verify=false", "--icsp=true", "--retry-times=3"]);
    }

    #[test]
    fn every_flag_for_pods_exists() {
        let command = command();
        let job = command.find_subcommand("job").unwrap();
        for id in FOR_PODS {
            assert!(job.get_arguments().any(|argument| argument.get_id() == id), "{id}");
        }
    }
}
