"""`python -m querymode`."""

import sys

from querymode.cli import main

sys.exit(main())
