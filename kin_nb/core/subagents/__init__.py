"""Subagents: an agent inside a call of another one, with a conversation of its own and less that it may do.

Owns the profiles (profiles.py) and the run of one task (subagent.py). A subagent never gets more than its parent: the same
person is asked, by the same rules, for the same grants. Never draws, never writes into the session's log.
May import: core.agent and what that imports.
"""

from kin_nb.core.subagents.profiles import PROFILES, Profile
from kin_nb.core.subagents.subagent import run_subagent

__all__ = ["PROFILES", "Profile", "run_subagent"]
