"""The one way to take a foreign tree apart, and to read what came out of it."""
