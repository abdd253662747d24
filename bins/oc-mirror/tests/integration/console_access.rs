//! Who reaches the console, and what it refuses.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use lab::certificates::Authority;

use crate::support::Site;
use crate::support::console::Console;

fn site() -> Site {
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    site
}

#[test]
fn the_printed_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_cannot_use() {
    let site = site();
    let console = Console::start(&site, "file://data");
    let token = console.url.split_once('?').unwrap().1.to_owned();
    let accepted = console.send("GET", &format!("/?{token}"), &[], "");
    assert_eq!(accepted.status, 200);
    let cookie = accepted.header("set-cookie").unwrap();
    assert!(cookie.contains("httponly") && cookie.contains("samesite=strict"), "{cookie}");
    assert!(!accepted.body.contains(console.token()), "the token is not repeated");
    assert_eq!(console.get("/").status, 200);

    for request in [
        console.send("GET", "/", &[], ""),
        console.send("GET", "/?token=wrong", &[], ""),
        console.send("GET", "/?token=", &[], ""),
        console.send("GET", "/runs", &[("Cookie", "oc-mirror-console-1=x")], ""),
        console.send("GET", &format!("/runs?{token}"), &[], ""),
    ] {
        assert_eq!(request.status, 401, "{}", request.body);
        assert!(request.header("set-cookie").is_none());
        assert!(request.body.contains("Open the address that"), "{}", request.body);
    }
    let origin = format!("http://{}", console.host);
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let wrong = console.send("POST", "/login", &[("Origin", &origin), kind], "token=wrong");
    assert_eq!(wrong.status, 401);
    let body = format!("token={}", console.token());
    let right = console.send("POST", "/login", &[("Origin", &origin), kind], &body);
    assert_eq!((right.status, right.header("set-cookie").is_some()), (200, true));
}

#[test]
fn pages_of_other_sites_and_rebound_names_are_refused() {
    let site = site();
    let console = Console::start(&site, "file://data");
    let port = console.host.rsplit_once(':').unwrap().1.to_owned();
    for name in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example"] {
        let host = format!("{name}:{port}");
        let headers = [("Host", &*host), ("Cookie", console.cookie())];
        let rebound = console.send("GET", "/", &headers, "");
        assert_eq!(rebound.status, 421, "{name}: {}", rebound.body);
        assert!(!rebound.body.contains("file://"), "the workspace is not shown");
        let headers = [("Host", &*host)];
        let token = format!("/?token={}", console.token());
        assert_eq!(console.send("GET", &token, &headers, "").status, 421);
    }
    let local = format!("localhost:{port}");
    let headers = [("Host", &*local), ("Cookie", console.cookie())];
    assert_eq!(console.send("GET", "/", &headers, "").status, 200);

    for origin in ["http://evil.example", "null", "https://127.0.0.1", ""] {
        let kind = "application/x-www-form-urlencoded";
        let mut headers = vec![("Cookie", console.cookie()), ("Content-Type", kind)];
        if !origin.is_empty() {
            headers.push(("Origin", origin));
        }
        let foreign = console.send("POST", "/control", &headers, "request=stop");
        assert_eq!(foreign.status, 403, "{origin}: {}", foreign.body);
    }
    let headers = [("Cookie", console.cookie()), ("Origin", "http://evil.example")];
    let foreign = console.send("GET", "/", &headers, "");
    assert_eq!(foreign.status, 403);
    let preflight = console.send("OPTIONS", "/control", &headers, "");
    assert_eq!(preflight.status, 403);
    for response in [foreign, preflight, console.get("/")] {
        assert!(!response.head.contains("access-control"), "{}", response.head);
    }
}

#[test]
fn every_response_forbids_what_pages_do_not_need() {
    let site = site();
    let console = Console::start(&site, "file://data");
    for path in ["/", "/runs", "/assets/console.css", "/none", "/?token=wrong"] {
        let response = console.get(path);
        let policy = response.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(response.header("cache-control"), Some("no-store"), "{path}");
        for mark in ["<style", "style=", "onclick", "http://", "https://"] {
            assert!(!response.body.contains(mark), "{path} contains {mark}");
        }
    }
    assert_eq!(console.get("/none").status, 404);
    assert_eq!(console.get("/assets/../../etc/passwd").status, 404);
    assert_eq!(console.get("/runs/1").status, 404);
}

#[test]
fn what_cannot_be_started_is_reported_before_anything_listens() {
    let site = site();
    site.write("notes/thesis.txt", "");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    fs::write(site.path("open-token"), "a".repeat(40)).unwrap();
    fs::set_permissions(site.path("open-token"), fs::Permissions::from_mode(0o644)).unwrap();
    for (line, expected) in [
        (format!("file://data --listen {address}"), "the port is in use by another process"),
        ("file://notes".to_owned(), "is not a workspace: expected a folder working-dir"),
        ("file://absent".to_owned(), "does not exist"),
        ("docker://reg".to_owned(), "is not a workspace"),
        (
            "file://data --listen 0.0.0.0:0".to_owned(),
            "expected --tls-cert, --tls-key and --token-file",
        ),
        ("file://data --listen nowhere".to_owned(), "expected ADDRESS:PORT"),
        ("file://data --token-file open-token".to_owned(), "can be read by other users"),
        ("file://data --hostname a:b".to_owned(), "expected a host name without port"),
    ] {
        let output = site.command(&format!("console {line}")).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}: {message}");
        assert!(message.contains(expected), "{line}: {message}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn other_machines_need_tls_a_token_file_and_a_known_name() {
    let site = site();
    let authority = Authority::generate().unwrap().naming_servers("mirror.example");
    site.write("ca.crt", authority.pem());
    authority.server().unwrap().write(&site.path(""), "tls").unwrap();
    let line = "console file://data --listen 0.0.0.0:0 --tls-cert tls.crt --tls-key tls.key";
    let nameless = site.command(&format!("{line} --token-file token")).output().unwrap();
    let message = String::from_utf8(nameless.stderr).unwrap();
    assert!(message.contains("expected --hostname NAME"), "{message}");
    let tokenless = site.command(&format!("{line} --hostname mirror.example")).output().unwrap();
    let message = String::from_utf8(tokenless.stderr).unwrap();
    assert!(message.contains("--token-file"), "{message}");

    let line = format!("{line} --token-file token --hostname mirror.example");
    let mut command = site.command(&line);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();
    let token = site.read("token");
    let port = url.split([':', '/']).nth(4).unwrap_or_default().to_owned();
    assert_eq!(url, format!("https://mirror.example:{port}/?token={}", token.trim()));
    let resolve = format!("mirror.example:{port}:127.0.0.1");
    let curl = |url: &str, more: &[&str]| {
        let options = ["-sS", "--cacert", "ca.crt", "--resolve", &resolve, "-i"];
        site.try_judge("curl", &[&options, more, &[url]].concat())
    };
    let accepted = String::from_utf8(curl(url, &[]).stdout).unwrap();
    assert!(
        accepted.to_ascii_lowercase().contains("set-cookie: __host-oc-mirror-console-"),
        "{accepted}"
    );
    assert!(accepted.contains("; Secure"), "{accepted}");
    let address = format!("https://127.0.0.1:{port}/?token={}", token.trim());
    let other = String::from_utf8(curl(&address, &["-k"]).stdout).unwrap();
    assert!(other.starts_with("HTTP/1.1 421"), "{other}");
    child.kill().unwrap();
    child.wait().unwrap();
}
