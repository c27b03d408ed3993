"""The report's outline: headings, tables with their columns and rows, figures, in order.

Numbers are replaced by `#`, so that only a change of structure changes the outline. After a wanted
change write it again: STACKPROOF_WRITE_GOLDEN=1 python -m pytest tests/report/test_report_golden.py
"""

import os
import re
from html.parser import HTMLParser
from pathlib import Path

from stackproof.compare.compare import compare
from stackproof.core.value import replace
from stackproof.knowledge.effects.load import load_curves
from stackproof.report.render import render_html
from synthetic import Noise, Plan, fault, simulate

GOLDEN = Path(__file__).parents[1] / "golden" / "report-outline.txt"
SHOWN = {"h1", "h2", "h3", "h4", "caption", "summary", "figcaption", "th", "label", "button", "a"}


class Outline(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.lines, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag in SHOWN:
            self.open.append([tag, ""])

    def handle_data(self, data):
        if self.open:
            self.open[-1][1] += data

    def handle_endtag(self, tag):
        if self.open and self.open[-1][0] == tag:
            name, words = self.open.pop()
            self.lines.append(f"{name}: {re.sub('[0-9.]+', '#', ' '.join(words.split()))}".strip())


def outline():
    """Return the outline of a report with one of everything."""
    plan = Plan(
        challengers=("mpich",),
        benchmarks=("latency", "bandwidth", "barrier"),
        sizes=(8, 128, 1024, 262144, 1 << 20),
        blocks=11,
        noise=Noise(launch=0.003, size=0.003, block=0.01),
        slower={"mpich": {("inter-node", "latency"): {8: 1.6, 128: 1.6}}},
    )
    results = fault(simulate(plan), "mpich", [2], "wrong-transport", "eth9")
    results = replace(results, spec=replace(results.spec, launches=11))
    html = render_html(compare(results), curves=load_curves())
    return "\n".join(Outline(html).lines) + "\n"


def test_outline():
    found = outline()
    if os.environ.get("STACKPROOF_WRITE_GOLDEN"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()
