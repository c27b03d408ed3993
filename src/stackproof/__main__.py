"""`python -m stackproof`."""

from stackproof.cli import main

main()
