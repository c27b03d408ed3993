"""MEASURE: benchmark programs of all arms, launched in blocks, with evidence of their paths."""
