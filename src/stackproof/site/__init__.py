"""DEFINE: what a machine offers, and how that is found out."""
