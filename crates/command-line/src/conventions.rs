//! What the flags of all programs have in common, for tests: `-o` selects the output format, `--out`
//! names a file or folder, and former spellings of `--out` still work with a warning.

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::former::{self, OUT};

const FORMAT: &str = "output";
/// Values of `--out`.
const PLACES: [&str; 2] = ["DIR", "FILE"];

/// Every flag of a program and its commands that does not follow the convention, with what is
/// expected.
pub fn violations(program: &Command) -> Vec<String> {
    let mut found = Vec::new();
    each(program, &mut |path, command| {
        for arg in command.get_arguments() {
            if let Some(problem) = violation(arg) {
                let name = arg.get_long().unwrap_or(arg.get_id().as_str());
                found.push(format!("{}: --{name}: {problem}", path.join(" ")));
            }
        }
    });
    for line in former_spellings(program) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        if let Some(problem) = rejection(program, &words) {
            found.push(format!("{line}: {problem}"));
        }
    }
    found
}

/// Former spellings of `--out` that the program accepts: `oc-brex render -o DIR`.
pub fn former_spellings(program: &Command) -> Vec<String> {
    let mut found = Vec::new();
    each(program, &mut |path, command| {
        let Some(out) = command.get_arguments().find(|arg| arg.get_id() == OUT) else { return };
        let shorts = out.get_all_short_aliases().unwrap_or_default();
        let longs = out.get_all_aliases().unwrap_or_default();
        let spellings = shorts.iter().map(|short| format!("-{short}"));
        for spelling in spellings.chain(longs.iter().map(|long| format!("--{long}"))) {
            found.push(format!("{} {spelling} {}", path.join(" "), value_name(out)));
        }
    });
    found
}

/// Calls `act` with a command and all commands below it, hidden ones too.
fn each<'a>(program: &'a Command, act: &mut impl FnMut(&[&'a str], &'a Command)) {
    fn visit<'a>(
        command: &'a Command,
        path: &mut Vec<&'a str>,
        act: &mut impl FnMut(&[&'a str], &'a Command),
    ) {
        path.push(command.get_name());
        act(path, command);
        for below in command.get_subcommands() {
            visit(below, path, act);
        }
        path.pop();
    }
    visit(program, &mut Vec::new(), act);
}

fn violation(arg: &Arg) -> Option<&'static str> {
    let (short, long) = (arg.get_short(), arg.get_long());
    let is_format = long == Some(FORMAT);
    if is_format && short != Some('o') {
        return Some("expected the short form -o");
    }
    if short == Some('o') && !is_format {
        return Some("expected -o to select the output format, as --output");
    }
    if is_format && value_name(arg) != "FORMAT" {
        return Some("expected the value name FORMAT");
    }
    if long == Some(OUT) && !PLACES.contains(&value_name(arg)) {
        return Some("expected the value name DIR or FILE");
    }
    // Hidden flags are accepted for other programs' scripts.
    let is_other =
        matches!(long, Some("format" | "out-dir" | "out-file" | "output-dir" | "output-file"));
    if is_other && !arg.is_hide_set() {
        return Some("expected --output for a format, --out for a file or folder");
    }
    None
}

fn value_name(arg: &Arg) -> &str {
    arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name)
}

/// Why a line with a former spelling and its value is not accepted with a warning. Other arguments
/// that the command requires are not part of the line.
fn rejection(program: &Command, line: &[OsString]) -> Option<String> {
    let lenient = program.clone().ignore_errors(true);
    let matches = match lenient.try_get_matches_from(line) {
        Ok(matches) => matches,
        Err(error) => return Some(format!("is rejected: {error}")),
    };
    let mut below = &matches;
    while let Some((_, next)) = below.subcommand() {
        below = next;
    }
    let value = below.get_raw(OUT).and_then(|mut values| values.next());
    if value != line.last().map(OsString::as_os_str) {
        return Some(format!("expected the value of --out, found {value:?}"));
    }
    match former::warning(program, &matches, line) {
        Some(warning) if warning.contains(" is deprecated; use --out ") => None,
        found => Some(format!("expected a warning, found {found:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out() -> Arg {
        Arg::new(OUT).long(OUT).value_name("DIR")
    }

    fn format() -> Arg {
        Arg::new("output").long("output").short('o').value_name("FORMAT")
    }

    fn program(args: impl IntoIterator<Item = Arg>) -> Command {
        Command::new("p").subcommand(Command::new("c").args(args))
    }

    #[test]
    fn flags_that_follow_the_convention_are_accepted() {
        assert_eq!(violations(&program([out(), format()])), [""; 0]);
        let required = Arg::new("file").required(true);
        let with_former = program([out().short_alias('o').alias("output"), required]);
        assert_eq!(violations(&with_former), [""; 0]);
        assert_eq!(former_spellings(&with_former), ["p c -o DIR", "p c --output DIR"]);
    }

    #[test]
    fn a_folder_for_o_and_a_format_without_it_are_reported() {
        for (arg, expected) in [
            (
                Arg::new("out").long("out").short('o').value_name("DIR"),
                "p c: --out: expected -o to select the output format, as --output",
            ),
            (
                Arg::new("f").long("output").value_name("FORMAT"),
                "p c: --output: expected the short form -o",
            ),
            (
                Arg::new("f").long("output").short('o').value_name("DIR"),
                "p c: --output: expected the value name FORMAT",
            ),
            (
                Arg::new("out").long("out").value_name("NAME"),
                "p c: --out: expected the value name DIR or FILE",
            ),
            (
                Arg::new("d").long("output-dir").value_name("DIR"),
                "p c: --output-dir: expected --output for a format, --out for a file or folder",
            ),
        ] {
            assert_eq!(violations(&program([arg])), [expected]);
        }
    }

    #[test]
    fn a_spelling_that_does_not_set_the_place_is_reported() {
        let rejection = rejection(&program([out()]), &["p", "c", "-o", "DIR"].map(OsString::from));
        assert_eq!(rejection.unwrap(), "expected the value of --out, found None");
    }
}
