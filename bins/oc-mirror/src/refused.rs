//! Flags of oc-mirror that this program rejects. Each is known, so that a
//! script gets the reason instead of "unexpected argument". Flags that can be
//! ignored safely are in `ignored`.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::problem::Problem;

/// What a rejected flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagKind {
    Switch,
    Value,
}

/// One flag that is rejected, and why.
#[derive(Debug)]
pub(crate) struct RefusedFlag {
    pub(crate) long: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) takes: FlagKind,
    /// A sentence for the user. `docs/differences.md` repeats it.
    pub(crate) reason: &'static str,
}

const NO_RECOMPRESSION: &str =
    "layers are never recompressed: that would change their digests and break signatures";
const NO_LAYOUT_DESTINATION: &str = "an OCI layout with a shared blob directory is neither read nor written; the workspace shares blobs by itself";
const NO_DAEMON: &str = "images are never read from or written to a container daemon";
const NO_PROFILE: &str = "use `perf record` for profiles; the report has times, bytes and requests";

const fn switch(long: &'static str, reason: &'static str) -> RefusedFlag {
    RefusedFlag { long, short: None, takes: FlagKind::Switch, reason }
}

const fn value(long: &'static str, reason: &'static str) -> RefusedFlag {
    RefusedFlag { long, short: None, takes: FlagKind::Value, reason }
}

/// Every flag that is rejected.
pub(crate) const FLAGS: &[RefusedFlag] = &[
    switch(
        "v1",
        "this program replaces `oc-mirror --v2` and does not contain version 1; docs/migrating-from-v1.md describes how to convert a version 1 setup",
    ),
    RefusedFlag {
        short: Some('f'),
        ..switch("force", "it never had an effect, and there is nothing to force here")
    },
    value(
        "rootless-storage-path",
        "it never had an effect; no container storage is used, and no privileges are needed",
    ),
    switch("tls-verify", "name the side: --src-tls-verify or --dest-tls-verify"),
    switch("cpu-prof", NO_PROFILE),
    switch("mem-prof", NO_PROFILE),
    value("src-shared-blob-dir", NO_LAYOUT_DESTINATION),
    value("dest-shared-blob-dir", NO_LAYOUT_DESTINATION),
    value("src-daemon-host", NO_DAEMON),
    value("dest-daemon-host", NO_DAEMON),
    switch("dest-compress", NO_RECOMPRESSION),
    switch("dest-decompress", NO_RECOMPRESSION),
    value("dest-compress-format", NO_RECOMPRESSION),
    value("dest-compress-level", NO_RECOMPRESSION),
];

/// The rejected flags that were given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refused {
    given: Vec<&'static str>,
}

impl Refused {
    /// One problem per flag given.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        FLAGS
            .iter()
            .filter(|flag| self.given.contains(&flag.long))
            .map(|flag| Problem::new(format!("--{} is not supported: {}", flag.long, flag.reason)))
            .collect()
    }
}

impl FromArgMatches for Refused {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        // A flag that requests what is done anyway (`--force=false`) is accepted.
        let is_requested = |flag: &RefusedFlag| match flag.takes {
            // Verification stays on unless a side is named, so both values have a meaning.
            FlagKind::Switch if flag.long == "tls-verify" => {
                matches.value_source(flag.long) == Some(clap::parser::ValueSource::CommandLine)
            }
            FlagKind::Switch => matches.get_flag(flag.long),
            FlagKind::Value => {
                matches.get_one::<String>(flag.long).is_some_and(|value| !value.is_empty())
            }
        };
        Ok(Self {
            given: FLAGS.iter().filter(|flag| is_requested(flag)).map(|flag| flag.long).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Refused {
    fn augment_args(command: Command) -> Command {
        command.args(FLAGS.iter().map(|flag| {
            let arg = Arg::new(flag.long).long(flag.long).hide(true);
            let arg = match flag.short {
                Some(short) => arg.short(short),
                None => arg,
            };
            match flag.takes {
                FlagKind::Switch => arg.action(ArgAction::SetTrue),
                FlagKind::Value => arg.action(ArgAction::Set),
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
