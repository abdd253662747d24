//! How often and how soon a failed request is retried.

use std::time::Duration;

use clap::Args;
use registry::{Retry, Timeouts};

use crate::go_syntax;

const SPEED: &str = "Performance and retries";

#[derive(Debug, Clone, Args)]
pub(crate) struct RetryArguments {
    /// Number of retries of a failed request
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = SPEED)]
    retry_times: u32,
    /// Delay before a retry, such as 500ms or 10s (0: 1 s, doubled after each retry)
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0",
        value_parser = go_syntax::parse_duration,
        help_heading = SPEED
    )]
    retry_delay: Duration,
    /// Close connections that transfer nothing for this long; the total time of a transfer is not limited
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1m",
        value_parser = stall_timeout,
        help_heading = SPEED
    )]
    stall_timeout: Duration,
}

fn stall_timeout(text: &str) -> Result<Duration, String> {
    match go_syntax::parse_duration(text)? {
        Duration::ZERO => Err("expected a time above 0, such as 30s".into()),
        time => Ok(time),
    }
}

impl RetryArguments {
    pub(crate) fn timeouts(&self) -> Timeouts {
        Timeouts { stall: self.stall_timeout, ..Timeouts::default() }
    }

    pub(crate) fn retry(&self) -> Retry {
        Retry {
            times: self.retry_times,
            delay: Some(self.retry_delay).filter(|delay| *delay > Duration::ZERO),
        }
    }
}
