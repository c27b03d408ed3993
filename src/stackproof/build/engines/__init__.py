"""The engines, a folder each: `build.effects.builders` has the registry."""
