//! Former spellings of `--out`. `-o` selects the output format in every program; some commands used
//! `-o` or `--output` for the file or folder that they write to. These spellings still work, with a warning.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, Command};

/// The argument that names the file or folder that a command writes to.
pub(crate) const OUT: &str = "out";

/// A warning if `line` uses a former spelling of `--out`. `matches` are those of the same line.
pub(crate) fn warning(
    command: &Command,
    matches: &ArgMatches,
    line: &[OsString],
) -> Option<String> {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, below)) = matches.subcommand() {
        (command, matches) = (command.find_subcommand(name)?, below);
    }
    let out = command.get_arguments().find(|arg| arg.get_id() == OUT)?;
    let found = line
        .iter()
        .skip(1)
        .take_while(|word| *word != "--")
        .find_map(|word| former(out, word.to_str()?))?;
    let value = out.get_value_names().and_then(|names| names.first()).map_or("DIR", |name| name);
    Some(format!("{found} {value} is deprecated; use --{OUT} {value}"))
}

/// The hidden alias of `out` in this word: `-o`, `-oDIR`, `--output`, `--output=DIR`.
fn former(out: &Arg, word: &str) -> Option<String> {
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split_once('=').map_or(long, |(name, _)| name);
        let aliases = out.get_all_aliases().unwrap_or_default();
        return aliases.contains(&name).then(|| format!("--{name}"));
    }
    let short = word.strip_prefix('-')?.chars().next()?;
    let aliases = out.get_all_short_aliases().unwrap_or_default();
    aliases.contains(&short).then(|| format!("-{short}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Command {
        let out = Arg::new("out").long("out").short_alias('o').alias("output").value_name("DIR");
        let format = Arg::new("format").long("output").short('o');
        Command::new("p").subcommands([
            Command::new("write").arg(out).arg(Arg::new("file")),
            Command::new("show").arg(format),
        ])
    }

    fn warned(line: &str) -> Option<String> {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let matches = program().try_get_matches_from(&line).unwrap();
        if let Some(("write", below)) = matches.subcommand() {
            assert_eq!(below.get_one::<String>("out").unwrap(), "d", "{line:?}");
        }
        warning(&program(), &matches, &line)
    }

    #[test]
    fn former_spellings_work_with_a_warning() {
        for line in ["p write -o d", "p write -od", "p write f -o=d"] {
            assert_eq!(warned(line).unwrap(), "-o DIR is deprecated; use --out DIR", "{line}");
        }
        for line in ["p write --output d", "p write --output=d"] {
            let expected = "--output DIR is deprecated; use --out DIR";
            assert_eq!(warned(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn the_current_spelling_and_formats_are_not_warned_about() {
        for line in ["p write --out d", "p write --out=d -- -o", "p show -o json", "p show"] {
            assert_eq!(warned(line), None, "{line}");
        }
    }
}
