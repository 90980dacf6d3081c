"""What holds of each paper, what does not, and why."""

FINDINGS: dict[str, str] = {}
