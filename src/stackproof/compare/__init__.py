"""JUDGE: results to curves, intervals and verdicts."""
