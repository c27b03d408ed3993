"""SHARE: images by label, in a repository that uenv and stackproof both use, and in registries."""
