//! A command line as a user types it. Pure.

use std::fmt;

/// A command and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShellLine(Vec<String>);

impl ShellLine {
    /// `oc-mirror` with these arguments.
    pub(crate) fn oc_mirror(arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new("oc-mirror", arguments)
    }

    pub(crate) fn new(
        program: &str,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let mut words = vec![program.to_owned()];
        words.extend(arguments.into_iter().map(Into::into));
        Self(words)
    }
}

/// Words are quoted where a shell would read them otherwise.
impl fmt::Display for ShellLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, word) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(" ")?;
            }
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
            match !word.is_empty() && word.chars().all(is_plain) {
                true => f.write_str(word)?,
                false => write!(f, "'{}'", word.replace('\'', r"'\''"))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_posix_shell_reads_them() {
        let words = ["-c", "my file.yaml", "it's", "$(reboot)", "", "file:///data", "a;b"];
        let line = ShellLine::oc_mirror(words).to_string();
        assert_eq!(
            line,
            r"oc-mirror -c 'my file.yaml' 'it'\''s' '$(reboot)' '' file:///data 'a;b'"
        );
        let output = std::process::Command::new("sh")
            .args(["-c", &line.replacen("oc-mirror", r"printf '%s\n'", 1)])
            .output()
            .unwrap();
        let read = String::from_utf8(output.stdout).unwrap();
        assert_eq!(read.lines().collect::<Vec<_>>(), words);
    }
}
