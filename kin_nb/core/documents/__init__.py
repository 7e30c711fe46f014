"""Session documents: a session as one JSON document, and the tables of `kin-nb sessions`.

Owns the two JSON forms of the public API (`Session`, `InteractionLogger`) and the check of a document that is loaded.
Never writes the session log, which is saved by itself; documents are made from it. May import all of core.
"""
