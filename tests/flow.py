"""A flow: a skill that is a diagram. It runs the tests, and fixes until they pass."""

from __future__ import annotations

FLOW = """---
name: mend
description: Mends
type: flow
---
```mermaid
flowchart TD
    BEGIN --> run[Run the tests.]
    run --> passed{Do they pass?}
    passed -->|yes| END
    passed -->|no| mend[Mend the first.]
    mend --> run
```
"""
