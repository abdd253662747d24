//! Exact decimal arithmetic for Sprig's functions on floats: `addf 0.1 0.2` is 0.3.

/// `mantissa` × 10^`exponent`.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    mantissa: i128,
    exponent: i32,
}

/// Digits behind the point that a division keeps.
const DIVISION_DIGITS: i32 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Applies an operation from left to right. Numbers too large for exact arithmetic are computed
/// as floats.
pub(super) fn compute(first: f64, others: &[f64], operation: Operation) -> Option<f64> {
    if operation == Operation::Divide && others.contains(&0.0) {
        return None;
    }
    Some(exact(first, others, operation).unwrap_or_else(|| {
        others.iter().fold(first, |left, right| match operation {
            Operation::Add => left + right,
            Operation::Subtract => left - right,
            Operation::Multiply => left * right,
            Operation::Divide => left / right,
        })
    }))
}

fn exact(first: f64, others: &[f64], operation: Operation) -> Option<f64> {
    let mut result = Decimal::from_float(first)?;
    for other in others {
        let other = Decimal::from_float(*other)?;
        result = match operation {
            Operation::Add => result.add(other)?,
            Operation::Subtract => {
                result.add(Decimal { mantissa: other.mantissa.checked_neg()?, ..other })?
            }
            Operation::Multiply => Decimal {
                mantissa: result.mantissa.checked_mul(other.mantissa)?,
                exponent: result.exponent + other.exponent,
            },
            Operation::Divide => result.divide(other)?,
        };
    }
    format!("{}e{}", result.mantissa, result.exponent).parse().ok()
}

impl Decimal {
    /// The shortest decimal that is this float.
    fn from_float(number: f64) -> Option<Self> {
        if !number.is_finite() {
            return None;
        }
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e')?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}").parse().ok()?;
        let exponent = exponent.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?;
        Some(Self { mantissa: digits, exponent })
    }

    fn scaled_to(self, exponent: i32) -> Option<i128> {
        let shift = u32::try_from(self.exponent - exponent).ok()?;
        self.mantissa.checked_mul(10i128.checked_pow(shift)?)
    }

    fn add(self, other: Self) -> Option<Self> {
        let exponent = self.exponent.min(other.exponent);
        let mantissa = self.scaled_to(exponent)?.checked_add(other.scaled_to(exponent)?)?;
        Some(Self { mantissa, exponent })
    }

    fn divide(self, other: Self) -> Option<Self> {
        // One digit more than kept, to round by.
        let exponent = -(DIVISION_DIGITS + 1);
        let shift = self.exponent - other.exponent - exponent;
        let quotient = if shift >= 0 {
            let scale = 10i128.checked_pow(u32::try_from(shift).ok()?)?;
            self.mantissa.checked_mul(scale)?.checked_div(other.mantissa)?
        } else {
            let scale = 10i128.checked_pow(u32::try_from(-shift).ok()?)?;
            self.mantissa.checked_div(other.mantissa.checked_mul(scale)?)?
        };
        let rounded = (quotient + 5 * quotient.signum()) / 10;
        Some(Self { mantissa: rounded, exponent: -DIVISION_DIGITS })
    }
}
