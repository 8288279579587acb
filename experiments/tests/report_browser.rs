//! The report in a real browser: nothing clipped, nothing missing, no complaint, and it prints. Where no Chromium is
//! installed each test says so by name and is skipped.
//!
//! The browser may not run scripts in the page itself. To measure, a test puts a script into a copy of it, without the
//! page's security policy, and reads what the script left behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Writes `width height` of the window, then whatever is too wide, then the ids of all sections that have a height.
const MEASURE: &str = r#"<script>
addEventListener("load", () => {
  const wide = [...document.querySelectorAll("body *")].filter(e => {
    const box = e.getBoundingClientRect();
    return !e.closest(".scroll, svg, .skip") && (box.right > innerWidth + 1 || box.left < -1);
  });
  const cut = [...document.querySelectorAll("svg text")].filter(e => {
    const box = e.getBoundingClientRect(), frame = e.ownerSVGElement.getBoundingClientRect();
    return box.width > 0 && (box.left < frame.left - 2 || box.right > frame.right + 2);
  });
  const shown = [...document.querySelectorAll("main > section")].filter(e => e.getBoundingClientRect().height > 20);
  const root = document.documentElement;
  document.body.dataset.found = JSON.stringify({
    window: innerWidth, page: root.scrollWidth, dark: matchMedia("(prefers-color-scheme: dark)").matches,
    paper: getComputedStyle(document.body).backgroundColor,
    wide: wide.map(e => e.outerHTML.slice(0, 80)), cut: cut.map(e => e.textContent), sections: shown.map(e => e.id),
  }).replaceAll('"', "'");
});
</script>"#;

struct Browser {
    program: PathBuf,
    scratch: tempfile::TempDir,
}

/// The browser, or `None` and a line that says that `test` is skipped.
fn browser(test: &str) -> Option<Browser> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];
    let found = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name))).find(|p| p.is_file());
    let Some(program) = found else {
        println!("skipped {test}: there is no chromium; apt-get install chromium");
        return None;
    };
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("page.html"), example()).unwrap();
    Some(Browser { program, scratch })
}

fn example() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/example-report.html")).unwrap()
}

impl Browser {
    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Opens `name` with further arguments; a new profile each time, no network.
    fn open(&self, name: &str, arguments: &[&str]) -> Output {
        let profile = tempfile::tempdir().unwrap();
        let output = Command::new("timeout")
            .arg("300")
            .arg(&self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
            .args(["--disable-dev-shm-usage", "--no-first-run", "--enable-logging=stderr", "--log-level=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(arguments)
            .arg(format!("file://{}", self.path(name).display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// What [`MEASURE`] found in a window of that width.
    fn measured(&self, width: u32, arguments: &[&str]) -> serde_json::Value {
        let page = example();
        let (head, rest) = page.split_once("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
        let (_, rest) = rest.split_once('>').unwrap();
        // A frame is as narrow as it is told to be; a window may have a least width.
        let framed = format!("{head}{rest}").replace("</body>", &format!("{MEASURE}</body>"));
        fs::write(self.path("framed.html"), framed).unwrap();
        let wrapper = format!(
            "<!DOCTYPE html><body style=\"margin:0\"><iframe id=\"f\" src=\"framed.html\" width=\"{width}\" height=\"900\" \
             style=\"border:0\"></iframe><script>addEventListener('load', () => document.body.dataset.found = \
             document.getElementById('f').contentDocument.body.dataset.found)</script></body>"
        );
        fs::write(self.path("wrapper.html"), wrapper).unwrap();
        let arguments =
            [&["--dump-dom", "--allow-file-access-from-files", "--window-size=1400,1000"], arguments].concat();
        let dom = String::from_utf8(self.open("wrapper.html", &arguments).stdout).unwrap();
        let found = dom.split("data-found=\"").nth(1).and_then(|rest| rest.split('"').next());
        let found = found.unwrap_or_else(|| panic!("the script measured nothing: {dom}"));
        let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace('\'', "\"");
        serde_json::from_str(&found).unwrap_or_else(|e| panic!("{e}: {found}"))
    }
}

#[test]
fn nothing_is_clipped_on_a_desktop_and_on_a_phone() {
    let Some(browser) = browser("nothing_is_clipped_on_a_desktop_and_on_a_phone") else { return };
    for width in [1280, 390] {
        let found = browser.measured(width, &[]);
        assert_eq!(found["window"], width, "{found}");
        assert!(found["page"].as_u64() <= Some(width.into()), "the page scrolls sideways: {found}");
        assert_eq!(found["wide"], serde_json::json!([]), "{found}");
        assert_eq!(found["cut"], serde_json::json!([]), "text leaves its chart: {found}");
        let sections = ["verdict", "forest", "latency", "profile", "schedule", "limits", "host", "again"];
        assert_eq!(found["sections"], serde_json::json!(sections), "{found}");
        assert_eq!((&found["dark"], &found["paper"]), (&false.into(), &"rgb(255, 255, 255)".into()));
    }
}

#[test]
fn a_dark_browser_gets_a_dark_page() {
    let Some(browser) = browser("a_dark_browser_gets_a_dark_page") else { return };
    let found = browser.measured(1280, &["--blink-settings=preferredColorScheme=0"]);
    assert_eq!((&found["dark"], &found["paper"]), (&true.into(), &"rgb(20, 24, 29)".into()), "{found}");
}

#[test]
fn the_browser_has_no_complaint_and_sees_a_page_with_something_on_it() {
    let Some(browser) = browser("the_browser_has_no_complaint_and_sees_a_page_with_something_on_it") else { return };
    let png = browser.path("page.png");
    let shot = format!("--screenshot={}", png.display());
    let stderr = browser.open("page.html", &[&shot, "--window-size=1280,1000"]).stderr;
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(!stderr.contains("CONSOLE"), "{stderr}");
    let png = fs::read(png).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 20_000, "an empty picture of {} bytes", png.len());
}

#[test]
fn it_prints() {
    let Some(browser) = browser("it_prints") else { return };
    let pdf = browser.path("page.pdf");
    browser.open("page.html", &[&format!("--print-to-pdf={}", pdf.display()), "--no-pdf-header-footer"]);
    let pdf = fs::read(pdf).unwrap();
    let pages = String::from_utf8_lossy(&pdf).matches("/Type /Page\n").count();
    assert!(pdf.starts_with(b"%PDF") && (2..=20).contains(&pages), "{pages} pages");
}
