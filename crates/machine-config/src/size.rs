//! How large a MachineConfig is, and what a cluster can store.

use std::fmt;

use crate::machine_config::MachineConfig;
use crate::pool::Pool;

/// The largest object that the API server accepts, in bytes of JSON.
pub const LIMIT: usize = 1_572_864;
/// Above this share of the limit, in percent, it is time to do something.
pub const WARNING: usize = 80;

/// The size of a MachineConfig as a cluster stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(usize);

/// What the operator's own MachineConfigs of a pool take, about. An assumption, for those who do
/// not have them at hand.
const OPERATORS_OWN: usize = 400 << 10;

/// Whether an object can be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    Well,
    /// More than 80 % of the limit.
    Barely,
    Not,
}

impl Size {
    pub fn of(config: &MachineConfig) -> Self {
        Self(config.to_json().len())
    }

    /// The size of the MachineConfig that the operator renders for a pool.
    pub fn of_pool(pool: &Pool<'_>) -> Self {
        Self(pool.rendered_json_len())
    }

    /// The size with what the operator adds to every pool.
    pub fn with_operators_own(self) -> Self {
        Self(self.0 + OPERATORS_OWN)
    }

    pub fn bytes(self) -> usize {
        self.0
    }

    pub fn percent(self) -> usize {
        self.0 * 100 / LIMIT
    }

    pub fn fit(self) -> Fit {
        if self.0 > LIMIT {
            Fit::Not
        } else if self.0 * 100 > LIMIT * WARNING {
            Fit::Barely
        } else {
            Fit::Well
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} % of what a cluster stores", self.0, self.percent())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_begins_above_80_percent_and_the_limit_itself_fits() {
        for (bytes, expected) in [
            (0, Fit::Well),
            (1_258_291, Fit::Well),
            (1_258_292, Fit::Barely),
            (1_572_864, Fit::Barely),
            (1_572_865, Fit::Not),
        ] {
            assert_eq!(Size(bytes).fit(), expected, "{bytes}");
        }
    }
}
