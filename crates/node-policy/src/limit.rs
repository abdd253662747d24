//! How many nodes of a policy may be changed at the same time.

use nmstate_api::IntOrText;

/// The limit of a policy without a valid one.
pub const USUAL_PERCENT: u64 = 50;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "maxUnavailable `{0}` is neither a number nor a percentage such as 30%; {USUAL_PERCENT}% is used"
)]
pub struct NotALimit(String);

/// `maxUnavailable` of a policy, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxUnavailable {
    Nodes(usize),
    Percent(u64),
}

impl Default for MaxUnavailable {
    fn default() -> Self {
        Self::Percent(USUAL_PERCENT)
    }
}

impl MaxUnavailable {
    /// Text without a percent sign is rejected even if it is a number, as in kubernetes-nmstate.
    pub fn parse(value: Option<&IntOrText>) -> Result<Self, NotALimit> {
        match value {
            None => Ok(Self::default()),
            Some(IntOrText::Int(number)) => {
                Ok(Self::Nodes(usize::try_from(*number).unwrap_or_default()))
            }
            Some(IntOrText::Text(text)) => text
                .strip_suffix('%')
                .and_then(|number| number.parse().ok())
                .map(Self::Percent)
                .ok_or_else(|| NotALimit(text.clone())),
        }
    }

    /// The number of nodes out of those that match. Never zero: a policy that may not change any
    /// node would wait forever.
    pub fn of(self, matching: usize) -> usize {
        let limit = match self {
            Self::Nodes(nodes) => nodes,
            Self::Percent(percent) => {
                let share = (matching as u64).saturating_mul(percent).div_ceil(100);
                usize::try_from(share).unwrap_or(usize::MAX)
            }
        };
        limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(matching: usize, value: &IntOrText) -> (usize, bool) {
        let parsed = MaxUnavailable::parse(Some(value));
        (parsed.clone().unwrap_or_default().of(matching), parsed.is_err())
    }

    #[test]
    fn limits_are_those_of_kubernetes_nmstate() {
        let text = |text: &str| IntOrText::Text(text.to_owned());
        let table = [
            (5, text("50%"), (3, false)),
            (6, text("50%"), (3, false)),
            (5, IntOrText::Int(3), (3, false)),
            (6, IntOrText::Int(3), (3, false)),
            (5, text("asdf"), (3, true)),
            (5, text("42"), (3, true)),
            (5, text("0%"), (1, false)),
            (5, IntOrText::Int(0), (1, false)),
        ];
        for (matching, value, expected) in table {
            assert_eq!(limit(matching, &value), expected, "{matching} {value:?}");
        }
    }

    #[test]
    fn nonsense_is_harmless() {
        let text = |text: &str| IntOrText::Text(text.to_owned());
        assert_eq!(limit(5, &IntOrText::Int(-7)), (1, false));
        assert_eq!(limit(5, &text("999999999999999999999%")), (3, true));
        let (all, is_error) = limit(5, &text("18446744073709551615%"));
        assert!(all >= 5 && !is_error, "{all}");
        assert_eq!(MaxUnavailable::default().of(0), 1);
    }
}
