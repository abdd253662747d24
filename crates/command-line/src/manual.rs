//! Man pages and tables of flags, generated from the arguments that a program parses. The same program
//! writes the same files.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::{Arg, ArgAction, Command};

use crate::completion;

/// Writes `man/*.1` for the program and its commands, `reference/<program>.md` with this text, and
/// `completions/` below `out`.
pub fn write(out: &Path, command: &Command, reference: &str) -> anyhow::Result<()> {
    let (man, folder) = (out.join("man"), out.join("reference"));
    for dir in [&man, &folder] {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    }
    for (name, page) in man_pages(command)? {
        let path = man.join(name);
        fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    }
    let path = folder.join(format!("{}.md", command.get_name()));
    fs::write(&path, reference).with_context(|| format!("writing {}", path.display()))?;
    completion::write(out, command)
}

/// File names and texts of the man pages: the program and all its commands.
fn man_pages(command: &Command) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let command = built(command);
    let mut pages = Vec::new();
    let mut waiting = vec![&command];
    while let Some(command) = waiting.pop() {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone())
            .render(&mut page)
            .with_context(|| format!("rendering the man page of {name}"))?;
        pages.push((format!("{name}.1"), page));
        waiting.extend(listed(command));
    }
    Ok(pages)
}

/// A section of Markdown for each command that is not hidden: its purpose and its flags.
/// Subcommands follow their command.
pub fn commands(command: &Command) -> String {
    commands_with(command, |_| true)
}

/// The same with the flags that `is_listed` selects.
pub fn commands_with(command: &Command, is_listed: impl Fn(&Arg) -> bool) -> String {
    let command = built(command);
    let mut text = String::new();
    for sub in listed(&command) {
        section(&mut text, sub, command.get_name(), &is_listed);
    }
    text
}

fn section(text: &mut String, command: &Command, above: &str, is_listed: &impl Fn(&Arg) -> bool) {
    let name = format!("{above} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    // Writing to a String cannot fail, so the results of write! are dropped.
    let _ = writeln!(text, "### {name}\n\n{about}.\n");
    text.push_str(&flags(command.get_arguments().filter(|arg| is_listed(arg))));
    for sub in listed(command) {
        section(text, sub, &name, is_listed);
    }
}

/// A table of the flags of a [`built`] command; empty if none is listed.
pub fn flags<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let rows: String = args
        .filter(|arg| is_documented(arg))
        .map(|arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            format!("| `{}` | {} | {} |\n", spelling(arg), default(arg), without_tags(&help))
        })
        .collect();
    if rows.is_empty() {
        return rows;
    }
    format!("| flag | default | meaning |\n|---|---|---|\n{rows}\n")
}

/// Whether a flag is in the tables. `--help` and `--version` of clap are not; a flag of the program
/// that is called `version` is.
pub fn is_documented(arg: &Arg) -> bool {
    let is_built_in = matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    !arg.is_hide_set() && !is_built_in
}

/// Text whose `<NAME>` is not a tag of HTML. Code is unchanged.
fn without_tags(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(at, part)| match at % 2 {
        0 => part.replace('<', "\\<"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}

/// The command as documents need it: with full names and default numbers of values, and without the
/// `help` command that clap adds. The version is the number alone, so that documents do not change
/// with every commit.
pub fn built(command: &Command) -> Command {
    let mut command = command.clone().version(build_info::NUMBER).disable_help_subcommand(true);
    command.build();
    command
}

fn listed(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}

fn default(arg: &Arg) -> String {
    if arg.is_hide_default_value_set() || !arg.get_action().takes_values() {
        return String::new();
    }
    let values = arg.get_default_values().iter();
    values.map(|value| format!("`{}`", value.to_string_lossy())).collect()
}

/// `-o, --output FORMAT`, `--deny-warnings`, `PATH`.
fn spelling(arg: &Arg) -> String {
    let value = arg.get_value_names().unwrap_or_default().first().map(ToString::to_string);
    let Some(long) = arg.get_long() else { return value.unwrap_or_default() };
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let needs_value = arg.get_num_args().is_some_and(|number| number.min_values() > 0);
    match value.filter(|_| needs_value && arg.get_action().takes_values()) {
        Some(value) => format!("{short}--{long} {value}"),
        None => format!("{short}--{long}"),
    }
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    fn program() -> Command {
        let rate = Arg::new("rate").long("rate").short('r').value_name("MB").help("Limit the rate");
        let fast = Arg::new("fast").long("fast").action(ArgAction::SetTrue).help("Skip checks");
        let file = Arg::new("file").value_name("FILE").help("Source");
        let copy = Command::new("copy")
            .about("Copy a file")
            .args([rate.default_value("12"), fast, file])
            .arg(Arg::new("version").long("version").value_name("VERSION").help("Format"))
            .subcommand(Command::new("back").about("Restore a file"));
        Command::new("files").subcommands([copy, Command::new("debug").hide(true)])
    }

    #[test]
    fn commands_and_flags_are_listed_and_hidden_ones_are_not() {
        assert_eq!(
            commands(&program()),
            "### files copy\n\nCopy a file.\n\n\
             | flag | default | meaning |\n|---|---|---|\n\
             | `-r, --rate MB` | `12` | Limit the rate |\n\
             | `--fast` |  | Skip checks |\n\
             | `FILE` |  | Source |\n\
             | `--version VERSION` |  | Format |\n\n\
             ### files copy back\n\nRestore a file.\n\n"
        );
    }

    #[test]
    fn flags_may_be_left_out() {
        let text = commands_with(&program(), |arg| arg.get_id() == "fast");
        assert!(text.contains("--fast") && !text.contains("--rate"), "{text}");
    }

    #[test]
    fn names_in_angle_brackets_are_not_tags() {
        assert_eq!(without_tags("write <host>.yml, `<host>`"), "write \\<host>.yml, `<host>`");
    }

    #[test]
    fn each_command_has_a_man_page() {
        let out = tempfile::tempdir().unwrap();
        write(out.path(), &program(), "# files\n").unwrap();
        let mut names: Vec<_> = fs::read_dir(out.path().join("man"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["files-copy-back.1", "files-copy.1", "files.1"]);
        assert_eq!(fs::read_to_string(out.path().join("reference/files.md")).unwrap(), "# files\n");
    }
}
