"""Parallel ``map`` over the rows of a collection."""
