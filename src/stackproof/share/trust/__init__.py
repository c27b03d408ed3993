"""Who signed an image, and whether that is enough for a site: statements, signatures, policies."""
