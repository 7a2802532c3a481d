"""The report of a backtest in headless Chromium; skipped where there is none."""

import base64
import json
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from forecast_unc import Forecaster, backtest, baselines, datasets
from forecast_unc.evaluation import report as page

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
BROWSER, DRIVER = (
    shutil.which("chromium") or shutil.which("google-chrome"),
    shutil.which("chromedriver"),
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (BROWSER and DRIVER), reason="needs Chromium and its driver (chromium, chromium-driver)"
    ),
]
SCRIPT = "</title></script><script>window.pwned = 1</script>"
IMAGE = '"><img src="http://127.0.0.1:9/x" onerror="window.pwned = 2">'
WIDE, NARROW = 1280, 390  # pixels: a desktop, a phone
SCORES, BY_STEP = "Scores by model:", "Scores by model and step"


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def result():
    compare = {IMAGE: "naive propagation", "last season": baselines.SeasonalNaive()}
    y = datasets.load_nile().rename(SCRIPT)
    return backtest(Forecaster(lags=2), y, 6, origins=7, compare=compare)


@pytest.fixture(scope="module")
def folder(result, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    result.report(folder / "report.html")
    return folder


@pytest.fixture
def shown(browser, folder):
    """The browser with the page just loaded from its file, its logs empty before."""
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get((folder / "report.html").as_uri())
    return browser


def find(browser, caption):
    return browser.find_element("xpath", f"//table[caption[contains(., '{caption}')]]")


def column(table, head):
    """Texts of a column of a table, from the top."""
    heads = [cell.text.split()[0] for cell in table.find_elements("css selector", "thead th")]
    at = heads.index(head) + 1
    return [c.text for c in table.find_elements("css selector", f"tbody tr > :nth-child({at})")]


def click(table, head):
    for button in table.find_elements("css selector", "thead button"):
        if button.text == head:
            button.click()
            return button.find_element("xpath", "..").get_attribute("aria-sort")
    raise AssertionError(head)


def test_the_figures_of_the_page_are_those_of_the_backtest(shown, result):
    scores, table = result.scores(), find(shown, SCORES)
    assert column(table, "model") == list(scores.index)
    for name in scores.columns:
        assert column(table, name) == [page.number(value, even=True) for value in scores[name]]
    loaded = "return [...document.images].every(i => i.complete && i.naturalWidth > 100)"
    assert shown.execute_script(loaded)
    assert shown.execute_script("return document.images.length") == 8


def test_a_click_on_a_head_sorts_and_another_turns_it_round(shown, result):
    scores, table = result.scores(), find(shown, SCORES)
    for name in ("MAE", "CRPS"):
        expected = list(scores[name].sort_values().index)
        assert click(table, name) == "ascending"
        assert column(table, "model") == expected
        assert click(table, name) == "descending"
        assert column(table, "model") == expected[::-1]
    assert len(table.find_elements("css selector", "[aria-sort]")) == 1
    click(table, "model")
    assert column(table, "model") == sorted(scores.index)


def test_numbers_are_sorted_as_numbers_and_undefined_ones_come_last(shown, result):
    test, table = result.significance(by="step")["difference"], find(shown, BY_STEP)
    undefined = len(result.scores(["model", "step"])) - len(test)
    for turned in (False, True):
        click(table, "difference")
        expected = [page.number(value, even=True) for value in sorted(test, reverse=turned)]
        assert column(table, "difference") == expected + ["–"] * undefined


def test_heads_can_be_reached_and_pressed_by_the_keyboard(shown):
    shown.execute_script("arguments[0].querySelector('thead button').focus()", find(shown, SCORES))
    shown.switch_to.active_element.send_keys("\ue007")  # Enter
    head = shown.switch_to.active_element.find_element("xpath", "..")
    assert head.get_attribute("aria-sort") == "ascending"


def test_no_script_of_a_name_runs_and_nothing_is_loaded(shown, folder):
    assert shown.execute_script("return window.pwned") is None
    assert shown.title == shown.find_element("css selector", "h1").text == f"Backtest of {SCRIPT}"
    assert shown.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in shown.get_log("performance")]
    requested = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert {url for url in requested if not url.startswith("data:")} == {
        (folder / "report.html").as_uri()
    }


def test_the_policy_stops_what_escaping_would_have_missed(shown):
    shown.execute_script("document.body.insertAdjacentHTML('beforeend', arguments[0])", IMAGE)
    shown.execute_async_script("setTimeout(arguments[0], 200)")
    assert shown.execute_script("return window.pwned") is None
    said = " ".join(entry["message"] for entry in shown.get_log("browser"))
    assert "Content Security Policy" in said


def test_a_server_is_asked_for_the_page_alone(browser, folder):
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def log_request(self, code="-", size="-"):
            asked.append((self.path, int(code)))

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        browser.get(f"http://127.0.0.1:{server.server_port}/report.html")
        browser.execute_async_script("setTimeout(arguments[0], 200)")
        assert browser.title.startswith("Backtest of")
    finally:
        browser.get("about:blank")  # ends the connection that the browser keeps
        server.shutdown()
        server.server_close()
        thread.join()
    assert asked == [("/report.html", 200)]


def look(browser, width, path, scheme="light"):
    """Set the width of the screen and the color scheme, and take a picture of the whole page."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == NARROW}
    scheme = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    height = browser.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    picture = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
    )
    path.write_bytes(base64.b64decode(picture["data"]))


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_nothing_is_wider_than_the_screen(shown, width, tmp_path):
    look(shown, width, tmp_path / f"report_{width}.png")
    assert (tmp_path / f"report_{width}.png").stat().st_size > 20_000
    assert shown.execute_script("return document.documentElement.scrollWidth") <= width
    outside = shown.execute_script(
        "return [...document.querySelectorAll('h1, h2, p, dd, li, img, caption span, .table')]"
        ".filter(e => e.getBoundingClientRect().right > arguments[0]).length",
        width,
    )
    assert outside == 0
    boxes = shown.execute_script(
        "return [...document.querySelectorAll('.table')].map(e => [e.scrollWidth, e.clientWidth])"
    )
    if width == NARROW:  # there tables scroll in their boxes
        assert any(inner > box for inner, box in boxes)
    letters = "return parseFloat(getComputedStyle(document.querySelector(arguments[0])).fontSize)"
    assert min(shown.execute_script(letters, name) for name in ("p", "td", "caption")) >= 14


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_in_light_and_in_dark(shown, scheme, tmp_path):
    look(shown, WIDE, tmp_path / f"report_{scheme}.png", scheme)

    def luminance(element, name):
        style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        numbers = shown.execute_script(style, element, name).partition("(")[2].rstrip(")")
        rgb = np.array([float(part) for part in numbers.split(",")[:3]]) / 255
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    paper = luminance("body", "backgroundColor")
    assert (paper < 0.2) == (scheme == "dark")
    for element in ("p", "td", "caption", "dt", "a", "figcaption"):
        ink = luminance(element, "color")
        # Contrast as WCAG 2.1 defines it; 4.5 is its rule for small letters.
        contrast = (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)
        assert contrast >= 4.5


def test_the_page_prints_whole(shown):
    paper = {"width": 718, "height": 1040, "deviceScaleFactor": 1, "mobile": False}  # of A4
    shown.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", paper)
    shown.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    try:
        cut = shown.execute_script(
            "return [...document.querySelectorAll('.table')].filter(e =>"
            " e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1).length"
        )
        assert cut == 0
        assert shown.execute_script("return document.documentElement.scrollWidth") <= 718
    finally:
        shown.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        shown.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
