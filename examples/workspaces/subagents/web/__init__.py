"""The page on the web: sentences that a screen reader can read."""
