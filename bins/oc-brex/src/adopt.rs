//! `oc-brex adopt`.

use std::path::PathBuf;

use anyhow::Result;
use br_ex::day2::{self, Adoption};
use clap::Args;
use command_line::{Ending, print, say};
use machine_config::Role;

use crate::{decode, reading, writing};

const EXAMPLES: &str = "\
Example:
  oc get machineconfig -o yaml > mc.yaml
  oc get nns -o yaml > nns.yaml
  oc-brex adopt --mc mc.yaml --nns nns.yaml --out policies
  oc apply --server-side -f policies";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// MachineConfigs of the cluster, or the ones with documents; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    mc: Vec<PathBuf>,
    /// NodeNetworkStates of the nodes to adopt; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    nns: Vec<PathBuf>,
    /// Role of the nodes that have no document of their own
    #[arg(long, value_name = "ROLE")]
    role: Option<Role>,
    /// Folder to write the policies to; without it they are printed
    #[arg(long, short_alias = 'o', value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes a policy for each node that describes it without changing anything.
pub(crate) fn adopt(arguments: &Arguments) -> Result<Ending> {
    let configs = decode::read(&arguments.mc)?;
    let mut ending = Ending::Good;
    for path in &arguments.nns {
        for node in reading::states(path)? {
            let Adoption { policy, origin } =
                match day2::adopt(&node, &configs, arguments.role.as_ref()) {
                    Ok(adoption) => adoption,
                    Err(error) => {
                        say(&format!("error: {:#}", anyhow::Error::new(error)));
                        ending = Ending::Findings;
                        continue;
                    }
                };
            say(&format!(
                "{}: {origin}; the policy changes nothing there, by nmstate's own comparison",
                node.name.as_deref().unwrap_or_default(),
            ));
            match &arguments.out {
                Some(folder) => {
                    let name = format!("{}.yaml", policy.name);
                    let path = writing::file(folder, &name, policy.to_yaml()?)?;
                    print(format!("{}\n", path.display()))?;
                }
                None => print(format!("---\n{}", policy.to_yaml()?))?,
            }
        }
    }
    Ok(ending)
}
