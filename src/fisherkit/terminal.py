"""Text for a terminal: counts, texts that come from elsewhere, closed pipes."""

from __future__ import annotations

import os
import sys
import unicodedata


def counted(number: int, thing: str) -> str:
    """A number of things, in words.

    Examples
    --------
    >>> from fisherkit.terminal import counted
    >>> counted(1, "row"), counted(1234, "column")
    ('1 row', '1234 columns')
    """
    return f"{number} {thing}{'s' * (number != 1)}"


def sized(count: float) -> str:
    """Bytes in the unit that suits them.

    Examples
    --------
    >>> from fisherkit.terminal import sized
    >>> sized(1536), sized(2.5e9)
    ('1.5 kB', '2.33 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1024 or unit == "GB":
            break
        count /= 1024
    return f"{count:.3g} {unit}"


def lasting(seconds: float) -> str:
    """A time to about two digits.

    Examples
    --------
    >>> from fisherkit.terminal import lasting
    >>> lasting(0.3), lasting(47.1), lasting(130), lasting(9000)
    ('1 s', '47 s', '2.2 minutes', '2.5 hours')
    """
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 6000:
        return f"{seconds / 60:.2g} minutes"
    hours = seconds / 3600
    return f"{hours:.2g} hours" if hours < 100 else f"{round(hours):,} hours"


def spent(seconds: float, *, held_out: bool) -> str:
    """The time of a training, and what it was spent on.

    Examples
    --------
    >>> from fisherkit.terminal import spent
    >>> spent(1.234, held_out=False)
    '1.23 s for reading and fitting'
    """
    work = "reading, estimating the error and fitting" if held_out else "reading and fitting"
    return f"{seconds:.2f} s for {work}"


def close_broken_pipes() -> None:
    """Redirect output whose reader has closed the pipe, so that Python exits without an error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def printable(words: object, *, lines: bool = False) -> str:
    r"""Text with control and direction characters written out, such as ``\x1b``.

    They could move the cursor, hide text or reverse its order. ``lines`` keeps line ends.

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


def percent(rate: float) -> str:
    """A share in percent, with a decimal; two digits where it is small."""
    digits = ".1f" if rate >= 0.01 or rate == 0 else ".2g"
    return f"{100 * rate:{digits}}\N{NO-BREAK SPACE}%"


def amount(value: float) -> str:
    """A number in four digits, or as a whole number with its thousands apart.

    Examples
    --------
    >>> from fisherkit.terminal import amount
    >>> amount(0.123456), amount(-250000.4), amount(1e20)
    ('0.1235', '-250,000', '1e+20')
    """
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"
