"""What type checkers need to see records: a plugin for mypy, and generated stubs for the others."""
