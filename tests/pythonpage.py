"""The programs of the page on Python, by the words in front of them."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "use-from-python.md"


def programs() -> dict[str, str]:
    """Return each program by the word that its section begins with."""
    found = re.findall(
        r"^\*\*(\w+)\.\*\*.*?^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return dict(found)
