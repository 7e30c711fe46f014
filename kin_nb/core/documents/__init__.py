"""A session as one JSON document, for programs and people: the seeds' forms of it, and the report of `kin-nb sessions`.

The log is what survives by itself; these are made of it, and an agent can be made of one again. May import all of core.
"""
