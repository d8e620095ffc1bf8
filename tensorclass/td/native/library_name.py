"""The name of a library: for which torch, from which sources.

This module imports nothing of the package: wheels are built with it.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from pathlib import Path

PREFIX = "_native_torch_"

SOURCES = Path(__file__).parent / "source"


def served_version(torch_version: str) -> str:
    """Return the versions of torch that one library serves: those with the same C++ interface.

    No library of CUDA is linked, so all builds of a version have one. Before a release the interface changes from day
    to day, so the whole version counts.

    >>> served_version("2.13.0+cpu"), served_version("2.13.1+cu130"), served_version("2.16.0.dev20261101")
    ('2.13', '2.13', '2.16.0.dev20261101')
    """
    version = torch_version.partition("+")[0]
    release = re.fullmatch(r"(\d+\.\d+)\.\d+", version)
    return release[1] if release else version


@cache
def fingerprint(sources: Path) -> str:
    """Return twelve hexadecimal digits of a hash over the names and contents of the sources in a folder."""
    digest = sha256()
    for source in sorted(sources.iterdir()):
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def library_name(torch_version: str, sources: Path = SOURCES) -> str:
    """Return the name of the library made from a folder of sources for a version of torch."""
    return f"{PREFIX}{in_a_name(served_version(torch_version))}_{fingerprint(sources)}"


def in_a_name(version: str) -> str:
    """Return a version in the form in which it is part of the name of a library."""
    return "".join([character if character.isalnum() else "_" for character in version])
