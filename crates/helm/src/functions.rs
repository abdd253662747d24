//! The functions that Helm offers to templates: Sprig's, without those that read the environment,
//! and Helm's own.
//!
//! Documents are rendered to be read, never to be applied. Functions that make keys, certificates
//! or passwords therefore return texts of the right shape, which depend on a seed only.

mod cast;
mod certificates;
mod civil;
mod collections;
mod cryptography;
mod dates;
mod decimal;
mod defaults;
mod dictionaries;
mod encodings;
mod flow;
mod json;
mod lists;
mod math;
mod merge;
mod paths;
mod random;
mod reflection;
mod regexes;
mod scrypt;
mod strings;
mod toml_writer;
mod urls;
mod versions;
mod words;
pub mod yaml;

use std::cell::RefCell;
use std::rc::Rc;

use go_template::{Call, FunctionError, Functions, Value};

pub(crate) use flow::without_no_value;
pub(crate) use paths::base as path_base;
use random::Random;
pub use strings::TextMap;

/// What a function returns.
type Outcome = Result<Value, FunctionError>;

/// What functions know of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Environment {
    /// Nanoseconds since 1970, for `now`.
    pub now: i128,
    /// Of everything random: the same seed gives the same documents.
    pub seed: u64,
}

/// All functions of Helm's templates.
pub fn library(environment: Environment) -> Functions {
    let mut functions = Functions::builtin();
    let random = Rc::new(RefCell::new(Random::new(environment.seed)));
    strings::register(&mut functions);
    words::register(&mut functions);
    math::register(&mut functions);
    defaults::register(&mut functions);
    lists::register(&mut functions);
    dictionaries::register(&mut functions);
    reflection::register(&mut functions);
    encodings::register(&mut functions);
    paths::register(&mut functions);
    urls::register(&mut functions);
    regexes::register(&mut functions);
    versions::register(&mut functions);
    dates::register(&mut functions, environment.now);
    json::register(&mut functions);
    yaml::register(&mut functions);
    toml_writer::register(&mut functions);
    cryptography::register(&mut functions, &random);
    certificates::register(&mut functions, &random);
    random::register(&mut functions, &random);
    flow::register(&mut functions);
    functions
}

/// The text of a value as Sprig's `toString` gives it.
fn to_text(call: &mut Call<'_>, value: &Value) -> Result<Rc<str>, FunctionError> {
    call.print(value)
}
