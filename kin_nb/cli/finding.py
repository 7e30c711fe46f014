"""What `kin-nb doctor` says about one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """`how` it is, without a full stop; `advice`: what to do, sentences, "" when there is nothing to do."""

    status: Literal["ok", "warn", "fail"]
    what: str
    how: str
    advice: str = ""

    def line(self) -> str:
        return f"{self.status:<4}  {self.what}: {self.how}.{f' {self.advice}' if self.advice else ''}"
