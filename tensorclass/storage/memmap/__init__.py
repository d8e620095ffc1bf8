"""Folders of memory-mapped files."""
