"""What is known, read once for all tests of a run.

from knowing import KNOWLEDGE
"""

from __future__ import annotations

from stackproof.knowledge.effects.load import load_knowledge

KNOWLEDGE = load_knowledge()
