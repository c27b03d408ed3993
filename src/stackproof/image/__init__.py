"""IMAGE: what an image is, what it says of itself, and what jobs see of it."""
