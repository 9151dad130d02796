//! A headless Chromium, driven over its debugging pipe: real pointer and key events, values of scripts, pictures.
//!
//! The protocol is JSON messages that end with a zero byte, on the file descriptors 3 and 4; a shell connects those to
//! the pipes of the child.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page.
pub(crate) struct Chromium {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    /// Uncaught errors of the page.
    pub(crate) errors: Vec<String>,
}

/// Returns a directory of its own for each call.
pub(crate) fn scratch(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn installed() -> Option<String> {
    let candidates = std::env::var("ALLOTMENT_CHROMIUM").ok().into_iter();
    candidates
        .chain(["chromium", "chromium-browser", "google-chrome"].map(str::to_owned))
        .find(|program| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success()))
}

impl Chromium {
    /// Opens a page in a window of a size. Without Chromium it says so and returns `None`, and panics if
    /// `ALLOTMENT_REQUIRE` contains `chromium`.
    pub(crate) fn open(page: &Path, width: u32, height: u32) -> Option<Self> {
        let Some(program) = installed() else {
            let required = std::env::var("ALLOTMENT_REQUIRE").unwrap_or_default();
            assert!(
                !required.split(',').any(|one| one == "chromium"),
                "Chromium is required and not installed"
            );
            println!("skipped: Chromium is not installed (Debian: apt-get install chromium)");
            return None;
        };
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null", &program])
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
                "--hide-scrollbars",
                // Chromium starts faster without these.
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-extensions",
                "--disable-sync",
                "--no-first-run",
            ])
            .arg(format!("--user-data-dir={}", scratch("chromium").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, from) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0) {
                let Ok(message) = message else { return };
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut this = Self { child, to, from, session: None, last_id: 0, errors: Vec::new() };
        let target = this.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached =
            this.call("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        this.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        this.call("Runtime.enable", &json!({}));
        this.call("Page.enable", &json!({}));
        this.call("Performance.enable", &json!({"timeDomain": "threadTicks"}));
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        this.call("Emulation.setDeviceMetricsOverride", &size);
        this.call("Page.navigate", &json!({"url": format!("file://{}", page.display())}));
        this.wait_for("typeof view !== 'undefined' && view.opened > 0");
        Some(this)
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.from.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer to {method}"));
            if answer["method"] == "Runtime.exceptionThrown" {
                self.errors.push(answer["params"]["exceptionDetails"].to_string());
            }
            if answer["id"] == self.last_id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// Returns the value of an expression of the page's scripts.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", &parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Returns a text of the page's scripts.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.value(expression).as_str().unwrap_or_else(|| panic!("no text: {expression}")).to_owned()
    }

    /// Returns a number of the page's scripts.
    pub(crate) fn number(&mut self, expression: &str) -> f64 {
        self.value(expression).as_f64().unwrap_or_else(|| panic!("no number: {expression}"))
    }

    /// Returns the milliseconds of a processor that the page's main thread had. Other load on the machine hardly
    /// changes them.
    pub(crate) fn cpu(&mut self) -> f64 {
        let answer = self.call("Performance.getMetrics", &json!({}));
        let metrics = answer["metrics"].as_array().unwrap();
        let tasks = metrics.iter().find(|metric| metric["name"] == "TaskDuration").unwrap();
        tasks["value"].as_f64().unwrap() * 1000.0
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, condition: &str) {
        for _ in 0..1200 {
            if self.value(condition) == true {
                return;
            }
            assert!(self.errors.is_empty(), "{:?}", self.errors);
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("never true: {condition}");
    }

    /// Waits until the page has drawn what changed. The first frame sets timers of its own, so this one is set after it. The page
    /// draws parts later when it has many allocations or samples free ranges.
    pub(crate) fn settle(&mut self) {
        self.value(
            "new Promise(done => requestAnimationFrame(() => setTimeout(\
             () => requestAnimationFrame(() => requestAnimationFrame(done)), \
             view.model?.count > 50000 || view.tab === 'free' ? 320 : 0)))",
        );
        // What takes longer than a frame is found in slices, and drawn after the last one.
        self.wait_for("[...tasks.values()].every(task => task.done) && !stale.size");
        assert!(self.errors.is_empty(), "{:?}", self.errors);
    }

    /// Gives the window another size.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Moves the pointer, presses its button or releases it.
    pub(crate) fn pointer(&mut self, kind: &str, (x, y): (f64, f64), buttons: u32) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let event =
            json!({"type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1});
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// Moves the pointer.
    pub(crate) fn hover(&mut self, at: (f64, f64)) {
        self.pointer("mouseMoved", at, 0);
        self.settle();
    }

    /// Moves the pointer and clicks.
    pub(crate) fn click(&mut self, at: (f64, f64)) {
        self.pointer("mouseMoved", at, 0);
        self.pointer("mousePressed", at, 1);
        self.pointer("mouseReleased", at, 0);
        self.settle();
    }

    /// Clicks the middle of an element.
    pub(crate) fn click_on(&mut self, selector: &str) {
        let at = self.middle_of(selector);
        self.click(at);
    }

    /// Returns where an element has its middle, once the page has drawn what changed.
    pub(crate) fn middle_of(&mut self, selector: &str) -> (f64, f64) {
        self.settle();
        self.value(&format!("document.querySelector(`{selector}`).scrollIntoView({{ block: 'nearest' }})"));
        let at = |side: &str, size: &str| {
            format!(
                "(r => r.{side} + r.{size} / 2)(document.querySelector(`{selector}`).getBoundingClientRect())"
            )
        };
        (self.number(&at("left", "width")), self.number(&at("top", "height")))
    }

    /// Drags from one point to another, in steps.
    pub(crate) fn drag(&mut self, from: (f64, f64), to: (f64, f64), steps: u32) {
        self.pointer("mouseMoved", from, 0);
        self.pointer("mousePressed", from, 1);
        for step in 1..=steps {
            let share = f64::from(step) / f64::from(steps);
            self.pointer(
                "mouseMoved",
                (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share),
                1,
            );
        }
        self.pointer("mouseReleased", to, 0);
        self.settle();
    }

    /// Turns the wheel at a point; negative is away from the user.
    pub(crate) fn wheel(&mut self, (x, y): (f64, f64), amount: f64) {
        let event = json!({"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": amount});
        self.call("Input.dispatchMouseEvent", &event);
        self.settle();
    }

    /// Presses a key: its name, as `KeyboardEvent.key` has it. `shift` is held meanwhile.
    pub(crate) fn key(&mut self, key: &str, shift: bool) {
        let modifiers = if shift { 8 } else { 0 };
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({"type": kind, "key": key, "text": text, "modifiers": modifiers});
            self.call("Input.dispatchKeyEvent", &event);
        }
        self.settle();
    }

    /// Types a text into what has the focus.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", &json!({"text": text}));
        self.settle();
    }

    /// Writes a picture of the page, if `ALLOTMENT_PICTURES` names a directory.
    pub(crate) fn picture(&mut self, name: &str) {
        let Ok(directory) = std::env::var("ALLOTMENT_PICTURES") else { return };
        let answer = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        let png = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            answer["data"].as_str().unwrap_or_default(),
        );
        std::fs::write(Path::new(&directory).join(name), png.unwrap()).unwrap();
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // No test reads the profile again, and closing in order takes a second.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
