//! Transfer rates, and the times at which they apply. Pure: the current time is a parameter.
//!
//! ```text
//! "22:00-06:00 full, Sat-Sun full, else 2MiB" ──parse──▶ Timetable ──at(time)──▶ Rate
//!                                                                  ──next_change(time)──▶ time
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
