"""The modules of the site's builder can be imported."""

import sys
from pathlib import Path

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_extensions"

if str(EXTENSIONS) not in sys.path:
    sys.path.append(str(EXTENSIONS))
