"""`python -m kin_nb.cli`."""

import sys

from kin_nb.cli.main import main

sys.exit(main())
