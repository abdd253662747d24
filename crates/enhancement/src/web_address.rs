//! What the community's linter takes for a web address.
//!
//! It asks Go's `net/url`, which is more generous than browsers: everything
//! with a scheme passes whose parts could be told apart. To give the same
//! verdict the same generosity is needed, so this is not a URL parser.

/// Why a text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("it has no scheme such as https://")]
    NoScheme,
    #[error("it holds a control character")]
    Control,
    #[error("a `%` in it is not followed by two hexadecimal digits")]
    Percent,
    #[error("its host name is not valid")]
    Host,
    #[error("its port is not a number")]
    Port,
}

/// Checks that `text` is an address with a scheme.
pub(crate) fn check(text: &str) -> Result<(), AddressError> {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(AddressError::Control);
    }
    let rest = after_scheme(text).ok_or(AddressError::NoScheme)?;
    // What follows `#` and `?` is looked at for `%` only in the former.
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    check_percent(fragment)?;
    let Some(rest) = rest.strip_prefix("//") else {
        // `mailto:x` is taken as it is, a path is decoded.
        return if rest.starts_with('/') { check_percent(rest) } else { Ok(()) };
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    check_authority(authority)?;
    check_percent(path)
}

fn after_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    (scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(legal))
        .then_some(rest)
}

fn check_authority(authority: &str) -> Result<(), AddressError> {
    let host = match authority.rsplit_once('@') {
        None => authority,
        Some((user, host)) => {
            let legal = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(legal) {
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
    let legal = |c: char| {
        !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c)
    };
    if !name.chars().all(legal) || (!host.starts_with('[') && name.contains('%')) {
        // Go decodes only non-ASCII bytes in host names; nobody writes those.
        return Err(AddressError::Host);
    }
    Ok(())
}

fn check_percent(text: &str) -> Result<(), AddressError> {
    let bytes = text.as_bytes();
    let is_pair = |at: usize| matches!(bytes.get(at + 1..at + 3), Some(pair) if pair.iter().all(u8::is_ascii_hexdigit));
    let whole = |(at, byte): (usize, &u8)| *byte != b'%' || is_pair(at);
    if bytes.iter().enumerate().all(whole) { Ok(()) } else { Err(AddressError::Percent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdicts are those of Go 1.26's `url.Parse` with a scheme asked for.
    #[test]
    fn an_address_is_what_go_takes_for_one() {
        use AddressError::{Control, Host, NoScheme, Percent, Port};
        for (text, wanted) in [
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
            assert_eq!(check(text), wanted, "{text}");
        }
    }
}
