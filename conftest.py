"""Let nbval run cells as Jupyter does: counted.

nbval asks the kernel not to store history, and then every cell is number 1. Pictures and
sentences name the cell that a line stands in, so they would say ``In [1]`` for all of them.
"""

from __future__ import annotations

from nbval.kernel import RunningKernel


def _execute_cell_input(
    self: RunningKernel, cell_input: str, allow_stdin: bool | None = None
) -> str:
    message_id: str = self.kc.execute(
        cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False
    )
    return message_id


RunningKernel.execute_cell_input = _execute_cell_input


def pytest_collection_modifyitems(items):
    """Run the browser tests last: Playwright's event loop runs on, and asyncio.run wants none."""
    items.sort(key=lambda item: item.nodeid.startswith("tests/browser/"))
