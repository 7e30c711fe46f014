"""Who else hears of a session's events: a log of JSON lines, OpenTelemetry traces, counters for Prometheus.

Off unless the user's own settings ask for it; nothing of it is imported then. An observer only listens: it never changes,
delays or breaks a turn, and one that fails is dropped with a warning. Contents leave the session only when asked for, and
redacted. May import: core.events, core.wire, core.config, core.paths; on first use opentelemetry.
"""

from kin_nb.core.observability.observer import Observed, Observer
from kin_nb.core.observability.observers import Observers, observers_for

__all__ = ["Observed", "Observer", "Observers", "observers_for"]
