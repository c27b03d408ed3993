"""What is known of settings, problems and curves, and the noun of evidence."""
