"""A page of the built site, as its readers see it."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
