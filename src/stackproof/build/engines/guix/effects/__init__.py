"""Effects of `build/engines/guix` on the machine."""
