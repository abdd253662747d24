//! Templates as a whole: what they print, how they fail, and that they always end.

mod arbitrary;
mod bounds;
mod language;
mod setup;
