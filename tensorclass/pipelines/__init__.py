"""Typed pipelines: stages from record to record, joined with ``>>``."""
