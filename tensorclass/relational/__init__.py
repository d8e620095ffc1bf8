"""Rows by their values: filter, sort, find distinct ones, group, join and split. README.md in this folder says how."""
