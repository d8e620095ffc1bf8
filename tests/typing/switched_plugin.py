"""mypy's plugin of the package, where ``TENSORCLASS_PLUGIN`` is 1, and none elsewhere.

mypy reads nothing of torch that it wrote with other plugins. All projects of tests name this one, so that it reads
torch, which takes it half a minute, once for all of them.
"""

import os

from mypy.plugin import Plugin

from tensorclass.typing import mypy_plugin

__version__ = mypy_plugin.__version__


def plugin(version: str) -> type[Plugin]:
    """Return the class that mypy asks for."""
    return mypy_plugin.plugin(version) if os.environ.get("TENSORCLASS_PLUGIN") == "1" else Plugin
