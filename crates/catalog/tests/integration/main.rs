//! Selections from catalogs, compared with opm.

mod judge;
mod real_catalogs;
mod selecting;
