"""An explanation as HTML: what a terminal shows by indents, as facts, code and reasons.

The first line says what happened. A line that is indented is a fact, or a change to make; one that
is indented further gives the reason for the line above it. After ``:`` and two spaces stands code.
"""

from __future__ import annotations

import html
import re

from secondpass.picture.fitting import visible

SAID_BY = "secondpass: "
CHANGES = ("Change", "And", "Or")


def typeset(words: str) -> str:
    r"""Return an explanation's words as HTML.

    Examples
    --------
    >>> print(typeset("secondpass: a call stopped, line 2:  y.backward()\n  It was freed."))
    <div class="explanation">
    <p class="what">A call stopped, line 2: <code>y.backward()</code></p>
    <p class="fact">It was freed.</p>
    </div>
    """
    parts = []
    for line in visible(words).splitlines():
        text = line.lstrip()
        indent = len(line) - len(text)
        if not text:
            continue
        if not indent:
            text = text.removeprefix(SAID_BY)
            text = text[:1].upper() + text[1:]
        kind = "what" if not indent else "why" if indent > 2 else "fact"
        if kind == "fact" and text.startswith(CHANGES) and re.match(r"\w+[,:]", text):
            kind = "change"
        parts.append(f'<p class="{kind}">{_with_code(text)}</p>')
    return "\n".join(['<div class="explanation">', *parts, "</div>\n"]) if parts else ""


def _with_code(text: str) -> str:
    said, colon, code = text.partition(":  ")
    said = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(said))
    return f"{said}: <code>{html.escape(code)}</code>" if colon else said
