"""Converters of Python objects: dicts, lists, tuples, classes, pytrees."""
