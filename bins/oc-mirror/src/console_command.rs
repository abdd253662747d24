//! `oc-mirror console`: a workspace in a browser.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use clap::{ArgAction, Args};
use mirror::CatalogLookup;
use registry::{CredentialSource, Side};
use tempfile::NamedTempFile;
use web_console::{
    Console, Lookups, RegistryFlags, Settings, SideFlags, Token, WorkspaceDirectory,
};

use crate::go_syntax;
use crate::interrupt::{self, Ended};
use crate::problem::chain;
use crate::request::ProcessEnvironment;
use crate::side_arguments::SideChoice;
use crate::{listener, route};

const ABOUT: &str = "\
The command prints an address with a token; open it in a browser on this machine. Select content,
edit configurations, start runs and watch them, and see images, archives and cluster resources,
on both sides of the air gap.

Examples:
  A workspace, in the browser of this machine:
    oc-mirror console file:///data --open
  For browsers on other machines, with TLS and a token of your own:
    oc-mirror console file:///data --listen 0.0.0.0:8443 --hostname mirror.example.com \\
      --tls-cert tls.crt --tls-key tls.key --token-file token

Runs are processes of their own: they continue when the console ends.";

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub(crate) struct ConsoleArguments {
    /// The workspace, archives, or an empty directory for a new workspace
    #[arg(value_name = "file://DIR", default_value = "file://.")]
    dir: String,
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8443")]
    listen: String,
    /// Open the console in the browser of this desktop
    #[arg(long)]
    open: bool,
    /// Certificate chain (PEM), for HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Read the token from this file, or create it with a random token [default: a new token at each start]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Name under which browsers reach this machine; may be repeated [default: the address of --listen]
    #[arg(long, value_name = "NAME", value_parser = hostname)]
    hostname: Vec<String>,
    /// Credentials file of podman or docker for the started runs [default: $REGISTRY_AUTH_FILE, else the default files of podman and docker]
    #[arg(long, value_name = "FILE")]
    authfile: Option<PathBuf>,
    /// Check certificates of source registries; false also allows plain HTTP
    #[arg(
        long,
        action = ArgAction::Set,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true",
        value_parser = go_syntax::parse_bool
    )]
    src_tls_verify: bool,
    /// Directory with CA (*.crt) and client certificates (*.cert, *.key) for source registries
    #[arg(long, value_name = "DIR")]
    src_cert_dir: Option<PathBuf>,
    /// Check certificates of target registries; false also allows plain HTTP
    #[arg(
        long,
        action = ArgAction::Set,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true",
        value_parser = go_syntax::parse_bool
    )]
    dest_tls_verify: bool,
    /// Directory with CA (*.crt) and client certificates (*.cert, *.key) for target registries
    #[arg(long, value_name = "DIR")]
    dest_cert_dir: Option<PathBuf>,
}

impl ConsoleArguments {
    /// What is passed on to the runs that are started. Paths are made absolute: they are printed,
    /// and copied to other terminals.
    fn registries(&self) -> anyhow::Result<RegistryFlags> {
        let absolute = |path: &Option<PathBuf>| match path {
            Some(path) if !path.as_os_str().is_empty() => std::path::absolute(path).map(Some),
            _ => Ok(None),
        };
        let side = |verify: bool, folder: &Option<PathBuf>| {
            io::Result::Ok(SideFlags { is_insecure: !verify, cert_dir: absolute(folder)? })
        };
        Ok(RegistryFlags {
            authfile: absolute(&self.authfile)?,
            source: side(self.src_tls_verify, &self.src_cert_dir)?,
            destination: side(self.dest_tls_verify, &self.dest_cert_dir)?,
        })
    }
}

/// Opens catalogs by the flags of the console.
#[derive(Debug)]
struct ProgramLookups {
    settings: registry::Settings,
}

impl ProgramLookups {
    fn new(flags: &RegistryFlags, process: &ProcessEnvironment) -> Self {
        let choice = SideChoice {
            tls_verify: !flags.source.is_insecure,
            credentials: match &flags.authfile {
                Some(file) => CredentialSource::File(file.clone()),
                None => CredentialSource::Search,
            },
            cert_dir: flags.source.cert_dir.clone(),
        };
        Self { settings: choice.settings(Side::Source, process) }
    }
}

impl Lookups for ProgramLookups {
    fn catalogs(&self, carried: Option<&Path>) -> Result<CatalogLookup, String> {
        let lookup = match carried {
            Some(directory) => CatalogLookup::held(directory),
            None => CatalogLookup::remote(self.settings.clone()),
        };
        lookup.map_err(|error| chain(&error))
    }
}

/// Serves until a signal ends it.
pub(crate) fn console(arguments: &ConsoleArguments, process: &ProcessEnvironment) -> ExitCode {
    match try_console(arguments, process) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_console(arguments: &ConsoleArguments, process: &ProcessEnvironment) -> anyhow::Result<()> {
    let directory =
        route::served_directory(&arguments.dir).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let place = WorkspaceDirectory::open(&directory)?;
    let address = listener::address(&arguments.listen)?;
    let tls = listener::tls(arguments.tls_cert.as_deref(), arguments.tls_key.as_deref())?;
    let token = match &arguments.token_file {
        Some(path) => Token::of_file(path)?,
        None => Token::random()?,
    };
    let hostnames = arguments.hostname.clone();
    let program = std::env::current_exe().context("finding this program")?;
    let registries = arguments.registries()?;
    let lookups = Arc::new(ProgramLookups::new(&registries, process));
    let settings = Settings { place, address, hostnames, tls, token, program, registries, lookups };
    let runtime = crate::runtime().context("starting threads")?;
    let ended = runtime.block_on(async {
        let console = Console::bind(settings, arguments.token_file.is_some()).await?;
        // A result: scripts read it from standard output. The log does not contain the token.
        command_line::write_result(format!("{}\n", console.url()).as_bytes())?;
        tracing::info!("showing {}; end with Ctrl-C", directory.display());
        let page = match arguments.open {
            true => open(console.url()),
            false => None,
        };
        let ended =
            interrupt::until_ended(|cancel| console.run(async move { cancel.cancelled().await }))
                .await
                .context("waiting for signals")?;
        drop(page);
        anyhow::Ok(ended)
    })?;
    runtime.shutdown_background();
    match ended {
        Ended::Result(()) | Ended::Abandoned => Ok(()),
    }
}

fn hostname(text: &str) -> Result<String, String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    match !text.is_empty() && text.chars().all(is_part) {
        true => Ok(text.to_owned()),
        false => Err("expected a host name without port, such as mirror.example.com".to_owned()),
    }
}

/// Opens a browser. It gets a file that leads to the address: arguments of processes, and with
/// them the token, are visible to other users. The file is removed when the result is dropped.
fn open(url: &str) -> Option<NamedTempFile> {
    match try_open(url) {
        Ok(page) => Some(page),
        Err(error) => {
            tracing::warn!("opening a browser: {error}; open the printed address yourself");
            None
        }
    }
}

fn try_open(url: &str) -> io::Result<NamedTempFile> {
    // The address consists of a host name, a port and letters of a token: nothing to escape.
    let text = format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><title>oc-mirror console</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={url}\"><a href=\"{url}\">oc-mirror console</a>\n"
    );
    let mut page = tempfile::Builder::new().prefix("oc-mirror-").suffix(".html").tempfile()?;
    page.write_all(text.as_bytes())?;
    page.flush()?;
    let mut browser = Command::new("xdg-open");
    browser.arg(page.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut started = browser.spawn()?;
    std::thread::spawn(move || started.wait());
    Ok(page)
}
