"""DEFINE: what several recipe files say together, their conditions, and where a value is from."""
