"""The workspace's files: which are known (store), which may have changed (watcher).

`FileIndexer` (indexer.py) puts them together. Never raises for what it finds on the disk: a folder that can't be read
is empty. Knows nothing of prompts. May import: core.safety's workspace, the standard library.
"""
