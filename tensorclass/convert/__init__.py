"""Converters: collections and records from other formats, and back. README.md in this folder says how they are made.

Methods of collections name the module here that they stand for, and import it when they are called first.
"""
