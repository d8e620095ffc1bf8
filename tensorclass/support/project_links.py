"""Addresses of the project's pages; ``[project.urls]`` in ``pyproject.toml`` has the same."""

from typing import Final

__all__ = ["DOCUMENTATION", "SOURCE", "guide"]

#: the built site, with a slash at the end
DOCUMENTATION: Final = "https://tensorclass.readthedocs.io/en/stable/"

#: the repository, without a slash at the end
SOURCE: Final = "https://github.com/tensorclass/tensorclass"


def guide(name: str) -> str:
    """Return the address of a page of ``docs/``.

    Args:
        name: the file, without its ending, such as ``"scores"``.

    Example:
        >>> from tensorclass.support.project_links import guide
        >>> guide("scores")
        'https://tensorclass.readthedocs.io/en/stable/scores.html'
    """
    return f"{DOCUMENTATION}{name}.html"
