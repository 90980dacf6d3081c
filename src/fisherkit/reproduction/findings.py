"""What holds of each paper, what does not, and why: a short text each."""

FIGURE_FINDINGS: dict[str, str] = {}
