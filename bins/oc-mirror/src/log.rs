//! Log messages: one line per event, on the console and in the
//! log file, in the form that scripts know.

use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Zoned;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::arguments::LogLevel;
use crate::console::Console;

/// Events of finished images have this target: they scroll by on a plain
/// console, go to the file always, and would only disturb bars.
pub(crate) const IMAGES: &str = "oc_mirror::images";

/// Our crates. Messages of libraries are not for users, and may hold secrets.
const OURS: [&str; 8] =
    ["oc_mirror", "mirror", "mirror_plan", "registry", "workspace", "serve", "image_set", "oci"];

/// Which levels are written where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verbosity {
    console: Level,
    file: Level,
}

impl Verbosity {
    /// Quiet silences the console only: the file is for finding out later.
    pub(crate) fn new(level: LogLevel, quiet: bool) -> Self {
        let chosen = match level {
            LogLevel::Error => Level::ERROR,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
            LogLevel::Trace => Level::TRACE,
        };
        Self { console: if quiet { Level::ERROR } else { chosen }, file: chosen.max(Level::INFO) }
    }
}

/// The log of this process. Copies share it.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    verbosity: Verbosity,
    console: Console,
    file: Arc<Mutex<Option<File>>>,
}

impl Log {
    /// Starts logging to the console. There is one log per process.
    pub(crate) fn start(verbosity: Verbosity, console: Console) -> Self {
        let log = Self { verbosity, console, file: Arc::default() };
        let subscriber = tracing_subscriber::registry().with(log.clone());
        // Only a second log in one process could fail here; the first is used then.
        let _ = tracing::subscriber::set_global_default(subscriber);
        log
    }

    /// Keeps a copy in a new file from now on: at `path`, or beside it where
    /// there is one already. Two runs may start within one second.
    pub(crate) fn keep_copy(&self, path: &Path) -> io::Result<PathBuf> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut free = path.to_owned();
        let mut number = 1;
        let file = loop {
            match File::create_new(&free) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    free = path.with_extension(format!("{number}.log"));
                }
                result => break result?,
            }
        };
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(free)
    }

    /// Adds text to the file only, such as the report that went to standard output.
    pub(crate) fn append(&self, text: &str) {
        if let Some(file) = self.file.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            // A full disk must not end a run that could still succeed elsewhere.
            let _ = file.write_all(text.as_bytes());
        }
    }

    fn on_console(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.verbosity.console
            && !(metadata.target() == IMAGES
                && *metadata.level() > Level::ERROR
                && self.console.has_bars())
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let krate = metadata.target().split("::").next().unwrap_or_default();
        *metadata.level() <= self.verbosity.console.max(self.verbosity.file)
            && OURS.contains(&krate)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let line = line(&Zoned::now(), *event.metadata().level(), &text.finish());
        if self.on_console(event.metadata()) {
            self.console.line(&line);
        }
        if *event.metadata().level() <= self.verbosity.file {
            self.append(&format!("{line}\n"));
        }
    }
}

/// `2006/01/02 15:04:05  [INFO]   : text`
fn line(now: &Zoned, level: Level, text: &str) -> String {
    let level = format!("[{level}]");
    format!("{}  {level:<9}: {text}", now.strftime("%Y/%m/%d %H:%M:%S"))
}

/// The message of an event, then its fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn finish(self) -> String {
        // Control characters in a response of a registry must not reach a terminal.
        (self.message + &self.fields)
            .chars()
            .map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c })
            .collect()
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment() -> Zoned {
        jiff::civil::date(2026, 1, 2).at(3, 4, 5, 0).to_zoned(jiff::tz::TimeZone::UTC).unwrap()
    }

    #[test]
    fn lines_have_the_shape_that_scripts_grep_for() {
        let now = moment();
        assert_eq!(line(&now, Level::INFO, "x"), "2026/01/02 03:04:05  [INFO]   : x");
        assert_eq!(line(&now, Level::ERROR, "x"), "2026/01/02 03:04:05  [ERROR]  : x");
        assert_eq!(line(&now, Level::WARN, "x"), "2026/01/02 03:04:05  [WARN]   : x");
    }

    #[test]
    fn two_logs_of_one_second_do_not_replace_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log {
            verbosity: Verbosity::new(LogLevel::Info, false),
            console: Console::default(),
            file: Arc::default(),
        };
        let path = dir.path().join("logs/oc-mirror-20260102_030405.log");
        let first = log.keep_copy(&path).unwrap();
        log.append("first\n");
        let second = log.keep_copy(&path).unwrap();
        log.append("second\n");
        assert_eq!(first, path);
        assert_eq!(second, dir.path().join("logs/oc-mirror-20260102_030405.2.log"));
        assert_eq!(fs::read_to_string(first).unwrap(), "first\n");
        assert_eq!(fs::read_to_string(second).unwrap(), "second\n");
    }

    #[test]
    fn quiet_silences_the_console_and_not_the_file() {
        let quiet = Verbosity::new(LogLevel::Debug, true);
        assert_eq!((quiet.console, quiet.file), (Level::ERROR, Level::DEBUG));
        let only_errors = Verbosity::new(LogLevel::Error, false);
        assert_eq!((only_errors.console, only_errors.file), (Level::ERROR, Level::INFO));
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let text = Text { message: "a\u{1b}[2Jb\nc".into(), fields: String::new() };
        assert_eq!(text.finish(), "a\u{fffd}[2Jb\nc");
    }
}
