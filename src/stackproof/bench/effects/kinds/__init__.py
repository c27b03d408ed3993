"""Arms made ready, a module for each kind that is no image."""
