"""Support for type checkers: a plugin for mypy, and generated stubs for the others."""
