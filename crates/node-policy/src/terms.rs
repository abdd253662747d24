//! What an attempt depends on beside the spec: the annotations that change how it is made.
//!
//! Annotations have no generation. A report about a failure contains what was requested, so that a
//! corrected annotation ends the failure.

use nmstate_api::annotations::{Persistence, PolicyOptions, Probes};

/// The options in the annotations that an attempt depends on, as readable text.
pub fn terms(options: &PolicyOptions) -> String {
    let probes = match &options.probes {
        Probes::SucceededBefore => "what answered before".to_owned(),
        Probes::These(these) => {
            these.iter().map(|probe| probe.name()).collect::<Vec<_>>().join(",")
        }
    };
    let memory_only = options.persistence == Some(Persistence::MemoryOnly);
    let mut text = format!("probes: {probes}; memory-only: {memory_only}");
    // Options that are not set are not written: reports of earlier versions stay comparable.
    if let Some(seconds) = options.probe_timeout {
        text.push_str(&format!("; probe-timeout: {seconds}"));
    }
    if let Some(name) = &options.probe_dns_name {
        text.push_str(&format!("; probe-dns-name: {name}"));
    }
    if let Some(address) = options.probe_ping_target {
        text.push_str(&format!("; probe-ping-target: {address}"));
    }
    if let Some(retry) = &options.retry {
        text.push_str(&format!("; retry: {}", retry.id));
    }
    if let Some(values) = &options.values {
        text.push_str(&format!("; node-values: {}", values.fingerprint()));
    }
    text
}

/// Whether a failure with the options `tried` does not apply to attempts with `now`. Reports of
/// programs that did not record their options count as having the same.
pub fn are_others(tried: Option<&str>, now: &PolicyOptions) -> bool {
    tried.is_some_and(|tried| tried != terms(now))
}

#[cfg(test)]
mod tests {
    use nmstate_api::NodeValues;
    use nmstate_api::annotations::{
        CANARY, DRIFT, MEMORY_ONLY, NODE_VALUES, PROBE_TIMEOUT, PROBES, RETRY, REVERT_ON_DELETE,
    };

    use super::*;

    fn options(pairs: &[(&str, &str)]) -> PolicyOptions {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        PolicyOptions::parse(Some(&pairs.collect())).unwrap()
    }

    #[test]
    fn a_failure_counts_for_the_selected_probes() {
        let tried = terms(&options(&[(PROBES, "dns,api-server")]));
        assert_eq!(tried, "probes: api-server,dns; memory-only: false");
        assert!(!are_others(Some(&tried), &options(&[(PROBES, "api-server, dns")])));
        for others in
            [&[][..], &[(PROBES, "api-server")], &[(PROBES, "dns"), (MEMORY_ONLY, "true")]]
        {
            assert!(are_others(Some(&tried), &options(others)), "{others:?}");
        }
        assert!(
            !are_others(None, &options(&[(PROBES, "dns")])),
            "an older report does not contain it"
        );
    }

    #[test]
    fn a_failure_does_not_count_for_a_longer_timeout_or_a_later_request() {
        let tried = terms(&options(&[]));
        assert!(are_others(Some(&tried), &options(&[(PROBE_TIMEOUT, "300")])));
        let first = options(&[(RETRY, "1")]);
        assert!(are_others(Some(&tried), &first));
        assert!(!are_others(Some(&terms(&first)), &first));
        assert!(are_others(Some(&terms(&first)), &options(&[(RETRY, "2")])));
        let of_another = options(&[(RETRY, "1 other")]).for_node("this");
        assert!(!are_others(Some(&tried), &of_another));
    }

    #[test]
    fn a_failure_does_not_count_for_other_values_of_the_node() {
        let with = |text: &str| {
            let options = options(&[(NODE_VALUES, "addresses")]);
            options.with_values(Some(NodeValues::parse(text).unwrap()))
        };
        let tried = terms(&with("ip: 192.0.2.1"));
        assert!(!are_others(Some(&tried), &with("ip: 192.0.2.1")));
        assert!(are_others(Some(&tried), &with("ip: 192.0.2.2")));
    }

    #[test]
    fn unrelated_annotations_cause_no_retry() {
        let tried = terms(&options(&[]));
        let same = options(&[(DRIFT, "enforce"), (CANARY, "1"), (REVERT_ON_DELETE, "true")]);
        assert!(!are_others(Some(&tried), &same));
    }
}
