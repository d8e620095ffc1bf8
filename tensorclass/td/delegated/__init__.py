"""Methods of collections whose work is done outside the engine: signatures, docstrings and the names of functions.

Each module has the methods of one subject. :func:`.declaration.delegated` turns a declaration into a method.
"""
