//! Changes of br-ex that are refused on a running node.

use nmstate::NetworkState;

use crate::verdict::Attempt;

/// The name in reports if no rule of br-ex documents applies.
const FORBIDDEN: &str = "forbidden";

/// The end of an attempt that is refused, none if it is allowed.
pub fn forbidden(current: &NetworkState, desired: &NetworkState) -> Option<Attempt> {
    let refusals = match br_ex_day2::refusals(current, desired, None) {
        Ok(refusals) => refusals,
        Err(error) => return Some(Attempt::NotRendered { why: error.to_string() }),
    };
    let first = refusals.first()?;
    let more = match refusals.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(Attempt::Forbidden {
        rule: first.rule.map_or_else(|| FORBIDDEN.to_owned(), |rule| rule.to_string()),
        interface: first.interface.clone(),
        why: format!("{}{more}", first.why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::Phase;

    const NODE: &str = "
interfaces:
- {name: eth0, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
- {name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: eth0}, {name: br-ex}]}}
- {name: br-ex, type: ovs-interface, state: up, ipv4: {enabled: true, dhcp: true}, ipv6: {enabled: false}}
";

    #[test]
    fn a_forbidden_change_fails_at_once_and_names_the_rule() {
        let state = |yaml: &str| NetworkState::new_from_yaml(yaml).unwrap();
        let desired = state("interfaces: [{name: br-ex, type: ovs-bridge, state: absent}]");
        let verdict = forbidden(&state(NODE), &desired).unwrap().judge(1);
        assert_eq!((verdict.phase, verdict.again_after), (Phase::Failed, None));
        assert!(verdict.message.contains("B1"), "{}", verdict.message);
        assert_eq!(verdict.failure.unwrap().rule.as_deref(), Some("B1"));
    }

    #[test]
    fn other_changes_may_be_made() {
        let state = |yaml: &str| NetworkState::new_from_yaml(yaml).unwrap();
        let desired = state("interfaces: [{name: d0, type: dummy, state: up}]");
        assert_eq!(forbidden(&state(NODE), &desired), None);
    }
}
