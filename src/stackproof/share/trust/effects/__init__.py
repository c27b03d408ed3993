"""Seals made and looked at: what of trust reaches the machine by itself."""
