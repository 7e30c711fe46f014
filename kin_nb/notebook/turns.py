"""The turns of one cell: one for a prompt, several one after another for a flow. Each is shown and recorded by itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from kin_nb.core.agent import Agent
from kin_nb.core.events import BaseEvent
from kin_nb.core.questions import AskQuestion, Question
from kin_nb.core.safety.callbacks import Ask
from kin_nb.core.safety.decision import ApprovalRequest
from kin_nb.notebook.approval import CardPlace, choose_channel, choose_question_channel
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.cell_view import CellView
from kin_nb.notebook.pump import SubmitMain
from kin_nb.notebook.tap import TapRun
from kin_nb.replay.matching import following_key


class CellTurns:
    """`view` is that of the first turn; each one after it gets its own. `through` and `answering` come before the person."""

    def __init__(
        self,
        agent: Agent,
        key: str,
        io: CellOutput,
        *,
        view: CellView | None = None,
        through: Callable[[Ask], Ask] = lambda ask: ask,
        answering: Callable[[AskQuestion], AskQuestion] = lambda ask: ask,
    ) -> None:
        self._agent, self._key, self._io = agent, key, io
        self._view = view or CellView(io)
        self._through, self._answering = through, answering
        self._ran = 0

    def begin(self, run: TapRun, submit_main: SubmitMain) -> None:
        """From here on who is asked is asked in this cell."""
        ask = choose_channel(self._io, run=run, submit_main=submit_main, place=self._place)
        question = choose_question_channel(self._io, run=run, submit_main=submit_main, place=self._place)
        self._agent.set_ask(self._through(ask))
        self._agent.ask_question = self._answering(question)

    async def act(self, prompt: str) -> AsyncGenerator[BaseEvent, None]:
        """`Agent.act`, shown in the cell."""
        agent, view = self._agent, self._view if not self._ran else CellView(self._io)
        self._view = view
        key = following_key(self._key, self._ran) if self._ran else self._key
        self._ran += 1
        try:
            async with aclosing(agent.act(prompt, key=key, cell_id=self._io.cell_id)) as events:
                async for event in events:
                    view.handle(event)
                    yield event
        finally:
            view.finish(agent.turns[-1])

    def _place(self, asks: ApprovalRequest | Question) -> CardPlace:
        call_id = asks.call_id if isinstance(asks, Question) else asks.tool_call_id
        return CardPlace(self._view.display_of(call_id), self._view.waiting_card(call_id).data)
