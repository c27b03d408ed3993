"""Facts of programs and libraries: ELF files, and what the dynamic loader would do with them."""
