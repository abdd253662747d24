use std::collections::BTreeSet;

use clap::Arg;

use super::*;
use crate::refused;

/// Every flag of today's oc-mirror v2, by its long name, as its help and source list them.
const TODAYS_FLAGS: &[&str] = &[
    "config",
    "cache-dir",
    "log-level",
    "workspace",
    "port",
    "parallel-images",
    "parallel-layers",
    "registries.d",
    "policy",
    "authfile",
    "retry-times",
    "retry-delay",
    "src-tls-verify",
    "dest-tls-verify",
    "cpu-prof",
    "mem-prof",
    "v2",
    "v1",
    "src-authfile",
    "src-creds",
    "screds",
    "src-username",
    "src-password",
    "src-registry-token",
    "src-cert-dir",
    "src-no-creds",
    "src-shared-blob-dir",
    "src-daemon-host",
    "dest-authfile",
    "dest-creds",
    "dcreds",
    "dest-username",
    "dest-password",
    "dest-registry-token",
    "dest-cert-dir",
    "dest-no-creds",
    "dest-shared-blob-dir",
    "dest-daemon-host",
    "dest-compress",
    "dest-decompress",
    "dest-compress-format",
    "dest-compress-level",
    "dest-oci-accept-uncompressed-layers",
    "dest-precompute-digests",
    "tls-verify",
    "from",
    "dry-run",
    "dry-run-manifest-lists",
    "since",
    "image-timeout",
    "max-nested-paths",
    "strict-archive",
    "secure-policy",
    "remove-signatures",
    "ignore-release-signature",
    "rootless-storage-path",
    "quiet",
    "force",
    "version",
    "help",
];

/// Flags that only this program has.
const OUR_FLAGS: &[&str] = &[
    "allow-incomplete",
    "archive-format",
    "archive-partial",
    "dest-limit-rate",
    "dest-limit-requests",
    "dest-profile",
    "helm-binary",
    "icsp",
    "limit-rate",
    "metrics-file",
    "no-archive",
    "output",
    "plan",
    "refresh-signatures",
    "remove-archives-before",
    "s3-ca",
    "s3-endpoint",
    "s3-region",
    "s3-virtual-hosted",
    "shard-digest",
    "shard-index",
    "shard-part",
    "shard-repeated",
    "shards",
    "sign-archive",
    "skip-broken-bundles",
    "src-limit-rate",
    "src-limit-requests",
    "stall-timeout",
    "strict-compat",
    "strict-dry-run",
    "through-workspace",
    "timetable",
    "timezone",
    "until",
    "verify-archive",
    "wait",
];

/// Short names of today's oc-mirror v2.
const TODAYS_SHORT_FLAGS: &str = "cpqfvh";

/// Short names that only this program has.
const OUR_SHORT_FLAGS: &str = "o";

fn read(line: &str) -> Result<Arguments, clap::Error> {
    let words = ["oc-mirror"].into_iter().chain(line.split_whitespace());
    Arguments::read(words.map(Into::into))
}

#[test]
fn the_definition_of_the_command_is_sound() {
    command().debug_assert();
}

#[test]
fn the_cache_is_in_the_help_of_commands_that_read_it_and_accepted_by_all() {
    fn visit(command: &mut clap::Command, path: &str, found: &mut Vec<String>) {
        if command.render_long_help().to_string().contains("--cache-dir") {
            found.push(path.to_owned());
        }
        for below in command.get_subcommands_mut() {
            let path = format!("{path} {}", below.get_name());
            visit(below, &path, found);
        }
    }
    let mut command = command();
    command.build();
    let mut found = Vec::new();
    visit(&mut command, "oc-mirror", &mut found);
    assert_eq!(found, ["oc-mirror", "oc-mirror migrate"]);
    for line in
        ["list releases --cache-dir /c", "--cache-dir /c version", "gc --cache-dir /c file://data"]
    {
        let cache = read(line).unwrap().ignored.cache_dir;
        assert_eq!(cache.as_deref(), Some("/c"), "{line}");
    }
}

#[test]
fn every_flag_of_today_is_known_exactly_once_and_no_other_is() {
    let mut command = command();
    command.build();
    let mut known: Vec<String> = Vec::new();
    for arg in command.get_arguments() {
        known.extend(arg.get_long_and_visible_aliases().into_iter().flatten().map(str::to_owned));
        known.extend(arg.get_all_aliases().into_iter().flatten().map(str::to_owned));
    }
    let unique: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    assert_eq!(unique.len(), known.len(), "a flag is defined twice: {known:?}");
    let due: BTreeSet<&str> = TODAYS_FLAGS.iter().chain(OUR_FLAGS).copied().collect();
    assert_eq!(due.len(), TODAYS_FLAGS.len() + OUR_FLAGS.len());
    assert_eq!(unique, due);

    let shorts: BTreeSet<char> = command.get_arguments().filter_map(Arg::get_short).collect();
    assert_eq!(shorts, TODAYS_SHORT_FLAGS.chars().chain(OUR_SHORT_FLAGS.chars()).collect());
}

#[test]
fn a_refused_flag_is_reported_with_its_name_and_the_reason() {
    for flag in refused::FLAGS {
        let line = match flag.takes {
            refused::FlagKind::Switch => format!("--{}", flag.long),
            refused::FlagKind::Value => format!("--{} x", flag.long),
        };
        let problems = read(&line).unwrap().mirror.refused.problems();
        assert_eq!(problems.len(), 1, "{line}");
        let message = &problems[0].message;
        assert_eq!(*message, format!("--{} is not supported: {}", flag.long, flag.reason));
    }
}

#[test]
fn a_refused_flag_that_requests_what_is_done_anyway_is_accepted() {
    let line = "--force=false --cpu-prof=false --rootless-storage-path=";
    assert!(read(line).unwrap().mirror.refused.problems().is_empty());
    assert_eq!(read("--tls-verify=true").unwrap().mirror.refused.problems().len(), 1);
}

#[test]
fn a_port_has_no_effect_and_only_some_commands_read_a_cache() {
    for (line, reads_cache, expected) in [
        ("--cache-dir /x", true, vec![]),
        ("--port 55001", true, vec!["--port has no effect"]),
        ("-p 55001 --cache-dir=", false, vec!["--port has no effect"]),
        ("list releases -p 5000", false, vec!["--port has no effect"]),
        ("version --cache-dir /x", false, vec!["--cache-dir has no effect"]),
        ("", true, vec![]),
    ] {
        let arguments = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let warnings = arguments.ignored.warnings(reads_cache);
        assert_eq!(warnings.len(), expected.len(), "{line}: {warnings:?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            assert!(warning.contains(expected), "{line}: {warning}");
        }
    }
    assert!(read("--port many").is_err());
}

#[test]
fn the_cache_is_the_named_one_or_that_of_the_variable_or_of_the_home_directory() {
    let home = Some(std::path::Path::new("/home/me"));
    for (line, variable, expected, is_named) in [
        ("--cache-dir /x", Some("/y"), "/x", true),
        ("--cache-dir=", Some("/y"), "/y", true),
        ("", Some(""), "/home/me", false),
        ("", None, "/home/me", false),
    ] {
        let arguments = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let found = arguments.ignored.cache(variable.map(AsRef::as_ref), home).unwrap();
        assert_eq!(
            (found.directory.to_str().unwrap(), found.is_named),
            (expected, is_named),
            "{line}"
        );
    }
}

#[test]
fn version_1_is_refused_with_a_pointer_to_the_migration_page() {
    let problems = read("--v1").unwrap().mirror.refused.problems();
    assert!(problems[0].message.contains("docs/migrating-from-v1.md"), "{problems:?}");
}

#[test]
fn switches_take_values_as_go_programs_take_them() {
    for (line, expected) in [
        ("", false),
        ("--dry-run", true),
        ("--dry-run=true", true),
        ("--dry-run=T", true),
        ("--dry-run=false", false),
        ("--dry-run --dry-run=false", false),
    ] {
        assert_eq!(read(line).unwrap().mirror.dry_run, expected, "{line}");
    }
    for (line, expected) in [
        ("", true),
        ("--dest-tls-verify", true),
        ("--dest-tls-verify=true", true),
        ("--dest-tls-verify=false", false),
        ("--dest-tls-verify=0", false),
    ] {
        assert_eq!(read(line).unwrap().mirror.destination.tls_verify, expected, "{line}");
    }
    // The word behind a switch is a destination, never its value.
    let arguments = read("--dest-tls-verify docker://reg").unwrap();
    assert_eq!(arguments.mirror.destinations, ["docker://reg"]);
    assert!(read("--dry-run=maybe").is_err());
}

#[test]
fn flags_may_be_before_and_behind_the_destination() {
    let arguments = read("-c isc.yaml docker://reg --from file:///data --v2 -q").unwrap();
    assert_eq!(arguments.mirror.config, Some("isc.yaml".into()));
    assert_eq!(arguments.mirror.from.as_deref(), Some("file:///data"));
    assert!(arguments.v2 && arguments.mirror.quiet);
}

#[test]
fn numbers_and_words_out_of_range_are_refused() {
    for line in [
        "--parallel-images 0",
        "--parallel-layers=-1",
        "--parallel-images 65536",
        "--retry-times many",
        "--retry-delay 5",
        "--image-timeout soon",
        "--log-level loud",
        "--output xml",
        "--max-nested-paths -2",
        "--unknown",
    ] {
        let error = read(line).unwrap_err();
        assert!(error.use_stderr(), "{line}");
    }
    assert_eq!(read("--parallel-images 64").unwrap().mirror.parallel_images, 64);
}

#[test]
fn defaults_are_those_of_today() {
    let arguments = read("").unwrap();
    assert_eq!(arguments.log_level, LogLevel::Info);
    let mirror = arguments.mirror;
    assert_eq!((mirror.parallel_images, mirror.parallel_layers), (4, 5));
    let retry = mirror.retry.retry();
    assert_eq!((retry.times, retry.delay), (5, None));
    assert_eq!(mirror.max_nested_paths, 0);
    assert_eq!(mirror.image_timeout, None);
    assert!(mirror.source.tls_verify && mirror.destination.tls_verify);
}

#[test]
fn commands_of_other_versions_are_known_with_whatever_follows() {
    let command = read("describe mirror.tar").unwrap().command;
    assert_eq!(command.and_then(|command| command.missing()), Some("describe"));
}

#[test]
fn deletions_take_the_flags_that_every_command_of_version_2_takes() {
    for line in [
        "delete --v2 --generate -c disc.yaml --workspace file:///data --src-tls-verify=false docker://reg",
        "delete --delete-yaml-file x.yaml --parallel-images 8 --parallel-layers 10 --port 55000 docker://reg",
        "delete --delete-yaml-file x.yaml --authfile a.json --dest-tls-verify=false --src-creds a:b docker://reg",
        "prune -c isc.yaml --registries.d /etc/x --policy p.json --log-level debug docker://reg",
    ] {
        assert!(read(line).is_ok(), "{line}: {:?}", read(line).err());
    }
}

#[test]
fn a_flag_of_mirroring_has_no_meaning_for_another_command() {
    for line in ["-c isc.yaml version", "--dest-tls-verify=false serve /data", "--force version"] {
        let error = read(line).unwrap_err().to_string();
        assert!(error.contains("has no meaning for the command"), "{line}: {error}");
    }
    for line in ["version --v2", "--v2 version", "--log-level debug serve /data"] {
        read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn completion_scripts_have_the_flags_and_commands() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Powershell] {
        let script = command_line::completion::script(shell, command());
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("parallel-images"), "{shell:?}");
        assert!(script.contains("completion"), "{shell:?}");
    }
}

#[test]
fn o_selects_the_format_and_out_a_place() {
    let program = command();
    assert_eq!(command_line::conventions::violations(&program), [""; 0]);
    let former = command_line::conventions::former_spellings(&program);
    assert_eq!(
        former,
        [
            "oc-mirror init -o FILE",
            "oc-mirror init --output FILE",
            "oc-mirror inventory -o FILE",
            "oc-mirror inventory --output FILE",
        ]
    );
}
