//! Rendering of a chart's templates, as Helm's engine does it.
//!
//! All templates of all charts are one set: a parent sees what its sub-charts define and can
//! replace it. Each file is executed with the scope of its chart. Unlike in Helm, a file that
//! fails does not stop the others; it is reported with its place and reason.

mod capabilities;
mod files;
mod globs;
mod metadata;
mod record;
mod scope;

use std::collections::BTreeMap;
use std::rc::Rc;

use go_template::{Budget, Error, Limits, MissingKey, Names, Set, Stop, Trace, Value};

use crate::functions::{Environment, library, without_no_value};
pub use capabilities::{ApiReads, ApiVersions, Capabilities};
pub use files::Files;
pub use metadata::chart;
pub use scope::{Release, Scope, ValuesObject};

/// One template file of a chart.
#[derive(Debug, Clone)]
pub struct Template {
    /// Path with the names of all charts around it, such as `parent/charts/child/templates/x.yaml`.
    pub path: String,
    pub text: String,
    /// The chart's folder of templates: `.Template.BasePath`.
    pub base_path: String,
    /// What the template sees as `.`; templates of one chart share it, and changes to it.
    pub scope: Value,
}

/// What a file was rendered to.
#[derive(Debug, Clone)]
pub struct Rendered {
    pub path: String,
    /// The text, or why there is none.
    pub output: Result<String, Box<Error>>,
    /// Where the text came from, if that was requested.
    pub trace: Option<Trace>,
}

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct Options {
    pub environment: Environment,
    /// For all templates of the chart together.
    pub limits: Limits,
    /// Ends the run when it is raised.
    pub stop: Stop,
}

/// Renders every file that is not a partial (`_*`) and not `NOTES.txt`. The order is that of
/// execution: the deepest paths first.
pub fn render(templates: &[Template], options: &Options) -> Vec<Rendered> {
    render_traced(templates, options, None)
}

/// The same, and notes which of the values with these names each file was made from.
pub fn render_traced(
    templates: &[Template],
    options: &Options,
    names: Option<&Rc<Names>>,
) -> Vec<Rendered> {
    let mut order: Vec<&Template> = templates.iter().collect();
    order.sort_by(|left, right| {
        let depth = |template: &Template| template.path.matches('/').count();
        (depth(right), &right.path).cmp(&(depth(left), &left.path))
    });
    let mut set = Set::new(library(options.environment), MissingKey::Zero);
    let mut failed: BTreeMap<&str, Box<Error>> = BTreeMap::new();
    for template in &order {
        if let Err(error) = set.parse(&template.path, &template.text) {
            failed.insert(&template.path, error);
        }
    }
    let mut budget = Budget::stoppable(options.limits, options.stop.clone());
    let mut rendered = Vec::new();
    for template in order {
        let name = template.path.rsplit('/').next().unwrap_or_default();
        let is_output = !name.starts_with('_') && name != "NOTES.txt";
        let mut trace = names.map(|names| Trace::new(Rc::clone(names)));
        let output = match failed.remove(template.path.as_str()) {
            // A partial that cannot be parsed is a failure too.
            Some(error) => Err(error),
            None if is_output => execute(&set, template, &mut budget, &mut trace),
            None => continue,
        };
        rendered.push(Rendered { path: template.path.clone(), output, trace });
    }
    rendered
}

fn execute(
    set: &Set,
    template: &Template,
    budget: &mut Budget,
    trace: &mut Option<Trace>,
) -> Result<String, Box<Error>> {
    if let Some(scope) = template.scope.as_map() {
        let description = [
            ("Name".to_owned(), Value::string(&template.path)),
            ("BasePath".to_owned(), Value::string(&template.base_path)),
        ];
        let description = ValuesObject::of(description.into());
        scope.borrow_mut().insert("Template".to_owned(), description);
    }
    let scope = template.scope.clone();
    let output = match trace.take() {
        Some(traced) => {
            let (output, traced) = set.execute_traced(&template.path, scope, budget, traced)?;
            *trace = Some(traced);
            output
        }
        None => set.execute(&template.path, scope, budget)?,
    };
    if !output.contains("<no value>") {
        return Ok(output);
    }
    // Places in the text move.
    *trace = None;
    Ok(without_no_value(&output))
}
