"""The report in a real browser: drawn, offline, readable on a phone and in the dark."""

import base64
import json
import re
import shutil

import pytest
from selenium import webdriver

from need import need
from reportsamples import comparison_of, unsure, with_cells
from stackproof.compare.compare import compare
from stackproof.core.value import replace
from stackproof.knowledge.effects.load import load_curves
from stackproof.report.render import render_html
from synthetic import SIZES, Noise, Plan, fault, simulate, simulate_paths

pytestmark = pytest.mark.battery

DESKTOP = (1280, 900)
PHONE = (390, 844)
SLOW = {"mpich": {("inter-node", "latency"): {size: 1.5 for size in SIZES if size <= 1024}}}
DRAW = """
const done = arguments[0];
stackproofReport.ready.then(() => stackproofReport.drawAll()).then(() => done(true), done);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    plan = Plan(
        benchmarks=("latency", "bandwidth", "barrier"),
        sizes=(0, *SIZES),
        blocks=11,
        noise=Noise(launch=0.02, size=0.01),
        slower=SLOW,
    )
    results = fault(simulate(plan), "openmpi", [2], "validation-failed", "64 wrong bytes")
    html = render_html(compare(results), curves=load_curves())
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html)
    return path.as_uri()


@pytest.fixture(scope="module")
def paths_page(tmp_path_factory):
    comparison = compare(simulate_paths(blocks=6))
    path = tmp_path_factory.mktemp("paths") / "report.html"
    path.write_text(render_html(comparison, curves=load_curves()))
    return path.as_uri()


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    need("chromium")
    options = webdriver.ChromeOptions()
    profile = tmp_path_factory.mktemp("profile")
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--hide-scrollbars", f"--user-data-dir={profile}"):  # fmt: skip
        options.add_argument(word)
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    browser.set_script_timeout(60)
    yield browser
    browser.quit()


def show(driver, page, size, scheme="light"):
    """Load the page, draw every curve, and return the URLs that it asked for."""
    driver.get("about:blank")
    driver.get_log("browser")
    driver.get_log("performance")
    emulate(driver, scheme)
    width, height = size
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    driver.get(page)
    assert driver.execute_async_script(DRAW) is True
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def emulate(driver, scheme):
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )


def script(driver, text, *arguments):
    return driver.execute_script(f"return {text}", *arguments)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_loads_alone_and_without_an_error(driver, page, size, scheme):
    urls = show(driver, page, size, scheme)
    outside = [url for url in urls if not url.startswith(("file:///", "data:", "blob:"))]
    assert outside == []
    assert [url for url in urls if url.startswith("file:///")] == [page]
    assert driver.get_log("browser") == []
    assert script(driver, "document.getElementById('plot-problem').hidden")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_does_not_scroll_sideways(driver, page, size):
    show(driver, page, size)
    driver.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    assert script(driver, "document.documentElement.scrollWidth") == size[0]
    wide = script(
        driver,
        """[...document.querySelectorAll('h1, h2, h3, p, figure, .card, .scroll, pre, nav, summary')]
           .filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML)""",
    )
    assert wide == []


def test_every_curve_is_drawn(driver, page):
    show(driver, page, DESKTOP)
    counts = script(
        driver,
        """[...document.querySelectorAll('.plot')].map(
             (p) => p.querySelectorAll('.scatterlayer .trace').length)""",
    )
    assert len(counts) == 2 * 3
    assert min(counts) >= 4 + 3  # four arms, three of them with a ratio
    limit = "[...document.querySelectorAll('.annotation-text')].map((t) => t.textContent)"
    assert script(driver, limit) == ["limit 1,250 MB/s"]


def test_tables_hold_their_rows(driver, page):
    show(driver, page, DESKTOP)
    rows = """[...document.querySelectorAll('table')].find(
                (t) => t.caption.textContent === arguments[0])?.tBodies[0].rows"""
    label = "mpich against impi, inter-node"
    texts = script(driver, f"[...{rows}].map((r) => r.textContent)", label)
    assert [text.split("\u2715")[0].split("\u25cf")[0] for text in texts] == [
        "latency",
        "bandwidth",
        "barrier (no size)",
    ]
    assert "0.67 FAIL" in texts[0]
    every = "latency, inter-node: mpich against impi"
    assert script(driver, f"{rows}.length", every) == 1 + len(SIZES)
    discarded = script(driver, f"[...{rows}].map((r) => r.textContent)", "Discarded launches")
    assert len(discarded) == 2  # wrong bytes take no block along
    assert "validation-failed64" in discarded[0].replace("validation: ", "").replace("\n", "")


def test_dark_follows_the_reader(driver, page):
    show(driver, page, DESKTOP)
    colours = """[getComputedStyle(document.body).backgroundColor,
                  getComputedStyle(document.body).color,
                  document.querySelector('.plot .main-svg').style.background,
                  document.querySelector('.plot .xtick text').style.fill]"""
    light = script(driver, colours)
    emulate(driver, "dark")
    assert driver.execute_async_script(DRAW) is True
    dark = script(driver, colours)
    assert all(before != after for before, after in zip(light, dark, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(driver, page, scheme):
    """WCAG 2.2, criterion 1.4.3: at least 4.5 to 1 for text of ordinary size."""
    show(driver, page, DESKTOP, scheme)
    poor = script(
        driver,
        """(() => {
          const parse = (c) => (c.match(/[\\d.]+/g) ?? []).map(Number);
          const light = (c) => c.slice(0, 3).map((v) => v / 255)
            .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
          const behind = (e) => {
            for (; e; e = e.parentElement) {
              const c = parse(getComputedStyle(e).backgroundColor);
              if (c.length === 3 || c[3] > 0.99) return c;
            }
            throw new Error('no background');
          };
          return [...document.querySelectorAll('main *, header *')]
            .filter((e) => !e.closest('svg') && !e.closest('.plot'))
            .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
            .map((e) => {
              const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))]
                .sort((x, y) => y - x);
              return [(a + 0.05) / (b + 0.05), e.outerHTML.slice(0, 120)];
            }).filter(([contrast]) => contrast < 4.5);
        })()""",
    )
    assert poor == []


def test_arms_and_references_can_be_switched(driver, page):
    show(driver, page, DESKTOP)
    state = """({
      shown: document.querySelector('#panel-0').data.filter((t) => t.visible !== false).length,
      names: document.querySelector('#panel-0').data.map((t) => t.name),
      pressed: document.querySelector('#legend button').getAttribute('aria-pressed'),
    })"""
    before = script(driver, state)
    driver.execute_script("document.querySelector('#legend button').click()")
    driver.execute_async_script(DRAW)
    after = script(driver, state)
    assert (before["pressed"], after["pressed"]) == ("true", "false")
    assert after["shown"] == before["shown"] - 2  # its line and its band
    driver.execute_script(
        """document.querySelector(
             'input.reference[value="adastra-openmpi-inter-host-latency"]').click()"""
    )
    driver.execute_async_script(DRAW)
    added = set(script(driver, state)["names"]) - set(before["names"])
    assert len(added) == 1
    assert "adastra" in added.pop()


def test_pictures_are_drawn_as_the_reader_comes_to_them(driver, page):
    driver.get("about:blank")
    driver.get(page)
    driver.execute_async_script("const done = arguments[0]; stackproofReport.ready.then(done)")
    drawn = "document.querySelectorAll('.plot .main-svg').length"
    assert script(driver, drawn) == 0
    driver.execute_async_script(
        """const done = arguments[0];
           const plot = document.getElementById('panel-0');
           new MutationObserver((_, self) => {
             if (plot.querySelector('.main-svg')) { self.disconnect(); done(); }
           }).observe(plot, {childList: true, subtree: true});
           plot.scrollIntoView({behavior: 'instant'});"""
    )
    assert script(driver, drawn) > 0


def test_tables_are_there_without_javascript(driver, page):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get("about:blank")
        driver.get(page)
        text = driver.find_element("tag name", "body").text
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "mpich against impi" in text
    assert "The curves need JavaScript" in text


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_paths_are_drawn_and_nothing_lies_over_anything(driver, paths_page, size):
    show(driver, paths_page, size, "dark" if size == PHONE else "light")
    assert driver.get_log("browser") == []
    driver.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    assert script(driver, "document.documentElement.scrollWidth") == size[0]
    counts = script(
        driver,
        """[...document.querySelectorAll('.plot')].map(
             (p) => p.querySelectorAll('.scatterlayer .trace').length)""",
    )
    assert len(counts) == 3 * 2 + 2  # both at three placements, and between nodes over ranks
    assert min(counts) > 0
    over = script(
        driver,
        """(() => {
          const hits = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 &&
            a.top < b.bottom - 1 && b.top < a.bottom - 1;
          const found = [];
          const boxes = [[document.querySelectorAll('#legend button'), 'legend']];
          for (const plot of document.querySelectorAll('.plot')) {
            boxes.push([plot.querySelectorAll('.annotation-text'), plot.id]);
            boxes.push([plot.querySelectorAll('.xtick text'), plot.id]);
            boxes.push([plot.querySelectorAll('.ytick text'), plot.id]);
            const sheet = plot.getBoundingClientRect();
            for (const text of plot.querySelectorAll('.annotation-text, .xtick text, .ytick text, .g-xtitle text, .g-ytitle text')) {
              const box = text.getBoundingClientRect();
              if (box.left < sheet.left - 1 || box.right > sheet.right + 1 || box.bottom > sheet.bottom + 1) {
                found.push([plot.id, 'cut', text.textContent]);
              }
            }
          }
          for (const [list, id] of boxes) {
            const all = [...list].map((e) => [e.getBoundingClientRect(), e.textContent]);
            for (const [i, one] of all.entries()) {
              for (const other of all.slice(i + 1)) if (hits(one[0], other[0])) found.push([id, one[1], other[1]]);
            }
          }
          return found;
        })()""",
    )
    assert over == []


def test_paths_stand_in_the_legend_and_sizes_can_be_chosen(driver, paths_page):
    show(driver, paths_page, DESKTOP)
    texts = script(
        driver, "[...document.querySelectorAll('#legend button')].map((b) => b.textContent)"
    )
    assert "ompi-lnxlnx" in texts
    assert "impi (baseline)shm, tcp" in texts or "impi (baseline)tcp, shm" in texts
    figure = "document.querySelector('select.size').dataset.figure"
    values = f"document.getElementById({figure}).data.map((t) => [t.name, [...t.y]])"
    before = script(driver, values)
    driver.execute_script(
        """const choice = document.querySelector('select.size');
           choice.value = '65536';
           choice.dispatchEvent(new Event('change'));"""
    )
    driver.execute_async_script(DRAW)
    after = script(driver, values)
    assert [name for name, _ in before] == [name for name, _ in after]
    assert all(one != other for (_, one), (_, other) in zip(before, after, strict=True))
    said = "[...document.querySelectorAll('.annotation-text')].map((t) => t.textContent)"
    assert "validated, not timed" in script(driver, said)


def test_numbers_by_path_can_be_taken_along(driver, paths_page):
    show(driver, paths_page, DESKTOP)
    text = script(
        driver,
        "atob(document.querySelector('a[download]').href.split(',')[1]).split('\\r\\n')[0]",
    )
    assert text.startswith("placement,locality,nodes,ranks,program,benchmark,size_bytes")


# --- the first screen, paper, and what falls out ------------------------------------------------


@pytest.mark.parametrize("size", [(1400, 1000), (1024, 1000)], ids=["wide", "narrow"])
def test_the_picture_of_all_points_is_on_the_first_screen(driver, page, size):
    show(driver, page, size)
    box = script(
        driver, "document.querySelector('#picture table').getBoundingClientRect().toJSON()"
    )
    assert box["bottom"] < size[1]
    assert box["right"] <= size[0]
    tables = script(
        driver,
        """[...document.querySelectorAll('main table')].map(
             (t) => t.getBoundingClientRect().top)""",
    )
    assert box["bottom"] < min(top for top in tables if top > 0)


def test_marks_and_the_filter_work_without_a_script(driver, page):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get("about:blank")
        driver.get(page)
        shown = "tr:has(.chip)"
        before = [row for row in driver.find_elements("css selector", shown) if row.is_displayed()]
        driver.find_element("id", "failed-only").click()
        after = [row for row in driver.find_elements("css selector", shown) if row.is_displayed()]
        mark = driver.find_element("css selector", "#picture a:has(path.fail)")
        target = mark.get_dom_attribute("href")
        driver.get("about:blank")
        driver.get(f"{page}{target}")
        row = driver.find_element("id", target.lstrip("#"))
        reached = row.is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert reached
    assert len(before) > len(after) == 1


def test_a_link_opens_what_is_folded(driver, page):
    show(driver, page, DESKTOP)
    opened = """(() => {
      const mark = document.querySelector('#picture a:has(path.fail)');
      const row = document.querySelector(mark.getAttribute('href'));
      for (let f = row.closest('details'); f; f = f.parentElement.closest('details')) f.open = false;
      location.hash = mark.getAttribute('href');
      return row.id;
    })()"""
    name = script(driver, opened)
    driver.execute_async_script("setTimeout(arguments[0], 100)")
    assert driver.find_element("id", name).is_displayed()


@pytest.mark.parametrize("width", [768, 1024, 1280])
def test_five_arms_have_room_in_the_picture(driver, tmp_path, width):
    arms = ("openmpi-ofi-tcp", "openmpi-ofi-lnx", "openmpi-shm", "mpich", "mpich-4.3-ch4-ofi")
    plan = Plan(challengers=arms, sizes=(0, *SIZES), blocks=6, benchmarks=("latency", "barrier"))
    path = tmp_path / "report.html"
    path.write_text(render_html(compare(simulate(plan)), curves=load_curves()))
    show(driver, path.as_uri(), (width, 1000))
    scroll, table, strips = script(
        driver,
        """(() => {
          const scroll = document.querySelector('#picture .scroll');
          const strips = [...scroll.querySelectorAll('tbody svg')];
          return [[scroll.scrollWidth, scroll.clientWidth], strips.length,
                  Math.min(...strips.map((s) => s.getBoundingClientRect().width))];
        })()""",
    )
    assert scroll[0] == scroll[1]
    assert table >= 3 * len(arms)
    assert strips > 55


@pytest.mark.parametrize("width", [703, 725], ids=["A4", "Letter"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_paper_figures_stand_side_by_side_and_lose_nothing(driver, page, width, scheme):
    show(driver, page, (width, 1000), scheme)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": [
        {"name": "prefers-color-scheme", "value": scheme}]})  # fmt: skip
    try:
        driver.execute_async_script(
            "const done = arguments[0]; stackproofReport.paper(true).then(() => done(true));"
        )
        found = script(
            driver,
            """(() => {
              const sheets = [...document.querySelectorAll('figure')].map((f) => f.getBoundingClientRect());
              const cut = [...document.querySelectorAll('.plot')].flatMap((plot) => {
                const box = plot.closest('figure').getBoundingClientRect();
                return [...plot.querySelectorAll('.main-svg, .xtick text, .ytick text')]
                  .map((e) => e.getBoundingClientRect())
                  .filter((e) => e.right > box.right + 1 || e.left < box.left - 1).map((e) => [e.right, box.right]);
              });
              const over = sheets.flatMap((a, i) => sheets.slice(i + 1).filter((b) =>
                a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1));
              return {
                cut, over: over.length, right: Math.max(...sheets.map((s) => s.right)),
                columns: new Set(sheets.map((s) => Math.round(s.left))).size,
                tools: [...document.querySelectorAll('.modebar-container')].filter((e) => e.offsetParent !== null).length,
                paper: document.querySelector('.plot .main-svg').style.background,
                wide: [...document.querySelectorAll('table')].filter(
                  (t) => t.offsetParent !== null && t.getBoundingClientRect().right > innerWidth + 1)
                  .map((t) => t.caption.textContent),
              };
            })()""",
        )
    finally:
        driver.execute_async_script(
            "const done = arguments[0]; stackproofReport.paper(false).then(() => done(true));"
        )
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert found["cut"] == []
    assert (found["over"], found["columns"], found["tools"]) == (0, 2, 0)
    assert found["right"] <= width
    assert found["paper"] == "rgb(255, 255, 255)"
    assert found["wide"] == []


def test_a_report_has_ten_printed_pages_at_most_and_ends_soon_on_a_phone(driver, page):
    show(driver, page, PHONE)
    assert script(driver, "document.documentElement.scrollHeight") < 16000
    show(driver, page, (703, 1000))
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    pages = re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"]))
    assert 3 < len(pages) <= 10


def test_one_launch_that_fell_far_out_does_not_stretch_the_axes(driver, tmp_path):
    """One launch in eleven took a hundred times as long: a triangle says so, and axes stay."""
    results = simulate(
        Plan(benchmarks=("latency",), blocks=11, noise=Noise(launch=0.02, size=0.01))
    )
    spoiled = [
        replace(
            one,
            output=replace(
                one.output,
                series=tuple(
                    replace(s, values=tuple(v * 100 for v in s.values)) for s in one.output.series
                ),
            ),
        )
        if one.arm == "mpich" and one.block in {3, 4, 5}
        else one
        for one in results.measurements
    ]
    made = compare(replace(results, measurements=tuple(spoiled)))
    path = tmp_path / "report.html"
    path.write_text(render_html(made))
    show(driver, path.as_uri(), DESKTOP)
    ranges = script(
        driver,
        """(() => {
          const layout = document.querySelector('#panel-0')._fullLayout;
          const edges = document.querySelector('#panel-0').data.filter((t) => t.edge);
          return [layout.yaxis.range, layout.yaxis2.range, edges.map((t) => [t.meta, t.yaxis])];
        })()""",
    )
    values, ratios, edges = ranges
    panel = made.panels[0]
    medians = [point.median for arm in panel.arms for point in arm.points]
    assert 10 ** values[1] < 4 * max(medians)
    assert 10 ** ratios[0] > 0.3
    assert ["mpich", "y"] in edges


def test_slower_and_not_proven_has_its_own_mark_in_the_figures(driver, tmp_path):
    made = with_cells(comparison_of(), lambda cell: unsure(size=cell.size))
    path = tmp_path / "report.html"
    path.write_text(render_html(made))
    show(driver, path.as_uri(), DESKTOP)
    symbols = script(
        driver,
        """document.querySelector('#panel-0').data.filter((t) => t.meta === 'mpich')
             .flatMap((t) => t.marker ? [t.marker.symbol].flat() : [])""",
    )
    assert "triangle-down-open" in symbols
