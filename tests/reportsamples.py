"""Comparisons to render, and what reads the page that is made of them."""

from html.parser import HTMLParser

from stackproof.compare.compare import compare
from stackproof.compare.model import Cell, CompareOptions, Verdict, Why
from stackproof.core.value import replace
from synthetic import SIZES, Noise, Plan, fault, simulate

FAST = CompareOptions()
SLOW = {"mpich": {("inter-node", "latency"): {size: 1.5 for size in SIZES if size <= 1024}}}
VOID = {"br", "col", "hr", "input", "link", "meta"}


class Page(HTMLParser):
    """Checks that every element is closed, and collects text, ids, links and scripts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.attributes, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, *pair) for pair in attrs]
        self.ids += [value for key, value in attrs if key == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def comparison_of(**changes):
    plan = {
        "challengers": ("mpich", "openmpi"),
        "benchmarks": ("latency", "bandwidth", "barrier"),
        "noise": Noise(launch=0.01, size=0.01),
        "slower": SLOW,
        "blocks": 11,
        **changes,
    }
    return compare(fault(simulate(Plan(**plan)), "openmpi", [2], "wrong-transport", "eth9"), FAST)


def unsure(**changes):
    cell = Cell(
        size=8, blocks=10, verdict=Verdict.INCONCLUSIVE, margin=0.05, why=Why.CHANCE, ratio=0.68,
        low=0.67, high=0.69, launches_needed=14,
    )  # fmt: skip
    return replace(cell, **changes)


def with_cells(comparison, change):
    """Return the comparison with every cell of mpich between nodes changed."""

    def changed(panel):
        judgements = [
            replace(one, cells=tuple(map(change, one.cells)))
            if one.arm == "mpich" and panel.curve.placement == "inter-node"
            else one
            for one in panel.judgements
        ]
        return replace(panel, judgements=tuple(judgements))

    return replace(comparison, panels=tuple(map(changed, comparison.panels)))
