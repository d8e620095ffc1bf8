"""Configuration of the site: ``make docs`` builds it from the pages of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from tensorclass.support.version import VERSION

project = "tensorclass"
author = "The tensorclass authors"
copyright = "The tensorclass authors"
version = release = VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "repository_links"]
exclude_patterns = ["_*"]

# --- pages ------------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# --- looks ------------------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "tensorclass"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
