//! YAML that is written line by line, with comments. What comes from elsewhere stays inside its
//! value or its comment, whatever it is.

/// Comments are broken before they get longer than this.
const WIDTH: usize = 100;

/// Lines of YAML.
#[derive(Debug, Default)]
pub(crate) struct CommentedYaml {
    text: String,
    /// Whether everything is written as a comment.
    muted: bool,
}

impl CommentedYaml {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A literal line, indented by `indent` spaces.
    pub(crate) fn line(&mut self, indent: usize, text: &str) {
        let hash = if self.muted { "# " } else { "" };
        self.text.push_str(&format!("{:indent$}{hash}{text}\n", ""));
    }

    /// `key: value`, the value quoted where it must be.
    pub(crate) fn pair(&mut self, indent: usize, key: &str, value: &str) {
        self.line(indent, &format!("{key}: {}", scalar(value)));
    }

    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// A comment, on as many lines as it takes. Inside of what is a comment already it stays one
    /// when a user uncomments it.
    pub(crate) fn comment(&mut self, indent: usize, text: &str) {
        self.wrapped(indent, "", text);
    }

    /// A point of a list in a comment.
    pub(crate) fn point(&mut self, indent: usize, text: &str) {
        self.wrapped(indent, "- ", text);
    }

    fn wrapped(&mut self, indent: usize, mark: &str, text: &str) {
        let hash = if self.muted { "# #" } else { "#" };
        let clean = |c: char| if c.is_control() || c.is_whitespace() { ' ' } else { c };
        let text: String = text.chars().map(clean).collect();
        let room = WIDTH.saturating_sub(indent + hash.len() + 1 + mark.len());
        let mut lines: Vec<String> = vec![String::new()];
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let Some(line) = lines.last_mut() else { continue };
            match line.is_empty() {
                true => line.push_str(word),
                false if line.chars().count() + 1 + word.chars().count() <= room => {
                    line.push(' ');
                    line.push_str(word);
                }
                false => lines.push(word.to_owned()),
            }
        }
        for (number, line) in lines.iter().enumerate() {
            let mark = if number == 0 { mark.to_owned() } else { " ".repeat(mark.len()) };
            let line = format!("{:indent$}{hash} {mark}{line}", "");
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    /// Writes what `write` writes as comments: it has no effect until a user removes the marks.
    pub(crate) fn as_comment(&mut self, write: impl FnOnce(&mut Self)) {
        self.muted = true;
        write(self);
        self.muted = false;
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// A value that reads back as this very text.
pub(crate) fn scalar(text: &str) -> String {
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_./:@+".contains(c);
    // A colon at the end would make a key of it; one before a blank cannot be: there are no blanks.
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(letters)
        && !text.ends_with(':')
        && !means_something_else(text);
    if plain || is_version(text) { text.to_owned() } else { quoted(text) }
}

fn means_something_else(text: &str) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    words.contains(&text.to_ascii_lowercase().as_str())
}

/// `4.16.3`: with two dots no number.
fn is_version(text: &str) -> bool {
    let numbers: Vec<&str> = text.split('.').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    numbers.len() == 3 && numbers.iter().all(digits)
}

fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // Also what YAML takes for the end of a line.
            letter if letter.is_control() || "\u{85}\u{2028}\u{2029}\u{feff}".contains(letter) => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_yaml_would_take_for_something_else_is_quoted() {
        for plain in ["stable-4.16", "4.16.3", "a.io/b/c:v4.16", "a.io/b@sha256:00", "nightly"] {
            assert_eq!(scalar(plain), plain);
        }
        for other in ["4.16", "4", "true", "No", "", "a: b", "- a", "#x", "a:", "1.2.3-4", "0x1"] {
            assert!(scalar(other).starts_with('"'), "{other}");
        }
        assert_eq!(scalar("a\"b\\\n\u{1}"), "\"a\\\"b\\\\\\n\\u0001\"");
    }

    #[test]
    fn a_comment_stays_one() {
        let mut yaml = CommentedYaml::new();
        yaml.comment(2, "one\nkind: Other\r\u{2028}two");
        yaml.comment(0, &"word ".repeat(40));
        let text = yaml.finish();
        assert!(text.lines().all(|line| line.trim_start().starts_with("# ")), "{text}");
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        let mut points = CommentedYaml::new();
        points.comment(0, "");
        points.point(0, &"word ".repeat(30));
        let lines: Vec<String> = points.finish().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "#");
        assert!(lines[1].starts_with("# - word") && lines[2].starts_with("#   word"), "{lines:?}");
    }
}
