"""Addresses of the project's pages; ``[project.urls]`` in ``pyproject.toml`` has the same."""

from typing import Final

__all__ = ["DOCUMENTATION", "SOURCE"]

#: the built site, with a slash at the end
DOCUMENTATION: Final = "https://tensorclass.readthedocs.io/en/stable/"

#: the repository, without a slash at the end
SOURCE: Final = "https://github.com/tensorclass/tensorclass"
