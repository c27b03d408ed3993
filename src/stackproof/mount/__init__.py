"""DEPLOY: images mounted for commands, shells and jobs."""
