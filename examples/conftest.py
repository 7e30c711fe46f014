"""`pytest --nbval examples/` checks the notebooks. Their workspaces have tests of their own, which fail on purpose."""

collect_ignore = ["workspaces"]
