"""What a job printed, taken apart: its lines, what happened in which order, and who said so."""
