"""Words of others on a terminal: nothing in them may steer it."""

from __future__ import annotations

import unicodedata


def printable(words: object, *, lines: bool = False) -> str:
    r"""Text with control and direction characters written out, such as ``\x1b``.

    They could move the cursor, hide what is shown or reverse its order. ``lines`` keeps line ends.

    Examples
    --------
    >>> from fisherkit.terminal import printable
    >>> print(printable("age\x1b[2J"))
    age\x1b[2J
    """
    return "".join(
        character
        if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        or (lines and character == "\n")
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in str(words)
    )
