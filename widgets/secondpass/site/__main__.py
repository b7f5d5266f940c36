"""``python -m secondpass.site [notebooks] [--to site]``: build the course as pages."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

TITLE = "Backward, a second time"


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(
        prog="python -m secondpass.site",
        description="Build a folder of notebooks as pages that replay with no kernel and no "
        "network, with an index and a gallery of errors. Every notebook is run.",
    )
    parser.add_argument(
        "notebooks",
        nargs="?",
        type=Path,
        default=Path("notebooks"),
        help="the folder (%(default)s)",
    )
    parser.add_argument(
        "--to", type=Path, default=Path("site"), help="the folder to write into (%(default)s)"
    )
    parser.add_argument("--title", default=TITLE, help="the name of the course (%(default)s)")
    parser.add_argument(
        "--launch",
        default="",
        metavar="URL",
        help="where a notebook can be run, with {notebook} in place of its name: on Binder, say",
    )
    parser.add_argument(
        "--only",
        nargs="*",
        metavar="NAME",
        help="build only these notebooks and gallery pages, by the beginning of their names",
    )
    options = parser.parse_args(arguments)
    try:
        from secondpass.site.build import build
    except ImportError as error:
        sys.exit(
            f"secondpass: building pages needs {error.name}: "
            "python -m pip install 'secondpass[site]'"
        )
    try:
        build(
            options.notebooks,
            options.to,
            title=options.title,
            launch=options.launch,
            only=options.only,
            say=print,
        )
    except ValueError as error:
        sys.exit(f"secondpass: {error}")


if __name__ == "__main__":
    main()
