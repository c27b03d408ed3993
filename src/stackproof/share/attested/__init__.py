"""What documents beside an image attest: who built it and from what, and what was measured."""
