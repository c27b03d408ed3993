"""PACK: a stack and its programs as files that run where nothing may be installed."""
