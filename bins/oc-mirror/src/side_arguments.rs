//! Flags for the registries of one side, source or destination.

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use registry::{CredentialSource, Side};

use crate::go_syntax;
use crate::problem::Problem;
use crate::request::ProcessEnvironment;
use crate::secret::Secret;

/// A flag: its id among the arguments, and its name without the dashes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    id: &'static str,
    long: &'static str,
}

/// How the flags of a side are called and described.
#[derive(Debug)]
pub(crate) struct SideFlagNames {
    prefix: &'static str,
    heading: &'static str,
    is_hidden: bool,
    /// A second name of `creds`, as in oc-mirror v2.
    creds_alias: &'static str,
    /// Switches that are accepted and have no effect.
    without_effect: &'static [&'static str],
    tls_verify: Flag,
    authfile: Flag,
    creds: Flag,
    username: Flag,
    password: Flag,
    registry_token: Flag,
    cert_dir: Flag,
    no_creds: Flag,
}

/// [`SideFlagNames`] whose names begin with this prefix. A macro, because clap needs names that are known
/// at compile time.
macro_rules! side_flags {
    ($prefix:literal, $heading:literal) => {
        SideFlagNames {
            prefix: $prefix,
            heading: $heading,
            is_hidden: false,
            creds_alias: "",
            without_effect: &[],
            tls_verify: side_flags!(@ $prefix, "_tls_verify", "-tls-verify"),
            authfile: side_flags!(@ $prefix, "_authfile", "-authfile"),
            creds: side_flags!(@ $prefix, "_creds", "-creds"),
            username: side_flags!(@ $prefix, "_username", "-username"),
            password: side_flags!(@ $prefix, "_password", "-password"),
            registry_token: side_flags!(@ $prefix, "_registry_token", "-registry-token"),
            cert_dir: side_flags!(@ $prefix, "_cert_dir", "-cert-dir"),
            no_creds: side_flags!(@ $prefix, "_no_creds", "-no-creds"),
        }
    };
    (@ $prefix:literal, $id:literal, $long:literal) => {
        Flag { id: concat!($prefix, $id), long: concat!($prefix, $long) }
    };
}

/// One of the two sides, as a type: flags of one are never read as those of the other.
pub(crate) trait RegistrySide {
    const FLAGS: &'static SideFlagNames;
}

#[derive(Debug, Clone)]
pub(crate) struct Source;

#[derive(Debug, Clone)]
pub(crate) struct Destination;

/// The source of commands that read nothing from it. Its flags are accepted, as by oc-mirror v2.
#[derive(Debug, Clone)]
pub(crate) struct UnusedSource;

impl RegistrySide for Source {
    const FLAGS: &'static SideFlagNames =
        &SideFlagNames { creds_alias: "screds", ..side_flags!("src", "Source registries") };
}

impl RegistrySide for Destination {
    const FLAGS: &'static SideFlagNames = &SideFlagNames {
        creds_alias: "dcreds",
        without_effect: &["dest-precompute-digests", "dest-oci-accept-uncompressed-layers"],
        ..side_flags!("dest", "Destination registry")
    };
}

impl RegistrySide for UnusedSource {
    const FLAGS: &'static SideFlagNames = &SideFlagNames { is_hidden: true, ..*Source::FLAGS };
}

pub(crate) type SourceArguments = SideArguments<Source>;
pub(crate) type DestinationArguments = SideArguments<Destination>;

/// The flags of one side.
#[derive(Debug, Clone)]
pub(crate) struct SideArguments<S> {
    pub(crate) tls_verify: bool,
    authfile: Option<PathBuf>,
    pub(crate) creds: Option<Secret>,
    username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) registry_token: Option<Secret>,
    pub(crate) cert_dir: Option<PathBuf>,
    no_creds: bool,
    side: PhantomData<S>,
}

impl<S: RegistrySide> Args for SideArguments<S> {
    fn augment_args(command: Command) -> Command {
        command.args(S::FLAGS.arguments())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: RegistrySide> FromArgMatches for SideArguments<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = S::FLAGS;
        let path = |flag: Flag| matches.get_one::<PathBuf>(flag.id).cloned();
        let secret = |flag: Flag| matches.get_one::<Secret>(flag.id).cloned();
        Ok(Self {
            tls_verify: matches.get_flag(flags.tls_verify.id),
            authfile: path(flags.authfile),
            creds: secret(flags.creds),
            username: matches.get_one::<String>(flags.username.id).cloned(),
            password: secret(flags.password),
            registry_token: secret(flags.registry_token),
            cert_dir: path(flags.cert_dir),
            no_creds: matches.get_flag(flags.no_creds.id),
            side: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl SideFlagNames {
    fn arguments(&self) -> Vec<Arg> {
        let flag = |flag: Flag, help: &'static str| {
            Arg::new(flag.id)
                .long(flag.long)
                .help(help)
                .help_heading(self.heading)
                .hide(self.is_hidden)
        };
        let value = |name: Flag, value: &'static str, help: &'static str| {
            flag(name, help).action(ArgAction::Set).value_name(value)
        };
        let mut arguments = vec![
            value(self.tls_verify, "BOOL", "Verify certificates; false also allows plain HTTP")
                .num_args(0..=1)
                .require_equals(true)
                .default_value("true")
                .default_missing_value("true")
                .value_parser(go_syntax::parse_bool),
            value(self.authfile, "FILE", "Credentials file, instead of --authfile")
                .value_parser(value_parser!(PathBuf)),
            value(self.creds, "USER:PASSWORD", "User name and password")
                .alias(self.creds_alias)
                .value_parser(value_parser!(Secret)),
            value(self.username, "USER", "User name"),
            value(self.password, "PASSWORD", "Password").value_parser(value_parser!(Secret)),
            value(self.registry_token, "TOKEN", "Bearer token").value_parser(value_parser!(Secret)),
            value(
                self.cert_dir,
                "DIR",
                "Directory with CA (*.crt) and client certificates (*.cert, *.key)",
            )
            .value_parser(value_parser!(PathBuf)),
            flag(self.no_creds, "Do not use credentials").action(ArgAction::SetTrue),
        ];
        arguments.extend(self.without_effect.iter().map(|name| {
            Arg::new(*name)
                .long(*name)
                .help("No effect; accepted for compatibility")
                .hide(true)
                .action(ArgAction::SetTrue)
        }));
        arguments
    }
}

/// The checked flags of one side.
#[derive(Debug, Clone)]
pub(crate) struct SideChoice {
    pub(crate) tls_verify: bool,
    pub(crate) credentials: CredentialSource,
    pub(crate) cert_dir: Option<PathBuf>,
}

impl SideChoice {
    /// Settings of a client for this side. Other settings have their defaults.
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

impl<S: RegistrySide> SideArguments<S> {
    /// Checks the flags. `authfile` is that of both sides, which a side's own overrides.
    pub(crate) fn side(&self, authfile: Option<&PathBuf>) -> Result<SideChoice, Vec<Problem>> {
        let credentials = self.credentials(authfile)?;
        Ok(SideChoice { tls_verify: self.tls_verify, credentials, cert_dir: self.cert_dir.clone() })
    }

    fn credentials(&self, shared: Option<&PathBuf>) -> Result<CredentialSource, Vec<Problem>> {
        let side = S::FLAGS.prefix;
        let names = [
            ("creds", self.creds.is_some()),
            ("username", self.username.is_some() || self.password.is_some()),
            ("registry-token", self.registry_token.is_some()),
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
        match (&self.username, &self.password) {
            (Some(_), None) => problems.push(Problem::new(format!(
                "--{side}-username needs --{side}-password: the password is missing"
            ))),
            (None, Some(_)) => problems.push(Problem::new(format!(
                "--{side}-password needs --{side}-username: the user name is missing"
            ))),
            _ => {}
        }
        let pair = self.creds.as_ref().map(|creds| CredentialSource::from_pair(creds.reveal()));
        if let Some(None) = pair {
            // The text is not repeated: it may be a password.
            problems.push(Problem::new(format!("--{side}-creds must be USER:PASSWORD")));
        }
        if self.registry_token.as_ref().is_some_and(Secret::is_empty) {
            problems.push(Problem::new(format!("--{side}-registry-token is empty")));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        if self.no_creds {
            return Ok(CredentialSource::Anonymous);
        }
        if let Some(token) = &self.registry_token {
            return Ok(CredentialSource::Token(token.reveal().to_owned()));
        }
        if let Some(pair) = pair.flatten() {
            return Ok(pair);
        }
        if let (Some(name), Some(password)) = (&self.username, &self.password) {
            let password = password.reveal().to_owned();
            return Ok(CredentialSource::User { name: name.clone(), password });
        }
        Ok(match self.authfile.as_ref().or(shared) {
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
        for (flags, expected) in [
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
            assert!(found[0].contains(expected), "{flags}: {found:?}");
        }
    }

    #[test]
    fn a_password_may_contain_colons_and_is_never_printed() {
        let arguments = read("--src-creds me:s3:cret --dest-registry-token t0ken");
        let source = arguments.mirror.source.side(None).unwrap();
        let destination = arguments.mirror.destination.side(None).unwrap();
        assert!(matches!(
            &source.credentials,
            CredentialSource::User { name, password } if name == "me" && password == "s3:cret"
        ));
        assert!(matches!(&destination.credentials, CredentialSource::Token(t) if t == "t0ken"));
        let printed = format!("{arguments:?} {source:?} {destination:?}");
        assert!(!printed.contains("cret") && !printed.contains("t0ken"), "{printed}");
    }

    #[test]
    fn flags_of_one_side_do_not_apply_to_the_other() {
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
