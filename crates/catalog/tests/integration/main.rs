//! Selections from catalogs, compared with opm.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod imperfect;
mod judge;
mod real_catalogs;
mod selecting;
