//! What the community's linter accepts as a URL.
//!
//! It uses Go's `net/url`, which is more permissive than browsers: every text
//! with a scheme passes if it can be split into parts. The same verdict needs
//! the same rules, therefore this module does not use a URL parser.

/// Why a text is not a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("expected a scheme such as https://")]
    NoScheme,
    #[error("expected no control characters")]
    Control,
    #[error("expected two hexadecimal digits after `%`")]
    Percent,
    #[error("expected a valid host name")]
    Host,
    #[error("expected a number as port")]
    Port,
}

/// Checks that `text` is a URL with a scheme.
pub(crate) fn check(text: &str) -> Result<(), AddressError> {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(AddressError::Control);
    }
    let rest = after_scheme(text).ok_or(AddressError::NoScheme)?;
    // Go checks `%` in the fragment, but not in the query.
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    check_percent(fragment)?;
    let Some(rest) = rest.strip_prefix("//") else {
        // Go decodes a path, but not the rest of `mailto:x`.
        return if rest.starts_with('/') { check_percent(rest) } else { Ok(()) };
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    check_authority(authority)?;
    check_percent(path)
}

fn after_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    (scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_legal))
        .then_some(rest)
}

fn check_authority(authority: &str) -> Result<(), AddressError> {
    let host = match authority.rsplit_once('@') {
        None => authority,
        Some((user, host)) => {
            let is_legal = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(is_legal) {
                return Err(AddressError::Host);
            }
            check_percent(user)?;
            host
        }
    };
    let (name, port) = match host.strip_prefix('[') {
        Some(inner) => inner.rsplit_once(']').ok_or(AddressError::Host)?,
        None => host.rfind(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    if (!port.is_empty() && !port.starts_with(':')) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(AddressError::Port);
    }
    let is_legal = |c: char| {
        !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c)
    };
    if !name.chars().all(is_legal) || (!host.starts_with('[') && name.contains('%')) {
        // Go decodes only non-ASCII bytes in host names; those are rejected here.
        return Err(AddressError::Host);
    }
    Ok(())
}

fn check_percent(text: &str) -> Result<(), AddressError> {
    let bytes = text.as_bytes();
    let is_pair = |at: usize| matches!(bytes.get(at + 1..at + 3), Some(pair) if pair.iter().all(u8::is_ascii_hexdigit));
    let is_valid = |(at, byte): (usize, &u8)| *byte != b'%' || is_pair(at);
    if bytes.iter().enumerate().all(is_valid) { Ok(()) } else { Err(AddressError::Percent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results are those of Go 1.26's `url.Parse`, with a scheme required.
    #[test]
    fn urls_are_accepted_as_by_go() {
        use AddressError::{Control, Host, NoScheme, Percent, Port};
        for (text, expected) in [
            ("https://issues.redhat.com/browse/OPNET-265", Ok(())),
            ("https://issues.redhat.com/browse/X-1 (for comments)", Ok(())),
            ("https://", Ok(())),
            ("mailto:a@b", Ok(())),
            ("JIRA-1: later", Ok(())),
            ("https://[::1]:443/x", Ok(())),
            ("https://user:pw@host:1/x?a=%zz#y", Ok(())),
            ("https://höst/x", Ok(())),
            ("None", Err(NoScheme)),
            ("N/A", Err(NoScheme)),
            ("/browse/X-1", Err(NoScheme)),
            ("1https://x", Err(NoScheme)),
            (":x", Err(NoScheme)),
            ("https://a b/", Err(Host)),
            ("https://[::1/", Err(Host)),
            ("https://a:b/", Err(Port)),
            ("https://a/%zz", Err(Percent)),
            ("https://a/#%z", Err(Percent)),
            ("https://a/\u{7f}", Err(Control)),
        ] {
            assert_eq!(check(text), expected, "{text}");
        }
    }
}
