"""What a launch is: its case, what was measured, the path it took, and the digests of all."""
