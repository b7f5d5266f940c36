"""``python -m secondpass [--report FILE] [--html FILE] script.py|-m module [args]``.

Runs a program as Python would and, should it end in one of autograd's errors, explains it below
the traceback.
"""

from __future__ import annotations

import sys

from secondpass.command import main

if __name__ == "__main__":
    main(sys.argv[1:])
