"""What speaks for or against an injection: one module for each kind of reason."""
