//! How often and how soon a failed request is tried again.

use std::time::Duration;

use clap::Args;
use registry::Retry;

use crate::go_syntax;

const SPEED: &str = "Speed and patience";

#[derive(Debug, Clone, Args)]
pub(crate) struct RetryArguments {
    /// How often a failed request is tried again
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = SPEED)]
    retry_times: u32,
    /// Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0",
        value_parser = go_syntax::parse_duration,
        help_heading = SPEED
    )]
    retry_delay: Duration,
}

impl RetryArguments {
    pub(crate) fn retry(&self) -> Retry {
        Retry {
            times: self.retry_times,
            delay: Some(self.retry_delay).filter(|delay| *delay > Duration::ZERO),
        }
    }
}
