//! Chromium without a window, driven by its `DevTools` protocol: opens a page, acts on it, and hears what goes wrong.

use data_encoding::BASE64;
use serde_json::{Value, json};
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tungstenite::{Error, Message, WebSocket, client};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What it is called, here and there; `cargo xtask setup` looks for the same.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
];

/// A browser with one page open; it ends when this is dropped.
pub struct Browser {
    process: Child,
    /// Its profile, which is new.
    _profile: TempDir,
    socket: WebSocket<TcpStream>,
    session: String,
    calls: u64,
    /// Errors on the console, exceptions, and addresses that the page asked for.
    complaints: Vec<String>,
}

/// Chromium on the search path.
fn program() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let named = |name: &str| {
        let mut programs = env::split_paths(&path).map(|directory| directory.join(name));
        programs.find(|program| program.is_file())
    };
    NAMES.into_iter().find_map(named)
}

impl Browser {
    /// Starts Chromium, if there is one.
    pub fn start() -> Option<Self> {
        let program = program()?;
        let profile = tempfile::tempdir().expect("a directory");
        let process = Command::new(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
            ])
            .args(["--no-first-run", "--disable-background-networking"])
            .args([
                "--disable-component-update",
                "--disable-sync",
                "--remote-debugging-port=0",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Chromium starts");
        let (port, path) = address(&profile.path().join("DevToolsActivePort"));
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let (socket, _) =
            client(format!("ws://127.0.0.1:{port}{path}"), stream).expect("it answers");
        let mut browser = Self {
            process,
            _profile: profile,
            socket,
            session: String::new(),
            calls: 0,
            complaints: Vec::new(),
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            &json!({"targetId": target["targetId"], "flatten": true}),
        );
        let session = attached["sessionId"].as_str();
        session.expect("a session").clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol, and gives its result.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.socket
            .send(Message::text(message.to_string()))
            .expect("it listens");
        loop {
            let answer = self.next();
            if answer["id"] == self.calls {
                assert!(
                    answer.get("error").is_none(),
                    "{method}: {}",
                    answer["error"]
                );
                return answer["result"].clone();
            }
        }
    }

    /// The next message; what is to be complained of is noted.
    fn next(&mut self) -> Value {
        let message = loop {
            match self.socket.read() {
                // Whoever waits with a time limit is woken early if its process was stopped and goes on.
                Err(Error::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
                message => break message.expect("it answers in time"),
            }
        };
        let text = message.to_text().expect("text");
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        let parameters = &message["params"];
        let complaint = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(parameters["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") if parameters["type"] == "error" => {
                Some(parameters.to_string())
            }
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                Some(parameters.to_string())
            }
            Some("Network.requestWillBeSent") => {
                let address = parameters["request"]["url"].as_str().unwrap_or_default();
                let is_own = address.starts_with("file://") || address == "about:blank";
                (!is_own).then(|| format!("asked for {address}"))
            }
            _ => None,
        };
        self.complaints.extend(complaint);
        message
    }

    /// Shows a window of this size, with a phone's density if it is narrow.
    pub fn resize(&mut self, width: u32, height: u32) {
        let is_phone = width < 500;
        let metrics = json!({
            "width": width, "height": height, "mobile": is_phone,
            "deviceScaleFactor": if is_phone { 2 } else { 1 },
        });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Leaves scrollbars out of pictures.
    pub fn hide_scrollbars(&mut self) {
        self.call("Emulation.setScrollbarsHidden", &json!({"hidden": true}));
    }

    /// Shows pages in light or dark colours.
    pub fn set_scheme(&mut self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &features);
        self.settle();
    }

    /// Opens a page, and waits until its script has run and its pictures are drawn.
    pub fn open(&mut self, page: &Path) {
        self.complaints.clear();
        let page = page.canonicalize().expect("the page is there");
        self.call(
            "Page.navigate",
            &json!({"url": format!("file://{}", page.display())}),
        );
        self.wait_for("document.readyState === 'complete' && location.protocol === 'file:'");
        self.settle();
    }

    /// Waits for what was begun to be drawn: two frames.
    pub fn settle(&mut self) {
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
    }

    /// The value of an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", &parameters);
        assert!(
            result.get("exceptionDetails").is_none(),
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    fn wait_for(&mut self, expression: &str) {
        let begin = Instant::now();
        while self.evaluate(expression) != true {
            assert!(begin.elapsed() < PATIENCE, "never: {expression}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", &event);
        }
        self.settle();
    }

    /// The window as a PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        let text = picture["data"].as_str().expect("a picture");
        BASE64.decode(text.as_bytes()).expect("base64")
    }

    /// What went wrong since the page was opened.
    pub fn complaints(&mut self) -> &[String] {
        // What the page has said is heard before the answer.
        self.evaluate("0");
        &self.complaints
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already.
        let _killed = self.process.kill();
        let _waited = self.process.wait();
    }
}

/// Where the browser listens: it writes its port and a path into this file when it does.
fn address(file: &Path) -> (u16, String) {
    let begin = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut lines = text.lines();
        if let (Some(port), Some(path)) = (lines.next(), lines.next()) {
            return (port.parse().expect("a port"), path.to_owned());
        }
        assert!(begin.elapsed() < PATIENCE, "Chromium does not listen");
        sleep(Duration::from_millis(20));
    }
}
