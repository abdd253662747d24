//! The web console, and a client that sends exactly the given headers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Site;

/// Far more than anything here takes; what takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(300);

/// A running `oc-mirror console`. It is killed when dropped; what it started is not.
#[derive(Debug)]
pub(crate) struct Console {
    child: Child,
    /// `http://127.0.0.1:PORT/?token=…`
    pub(crate) url: String,
    /// `127.0.0.1:PORT`
    pub(crate) host: String,
    cookie: String,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

impl Console {
    /// Starts a console and logs in.
    pub(crate) fn start(site: &Site, line: &str) -> Self {
        Self::of(site.command(&format!("console --listen 127.0.0.1:0 {line}")))
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let errors = tempfile::NamedTempFile::new().unwrap();
        let written = errors.reopen().unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(written).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let host = url.split('/').nth(2).unwrap_or_else(|| {
            let errors = std::fs::read_to_string(errors.path()).unwrap_or_default();
            panic!("no address: {url:?}: {errors}")
        });
        let host = host.to_owned();
        let mut console = Self { child, url, host, cookie: String::new() };
        let token = console.url.split_once('?').unwrap().1;
        let accepted = console.send("GET", &format!("/?{token}"), &[], "");
        let cookie = accepted.header("set-cookie").expect("a cookie");
        console.cookie = cookie.split(';').next().unwrap().to_owned();
        console
    }

    pub(crate) fn token(&self) -> &str {
        self.url.split_once("token=").unwrap().1
    }

    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// A page, as a browser that is logged in requests it.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[("Cookie", &self.cookie)], "")
    }

    /// A form, as a page of the console sends it.
    pub(crate) fn post(&self, path: &str, form: &[(&str, &str)]) -> Response {
        let origin = format!("http://{}", self.host);
        let kind = "application/x-www-form-urlencoded";
        let headers = [("Cookie", &*self.cookie), ("Origin", &origin), ("Content-Type", kind)];
        self.send("POST", path, &headers, &encoded(form))
    }

    /// Saves a new configuration as the editor does.
    pub(crate) fn save(&self, name: &str, text: &str) {
        let form = [("name", name), ("text", text), ("base", "")];
        let saved = self.post("/configuration/save", &form);
        assert_eq!(saved.status, 303, "{}", saved.body);
    }

    /// Saves a configuration that exists, as a page that opened it does.
    pub(crate) fn save_again(&self, name: &str, text: &str) {
        let page = self.get(&format!("/configuration?name={name}")).body;
        let base = page.split("name=\"base\" value=\"").nth(1).unwrap();
        let base = base.split('"').next().unwrap();
        let form = [("name", name), ("text", text), ("base", base)];
        assert_eq!(self.post("/configuration/save", &form).status, 303);
    }

    /// Starts a workflow; the address of its job.
    pub(crate) fn start_job(&self, form: &[(&str, &str)]) -> String {
        let started = self.post("/start", form);
        assert_eq!(started.status, 303, "{}", started.body);
        started.header("location").unwrap().to_owned()
    }

    /// The page of a job once it ended.
    pub(crate) fn until_ended(&self, job: &str) -> String {
        self.until(job, |page| !page.contains(">Running<"))
    }

    /// A page once it is as expected.
    pub(crate) fn until(&self, path: &str, is_due: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let page = self.get(path).body;
            if is_due(&page) {
                return page;
            }
            assert!(Instant::now() < deadline, "{path} is not as expected: {page}");
            // Each request costs a busy machine time that what it waits for needs.
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// A request with these headers, and `Host` unless they have one.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text += &format!("Host: {}\r\n", self.host);
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).unwrap_or_default().parse();
        Response {
            status: status.unwrap_or_else(|_| panic!("no response: {head}")),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    /// The stream of events at this address.
    pub(crate) fn events(&self, path: &str) -> impl Iterator<Item = String> + use<> {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n",
            self.host, self.cookie
        );
        stream.write_all(request.as_bytes()).unwrap();
        BufReader::new(stream).lines().map_while(Result::ok)
    }

    /// Kills it as the system would, without a chance to tidy up.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn encoded(form: &[(&str, &str)]) -> String {
    let escape = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect()
    };
    let pairs = form.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}
