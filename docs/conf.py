"""Configuration of the site: ``make docs`` builds it from the pages of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from tensorclass.support.project_links import DOCUMENTATION, SOURCE
from tensorclass.support.version import VERSION

project = "tensorclass"
author = "The tensorclass authors"
copyright = "The tensorclass authors"
version = release = VERSION

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "code_blocks",
    "observed_tables",
    "paragraph_anchors",
    "python_links",
    "reference",
    "repository_links",
]
exclude_patterns = ["_*"]

# --- pages ------------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# --- reference --------------------------------------------------------------------------------------------------------

add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 100
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Source"]

# --- looks ------------------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "tensorclass"
html_baseurl = DOCUMENTATION
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_sidebars = {"tutorial": [], "search": []}  # pages of no section
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"tutorial": []}  # no other page is in its section
html_theme_options = {
    "logo": {"text": "tensorclass", "image_light": "_static/mark.svg", "image_dark": "_static/mark.svg"},
    "icon_links": [{"name": "Source", "url": SOURCE, "icon": "fa-brands fa-github"}],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
