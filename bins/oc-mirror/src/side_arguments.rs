//! Flags that concern one side, source or destination. The two never mix.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use registry::{CredentialSource, Side};

use crate::go_syntax;
use crate::problem::Problem;
use crate::request::ProcessEnvironment;
use crate::secret::Secret;

const SOURCE: &str = "Source registries";
const DESTINATION: &str = "Destination registry";

#[derive(Debug, Clone, Args)]
pub(crate) struct SourceArguments {
    /// Verify certificates; false also allows plain HTTP
    #[arg(
        id = "src_tls_verify",
        long = "src-tls-verify",
        action = ArgAction::Set,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true",
        value_parser = go_syntax::parse_bool,
        help_heading = SOURCE
    )]
    pub(crate) tls_verify: bool,
    /// Credentials file, instead of --authfile
    #[arg(id = "src_authfile", long = "src-authfile", value_name = "FILE", help_heading = SOURCE)]
    pub(crate) authfile: Option<PathBuf>,
    /// User name and password
    #[arg(
        id = "src_creds",
        long = "src-creds",
        alias = "screds",
        value_name = "USER:PASSWORD",
        help_heading = SOURCE
    )]
    pub(crate) creds: Option<Secret>,
    /// User name
    #[arg(id = "src_username", long = "src-username", value_name = "USER", help_heading = SOURCE)]
    pub(crate) username: Option<String>,
    /// Password
    #[arg(
        id = "src_password",
        long = "src-password",
        value_name = "PASSWORD",
        help_heading = SOURCE
    )]
    pub(crate) password: Option<Secret>,
    /// Bearer token
    #[arg(
        id = "src_registry_token",
        long = "src-registry-token",
        value_name = "TOKEN",
        help_heading = SOURCE
    )]
    pub(crate) registry_token: Option<Secret>,
    /// Directory with CA (*.crt) and client certificates (*.cert, *.key)
    #[arg(id = "src_cert_dir", long = "src-cert-dir", value_name = "DIR", help_heading = SOURCE)]
    pub(crate) cert_dir: Option<PathBuf>,
    /// Do not use credentials
    #[arg(id = "src_no_creds", long = "src-no-creds", help_heading = SOURCE)]
    pub(crate) no_creds: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DestinationArguments {
    /// Verify certificates; false also allows plain HTTP
    #[arg(
        id = "dest_tls_verify",
        long = "dest-tls-verify",
        action = ArgAction::Set,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true",
        value_parser = go_syntax::parse_bool,
        help_heading = DESTINATION
    )]
    pub(crate) tls_verify: bool,
    /// Credentials file, instead of --authfile
    #[arg(
        id = "dest_authfile",
        long = "dest-authfile",
        value_name = "FILE",
        help_heading = DESTINATION
    )]
    pub(crate) authfile: Option<PathBuf>,
    /// User name and password
    #[arg(
        id = "dest_creds",
        long = "dest-creds",
        alias = "dcreds",
        value_name = "USER:PASSWORD",
        help_heading = DESTINATION
    )]
    pub(crate) creds: Option<Secret>,
    /// User name
    #[arg(
        id = "dest_username",
        long = "dest-username",
        value_name = "USER",
        help_heading = DESTINATION
    )]
    pub(crate) username: Option<String>,
    /// Password
    #[arg(
        id = "dest_password",
        long = "dest-password",
        value_name = "PASSWORD",
        help_heading = DESTINATION
    )]
    pub(crate) password: Option<Secret>,
    /// Bearer token
    #[arg(
        id = "dest_registry_token",
        long = "dest-registry-token",
        value_name = "TOKEN",
        help_heading = DESTINATION
    )]
    pub(crate) registry_token: Option<Secret>,
    /// Directory with CA (*.crt) and client certificates (*.cert, *.key)
    #[arg(
        id = "dest_cert_dir",
        long = "dest-cert-dir",
        value_name = "DIR",
        help_heading = DESTINATION
    )]
    pub(crate) cert_dir: Option<PathBuf>,
    /// Do not use credentials
    #[arg(id = "dest_no_creds", long = "dest-no-creds", help_heading = DESTINATION)]
    pub(crate) no_creds: bool,
    /// No effect; accepted for compatibility
    #[arg(long = "dest-precompute-digests", hide = true)]
    pub(crate) dest_precompute_digests: bool,
    /// No effect; accepted for compatibility
    #[arg(long = "dest-oci-accept-uncompressed-layers", hide = true)]
    pub(crate) dest_oci_accept_uncompressed_layers: bool,
}

/// Validated settings of one side.
#[derive(Debug, Clone)]
pub(crate) struct SideChoice {
    pub(crate) tls_verify: bool,
    pub(crate) credentials: CredentialSource,
    pub(crate) cert_dir: Option<PathBuf>,
}

impl SideChoice {
    /// Settings of a client for this side. Whatever its flags do not concern is as by default.
    pub(crate) fn settings(self, side: Side, process: &ProcessEnvironment) -> registry::Settings {
        registry::Settings {
            tls_verify: self.tls_verify,
            credentials: self.credentials,
            cert_dir: self.cert_dir,
            user_agent: format!("oc-mirror/{}", crate::version::NUMBER),
            ..registry::Settings::new(process.registries.clone(), side)
        }
    }
}

/// The flags of a side as given, under the names both sides share.
struct Given<'a> {
    prefix: &'static str,
    authfile: Option<&'a PathBuf>,
    creds: Option<&'a Secret>,
    username: Option<&'a String>,
    password: Option<&'a Secret>,
    token: Option<&'a Secret>,
    no_creds: bool,
}

impl SourceArguments {
    /// Checks the flags; `authfile` is what both sides use unless told otherwise.
    pub(crate) fn side(&self, authfile: Option<&PathBuf>) -> Result<SideChoice, Vec<Problem>> {
        let credentials = Given {
            prefix: "src",
            authfile: self.authfile.as_ref(),
            creds: self.creds.as_ref(),
            username: self.username.as_ref(),
            password: self.password.as_ref(),
            token: self.registry_token.as_ref(),
            no_creds: self.no_creds,
        }
        .credentials(authfile)?;
        Ok(SideChoice { tls_verify: self.tls_verify, credentials, cert_dir: self.cert_dir.clone() })
    }
}

impl DestinationArguments {
    /// Checks the flags; `authfile` is what both sides use unless told otherwise.
    pub(crate) fn side(&self, authfile: Option<&PathBuf>) -> Result<SideChoice, Vec<Problem>> {
        let credentials = Given {
            prefix: "dest",
            authfile: self.authfile.as_ref(),
            creds: self.creds.as_ref(),
            username: self.username.as_ref(),
            password: self.password.as_ref(),
            token: self.registry_token.as_ref(),
            no_creds: self.no_creds,
        }
        .credentials(authfile)?;
        Ok(SideChoice { tls_verify: self.tls_verify, credentials, cert_dir: self.cert_dir.clone() })
    }
}

impl Given<'_> {
    fn credentials(&self, shared: Option<&PathBuf>) -> Result<CredentialSource, Vec<Problem>> {
        let side = self.prefix;
        let names = [
            ("creds", self.creds.is_some()),
            ("username", self.username.is_some() || self.password.is_some()),
            ("registry-token", self.token.is_some()),
            ("no-creds", self.no_creds),
        ];
        let given: Vec<&str> =
            names.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
        let mut problems: Vec<Problem> = given
            .windows(2)
            .map(|pair| {
                let (one, other) = (pair[0], pair[1]);
                Problem::new(format!(
                    "--{side}-{one} and --{side}-{other} cannot be used together: give one"
                ))
            })
            .collect();
        match (self.username, self.password) {
            (Some(_), None) => problems.push(Problem::new(format!(
                "--{side}-username needs --{side}-password: the password is missing"
            ))),
            (None, Some(_)) => problems.push(Problem::new(format!(
                "--{side}-password needs --{side}-username: the user name is missing"
            ))),
            _ => {}
        }
        let pair = self.creds.map(|creds| CredentialSource::from_pair(creds.reveal()));
        if let Some(None) = pair {
            // The text is not repeated: it may be a password.
            problems.push(Problem::new(format!("--{side}-creds must be USER:PASSWORD")));
        }
        if self.token.is_some_and(Secret::is_empty) {
            problems.push(Problem::new(format!("--{side}-registry-token is empty")));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        if self.no_creds {
            return Ok(CredentialSource::Anonymous);
        }
        if let Some(token) = self.token {
            return Ok(CredentialSource::Token(token.reveal().to_owned()));
        }
        if let Some(pair) = pair.flatten() {
            return Ok(pair);
        }
        if let (Some(name), Some(password)) = (self.username, self.password) {
            let password = password.reveal().to_owned();
            return Ok(CredentialSource::User { name: name.clone(), password });
        }
        Ok(match self.authfile.or(shared) {
            Some(file) => CredentialSource::File(file.clone()),
            None => CredentialSource::Search,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::arguments::Arguments;

    use super::*;

    fn read(flags: &str) -> Arguments {
        let line = ["oc-mirror"].into_iter().chain(flags.split_whitespace());
        Arguments::read(line.map(Into::into)).unwrap()
    }

    fn problems(flags: &str) -> Vec<String> {
        let arguments = read(flags);
        let source = arguments.mirror.source.side(None).err();
        let destination = arguments.mirror.destination.side(None).err();
        source.into_iter().chain(destination).flatten().map(|p| p.message).collect()
    }

    #[test]
    fn credentials_that_contradict_each_other_are_refused() {
        for (flags, wanted) in [
            ("--src-creds a:b --src-no-creds", "--src-creds and --src-no-creds cannot"),
            (
                "--dest-username a --dest-password b --dest-no-creds",
                "--dest-username and --dest-no-creds cannot",
            ),
            (
                "--dcreds a:b --dest-username a --dest-password b",
                "--dest-creds and --dest-username cannot",
            ),
            ("--src-username a", "--src-username needs --src-password"),
            ("--src-password a", "--src-password needs --src-username"),
            ("--screds :b", "--src-creds must be USER:PASSWORD"),
            ("--src-registry-token x --src-creds a:b", "--src-creds and --src-registry-token"),
        ] {
            let found = problems(flags);
            assert_eq!(found.len(), 1, "{flags}: {found:?}");
            assert!(found[0].contains(wanted), "{flags}: {found:?}");
        }
    }

    #[test]
    fn a_password_may_hold_colons_and_is_never_shown() {
        let arguments = read("--src-creds me:s3:cret --dest-registry-token t0ken");
        let source = arguments.mirror.source.side(None).unwrap();
        let destination = arguments.mirror.destination.side(None).unwrap();
        assert!(matches!(
            &source.credentials,
            CredentialSource::User { name, password } if name == "me" && password == "s3:cret"
        ));
        assert!(matches!(&destination.credentials, CredentialSource::Token(t) if t == "t0ken"));
        let shown = format!("{arguments:?} {source:?} {destination:?}");
        assert!(!shown.contains("cret") && !shown.contains("t0ken"), "{shown}");
    }

    #[test]
    fn one_side_never_leaks_into_the_other() {
        let arguments = read("--dest-tls-verify=false --dest-cert-dir /c --dest-creds a:b");
        let source = arguments.mirror.source.side(None).unwrap();
        assert!(source.tls_verify);
        assert_eq!(source.cert_dir, None);
        assert!(matches!(source.credentials, CredentialSource::Search));
        let destination = arguments.mirror.destination.side(None).unwrap();
        assert!(!destination.tls_verify);
        assert_eq!(destination.cert_dir, Some(PathBuf::from("/c")));
    }

    #[test]
    fn a_sides_own_authfile_wins_over_the_shared_one() {
        let arguments = read("--src-authfile /own");
        let shared = PathBuf::from("/shared");
        let is = |choice: &SideChoice, path: &str| matches!(&choice.credentials, CredentialSource::File(file) if file == &PathBuf::from(path));
        assert!(is(&arguments.mirror.source.side(Some(&shared)).unwrap(), "/own"));
        assert!(is(&arguments.mirror.destination.side(Some(&shared)).unwrap(), "/shared"));
    }
}
