//! Versions in templates.

use go_template::{Arguments, Arity, FunctionError, Functions, Kind, Object, Value};
use semver::Version;

use crate::version::{Constraint, version};

pub(super) fn register(functions: &mut Functions) {
    functions.add("semver", Arity::exactly(1), |_, values| {
        let text = values.text(0)?;
        let version = version(&text).map_err(|error| error.to_string())?;
        Ok(Value::object(VersionObject { version, original: text.to_string() }))
    });
    functions.add("semverCompare", Arity::exactly(2), |_, values| {
        let (constraint, text) = (values.text(0)?, values.text(1)?);
        let constraint = Constraint::parse(&constraint).map_err(|error| error.to_string())?;
        let version = version(&text).map_err(|error| error.to_string())?;
        Ok(constraint.matches(&version).into())
    });
}

struct VersionObject {
    version: Version,
    original: String,
}

impl Object for VersionObject {
    fn type_name(&self) -> String {
        "*semver.Version".to_owned()
    }

    fn kind(&self) -> Kind {
        Kind::Pointer
    }

    fn field(&self, _: &str) -> Option<Value> {
        None
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, FunctionError>> {
        let number = |number: u64| Ok(Value::Int64(number as i64));
        let other = || -> Result<Version, FunctionError> {
            let value = arguments.any(0);
            let wrong = || FunctionError::Argument("expected *semver.Version".to_owned());
            let Value::Object(object) = value else { return Err(wrong()) };
            let text = object.text().ok_or_else(wrong)?;
            version(&text).map_err(|_| wrong())
        };
        let compared = |f: fn(std::cmp::Ordering) -> Value| {
            other().map(|other| f(self.version.cmp_precedence(&other)))
        };
        Some(match name {
            "Major" => number(self.version.major),
            "Minor" => number(self.version.minor),
            "Patch" => number(self.version.patch),
            "Prerelease" => Ok(Value::string(self.version.pre.as_str())),
            "Metadata" => Ok(Value::string(self.version.build.as_str())),
            "Original" => Ok(Value::string(&self.original)),
            "String" => Ok(Value::from(self.version.to_string())),
            "Compare" => compared(|order| Value::Int(order as i64)),
            "Equal" => compared(|order| order.is_eq().into()),
            "LessThan" => compared(|order| order.is_lt().into()),
            "GreaterThan" => compared(|order| order.is_gt().into()),
            _ => return None,
        })
    }

    fn plain(&self) -> Value {
        Value::from(self.version.to_string())
    }

    fn text(&self) -> Option<String> {
        Some(self.version.to_string())
    }
}
