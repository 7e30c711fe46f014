"""What tells a loop from progress: calls that repeat, cycles, near repeats, endless text (seed 004).

Pure state: no I/O, no clock, nothing but the last calls. `core.context.loop_detector` puts the parts together; what is
done about a loop is the turn's business. May import: core.session.records.
"""

from kin_nb.core.context.loops.loop import Loop
from kin_nb.core.context.loops.similarity import EmbeddingSimilarity, ShingleSimilarity, Similarity

__all__ = ["EmbeddingSimilarity", "Loop", "ShingleSimilarity", "Similarity"]
