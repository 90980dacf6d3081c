"""One self-contained HTML page about a trained classifier.

The page is data and a small program. `describe` gathers everything it says and shows into plain
dictionaries (`blocks` names the kinds), `left_out_scores` adds what the sliders count as packed
arrays, and `render` puts both into the template of ``assets`` with its style and
scripts. The scripts draw what the data says: ``page.js`` sections, ``charts.js`` figures (by
Observable Plot, an SVG library), ``counting.js`` counts left-out rows for the sliders of
``live.js``.

Nothing of the data becomes markup. It travels as JSON in which ``<``, ``>`` and ``&`` are escaped,
and enters the page as text nodes. As a second lock, the page's content security policy names the
hashes of its own scripts and forbids every other one, and all network access.
"""

from fisherkit.report.page import render

__all__ = [
    "render",
]
