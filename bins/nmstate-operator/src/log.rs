//! Log messages, as lines on standard error: the cluster keeps them.

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;

/// The log level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// Enables the messages of `level`.
pub(crate) fn start(level: Level) {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(level))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .finish();
    // The first one stays: tests may start several programs in one process.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
