"""SHOW: a comparison as a page, as Markdown, and as text for a terminal."""
