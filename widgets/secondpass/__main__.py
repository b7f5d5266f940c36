"""``python -m secondpass [--report FILE] [--html FILE] script.py|-m module [args]``.

Runs a program as Python would and, should it end in one of autograd's errors, explains it below
the traceback.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # What lies in the folder that -m puts first is the person's: an ``inspect.py`` there is not
    # what our imports mean.
    first = None if sys.flags.safe_path else sys.path.pop(0)
    from secondpass.command import prepare

    program = prepare(sys.argv[1:], first)
    try:  # here, and not further in: the program is to find few frames around itself
        if program.code is not None:
            exec(program.code, program.names)
        else:
            program.run_module()
    except BaseException as error:
        program.ending.end_in(error, sys._getframe().f_code)
        raise
