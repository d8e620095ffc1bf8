"""``python -m tensorclass``: the command."""

import sys

from tensorclass.cli import main

if __name__ == "__main__":
    sys.exit(main())
