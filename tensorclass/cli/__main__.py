"""``python -m tensorclass.cli``."""

import sys

from tensorclass.cli import main

sys.exit(main())
