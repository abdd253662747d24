//! Where the API server is, as kubelet's configuration has it.

use node_network::probe::Endpoint;

/// Finds `server: https://host:port` in a kubeconfig. A file of another form has none to
/// offer; the gateway is probed instead.
pub(crate) fn of_kubeconfig(text: &str) -> Option<Endpoint> {
    let server = text.lines().find_map(|line| line.trim().strip_prefix("server:"))?;
    let server = server.trim().trim_matches(['"', '\'']);
    let rest = server.strip_prefix("https://")?;
    let authority = rest.split('/').next()?;
    endpoint(authority).ok().or_else(|| endpoint(&format!("{authority}:443")).ok())
}

/// `host:port`, `[2001:db8::1]:port`.
pub(crate) fn endpoint(text: &str) -> Result<Endpoint, String> {
    let wrong = || format!("`{text}` is not HOST:PORT");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare.unwrap_or(host) {
        "" => Err(wrong()),
        // Without brackets, the end of an IPv6 address is ambiguous.
        host if bare.is_none() && host.contains(':') => Err(wrong()),
        host => Ok(Endpoint { host: host.to_owned(), port }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_a_kubeconfig_is_found() {
        let text = "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: x\n    server: https://api-int.ocp.example.com:6443\n  name: local\n";
        let found = of_kubeconfig(text).unwrap();
        assert_eq!((found.host.as_str(), found.port), ("api-int.ocp.example.com", 6443));
        assert_eq!(of_kubeconfig("clusters: []"), None);
        assert_eq!(of_kubeconfig("server: 'https://[2001:db8::5]'").unwrap().port, 443);
    }

    #[test]
    fn an_endpoint_has_a_host_and_a_port() {
        assert_eq!(endpoint("[2001:db8::1]:6443").unwrap().host, "2001:db8::1");
        for wrong in ["", "host", "host:", "host:x", ":6443", "2001:db8::1:99999", "2001:db8::1"] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }
}
