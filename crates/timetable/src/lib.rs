//! Transfer rates, and the times at which they apply. Pure: the current time is a parameter.
//!
//! ```text
//! "22:00-06:00 full, Sat-Sun full, else 2MiB" ──parse──▶ Timetable ──at(time)──▶ Rate
//!                                                                  ──next_change(time)──▶ time
//! ```
//!
//! # Example
//!
//! ```
//! use jiff::tz::TimeZone;
//! use timetable::{Rate, Timetable};
//!
//! let table: Timetable = "22:00-06:00 full, else pause".parse()?;
//! let night = "2026-01-01T23:00:00Z".parse().unwrap();
//! let noon = "2026-01-02T12:00:00Z".parse().unwrap();
//! assert_eq!(table.at(night, &TimeZone::UTC), Rate::Full);
//! assert_eq!(table.at(noon, &TimeZone::UTC), Rate::Paused);
//! # Ok::<(), timetable::TimetableError>(())
//! ```

mod deadline;
mod error;
mod rate;
mod table;
mod text;

pub use deadline::{DeadlineError, deadline};
pub use error::TimetableError;
pub use rate::{BytesPerSecond, Rate, RateError};
pub use table::{Timetable, ZoneError, zone};
