"""The Guix engine: a manifest and channels for Guix, and its pack read into an image of ours."""
