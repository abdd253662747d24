//! Debian's chromium, controlled through WebDriver.
//!
//! `thirtyfour` would do this, but turns on `serde_json/preserve_order` for the whole workspace, so
//! that tests would run another program than users. The few commands that are needed are here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lab::tools::{self, Tool};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Far more than anything here takes; what takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(300);
/// Keys, as WebDriver names them.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How often a browser is started, and a page is opened that its own navigation interrupted.
const ATTEMPTS: usize = 3;
/// What the script prints where axe-core itself fails.
const AXE_FAILED: &str = "axe-core failed";
/// The end of the log of chromedriver that a failure reports.
const MAX_LOG: usize = 4000;

/// A browser with one window. It ends when dropped.
#[derive(Debug)]
pub(crate) struct Browser {
    driver: Child,
    address: String,
    session: String,
    /// Profiles, one for each attempt, and the log of chromedriver.
    files: TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").arg(format!("--log-path={}", log_path(&files).display()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = command.spawn().expect("chromedriver of Debian's chromium-driver");
        let output = BufReader::new(driver.stdout.take().unwrap());
        let mut lines = output.lines().map_while(Result::ok);
        let mut printed = String::new();
        let port = lines.find_map(|line| {
            printed += &format!("{line}\n");
            let port = line.split_once("started successfully on port ")?.1;
            Some(port.trim_end_matches('.').to_owned())
        });
        thread::spawn(move || lines.for_each(drop));
        let port = port.unwrap_or_else(|| {
            panic!("chromedriver ended: {printed}{}", end_of(&log_path(&files)))
        });
        let address = format!("127.0.0.1:{port}");
        let mut browser = Self { driver, address, session: String::new(), files };
        browser.session = browser.new_session();
        // The default for scripts is 30 s, which a busy machine may need.
        let limit = DEADLINE.as_millis();
        // An element of the next page may not be there yet.
        let limits = json!({"script": limit, "pageLoad": limit, "implicit": 30_000});
        browser.command("POST", "/timeouts", &limits);
        browser
    }

    /// Starts chromium. On a busy machine it may take longer than the minute that chromedriver waits.
    fn new_session(&self) -> String {
        let mut failures = Vec::new();
        for attempt in 1..=ATTEMPTS {
            let profile = self.files.path().join(format!("profile-{attempt}"));
            let options = json!({
                "args": [
                    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                    "--disable-background-networking", "--disable-component-update",
                    "--disable-sync", "--no-first-run", "--window-size=1280,1000",
                    format!("--user-data-dir={}", profile.display()),
                ],
            });
            let expected =
                json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}});
            match self.try_request("POST", "/session", &expected) {
                Ok(session) => return session["sessionId"].as_str().expect("a session").to_owned(),
                Err(error) => failures.push(error.to_string()),
            }
        }
        panic!("chromium does not start: {failures:#?}{}", self.report());
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_request(method, path, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}{}", self.report()))
    }

    /// What the browser shows, and the end of the log of its driver, for the message of a failure.
    fn report(&self) -> String {
        let script = "return `${location.href}\\n${document.body ? document.body.innerText : ''}`";
        let body = json!({"script": script, "args": []});
        let page = match self.session.as_str() {
            "" => "none".to_owned(),
            _ => self.try_command("POST", "/execute/sync", &body).map_or_else(
                |error| format!("unknown: {error}"),
                |page| page.as_str().unwrap_or_default().to_owned(),
            ),
        };
        let log = end_of(&log_path(&self.files));
        format!("\n--- the page: {page}\n--- the log of chromedriver: {log}")
    }

    fn try_request(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let sent = self.send(method, path, &body.to_string());
        let (status, bytes) = sent.map_err(|error| json!({"connection": error.to_string()}))?;
        let mut value: Value = serde_json::from_slice(&bytes)
            .map_err(|_| json!({"response": String::from_utf8_lossy(&bytes)}))?;
        match status.split(' ').nth(1) {
            Some("200") => Ok(value["value"].take()),
            _ => Err(value["value"].take()),
        }
    }

    /// The first line of the response, and its body.
    fn send(&self, method: &str, path: &str, body: &str) -> io::Result<(String, Vec<u8>)> {
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address)?;
        // Longer than the driver waits for anything.
        stream.set_read_timeout(Some(2 * DEADLINE))?;
        stream.write_all(text.as_bytes())?;
        // The driver keeps the connection open: the head has the length of the response.
        let mut reader = BufReader::new(stream);
        let (mut status, mut length) = (String::new(), 0);
        reader.read_line(&mut status)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes)?;
        Ok((status, bytes))
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.request(method, &format!("/session/{}{path}", self.session), body)
    }

    fn try_command(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        self.try_request(method, &format!("/session/{}{path}", self.session), body)
    }

    /// Opens a page. One that loads itself again at this moment may interrupt that.
    pub(crate) fn open(&self, address: &str) {
        let body = json!({"url": address});
        for _ in 1..ATTEMPTS {
            match self.try_command("POST", "/url", &body) {
                Ok(_) => return,
                Err(error) => eprintln!("opening {address} is retried: {error}"),
            }
        }
        self.command("POST", "/url", &body);
    }

    fn element(&self, selector: &str) -> String {
        let expected = json!({"using": "css selector", "value": selector});
        let found = self.command("POST", "/element", &expected);
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    /// Clicks the first element that a selector finds.
    pub(crate) fn click(&self, selector: &str) {
        for _ in 1..ATTEMPTS {
            let element = self.element(selector);
            let path = format!("/element/{element}/click");
            match self.try_command("POST", &path, &json!({})) {
                Ok(_) => return,
                // Replaced by live progress after it was found.
                Err(error) if error["error"] == "stale element reference" => {}
                Err(error) => panic!("clicking {selector}: {error}{}", self.report()),
            }
        }
        let element = self.element(selector);
        self.command("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Types into a field, instead of what it has.
    pub(crate) fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.command("POST", &format!("/element/{element}/clear"), &json!({}));
        self.command("POST", &format!("/element/{element}/value"), &json!({"text": text}));
    }

    /// Chooses a file in a field for files.
    pub(crate) fn choose_file(&self, selector: &str, path: &Path) {
        let element = self.element(selector);
        let text = path.display().to_string();
        self.command("POST", &format!("/element/{element}/value"), &json!({"text": text}));
    }

    /// Presses a key where the focus is: a letter, or a code of WebDriver such as `TAB`.
    pub(crate) fn press(&self, key: &str) {
        let steps = ["keyDown", "keyUp"].map(|step| json!({"type": step, "value": key}));
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": steps});
        self.command("POST", "/actions", &json!({"actions": [keyboard]}));
    }

    /// What axe-core finds wrong on the page: rules, and the first element that violates each.
    /// `rules` are all or, by name, some of them.
    pub(crate) fn violations(&self, rules: Option<&[&str]>) -> Vec<String> {
        let axe = tools::path(Tool::AxeCore).unwrap();
        let axe = std::fs::read_to_string(axe).unwrap();
        self.script(&format!("{axe}; window.axe = axe; return true"));
        let options = match rules {
            Some(rules) => json!({"runOnly": {"type": "rule", "values": rules}}),
            None => json!({}),
        };
        let run = format!(
            "const done = arguments[arguments.length - 1];
             axe.run(document, {options}).then(
               (result) => done(result.violations.map((found) =>
                 `${{found.id}}: ${{found.help}}: ${{found.nodes[0].html}} ${{found.nodes[0].failureSummary}}`)),
               (error) => done([`{AXE_FAILED}: ${{error}}`]))"
        );
        let body = json!({"script": run, "args": []});
        let lines = |found: Value| -> Vec<String> {
            let found = found.as_array().unwrap().iter();
            found.map(|line| line.as_str().unwrap_or_default().to_owned()).collect()
        };
        for _ in 1..ATTEMPTS {
            // Live progress replaces elements while they are checked. That is not a violation.
            let found = lines(self.command("POST", "/execute/async", &body));
            if !found.iter().any(|line| line.starts_with(AXE_FAILED)) {
                return found;
            }
        }
        lines(self.command("POST", "/execute/async", &body))
    }

    /// Runs a script in the page, as a test tool does; the policy of the page does not apply.
    pub(crate) fn script(&self, text: &str) -> Value {
        self.command("POST", "/execute/sync", &json!({"script": text, "args": []}))
    }

    /// Everything that a reader of the page sees.
    pub(crate) fn text(&self) -> String {
        let text = self.script("return document.body ? document.body.innerText : ''");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page shows a text, without loading it again.
    pub(crate) fn until_shown(&self, text: &str) {
        let expected = json!(text).to_string();
        self.until(&format!("document.body && document.body.innerText.includes({expected})"));
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn until(&self, expression: &str) {
        let deadline = Instant::now() + DEADLINE;
        let body = json!({"script": format!("return Boolean({expression})"), "args": []});
        loop {
            // A page that loads itself again has no scripts for a moment.
            let found = self.try_command("POST", "/execute/sync", &body);
            if matches!(found, Ok(Value::Bool(true))) {
                return;
            }
            if Instant::now() >= deadline {
                panic!("{expression} is not true: {found:?}{}", self.report());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Shows pages as a system in light or dark mode does.
    pub(crate) fn use_scheme(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let command =
            json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}});
        self.command("POST", "/goog/cdp/execute", &command);
    }

    /// Turns scripts of pages on or off.
    pub(crate) fn use_scripts(&self, are_on: bool) {
        let params = json!({"value": !are_on});
        let command = json!({"cmd": "Emulation.setScriptExecutionDisabled", "params": params});
        self.command("POST", "/goog/cdp/execute", &command);
    }

    /// Shows pages as a window of this width does; real ones cannot be as narrow as telephones.
    pub(crate) fn use_width(&self, width: u32) {
        let params =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        let command = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": params});
        self.command("POST", "/goog/cdp/execute", &command);
    }

    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.command("POST", "/window/rect", &json!({"width": width, "height": height}));
    }

    /// Writes a picture of the window where LANDFALL_SCREENSHOTS names a directory; the pictures of
    /// the documentation are created by this.
    pub(crate) fn picture(&self, name: &str) {
        if let Some(folder) = std::env::var_os("LANDFALL_SCREENSHOTS").map(PathBuf::from) {
            std::fs::create_dir_all(&folder).unwrap();
            self.save_picture(&folder.join(format!("{name}.png")));
        }
    }

    fn save_picture(&self, path: &Path) {
        let picture = self.command("GET", "/screenshot", &json!({}));
        let bytes = STANDARD.decode(picture.as_str().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.try_request("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn log_path(files: &TempDir) -> PathBuf {
    files.path().join("chromedriver.log")
}

/// The last lines of a log.
fn end_of(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let start = text.len().saturating_sub(MAX_LOG);
    String::from_utf8_lossy(&text[start..]).into_owned()
}
