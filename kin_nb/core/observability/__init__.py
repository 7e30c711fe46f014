"""Observers of a session's events: a log of JSON lines, OpenTelemetry traces, counters for Prometheus.

They are off, and not imported, unless the user's own settings turn them on. An observer never changes, delays or ends a
turn, and one that fails is removed with a warning. Prompts, outputs and other contents are included only if the settings
say so, and are redacted. May import: core.events, core.wire, core.config, core.paths; on first use opentelemetry.
"""

from kin_nb.core.observability.observer import Observed, Observer
from kin_nb.core.observability.observers import Observers, observers_for

__all__ = ["Observed", "Observer", "Observers", "observers_for"]
