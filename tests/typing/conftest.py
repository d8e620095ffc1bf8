"""The corpus is read by type checkers, not collected."""

collect_ignore = ["corpus"]
