"""The offer to run a played turn's Python again, where cells of the notebook use variables that it bound and that are missing.

Each piece of code is decided as the agent's own call of `python` is: by the safety chain, the grants, the mode and the
settings of the session. Where these ask, a card with all of the code asks the user. Where no user can answer, nothing runs.
No model is asked, and the notebook stays in playback. What the notebook says for itself allows nothing: not the `--mode` of
the cell, nor a mode that another cell of it chooses (plan mode always refuses).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from kin_nb.core.config import ConfigError
from kin_nb.core.modes import AgentMode
from kin_nb.core.questions import Question
from kin_nb.core.records import SessionRecord
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.text import listed
from kin_nb.core.tool_types import ToolError
from kin_nb.notebook.approval import CardPlace, can_answer, choose_question_channel
from kin_nb.notebook.cell_io import CellOutput, has_reader
from kin_nb.notebook.main_thread_loop import SubmitMain, TurnInterrupted, run_on_agent_thread
from kin_nb.notebook.namespace import main_thread
from kin_nb.notebook.namespace.python import Python, PythonResult
from kin_nb.notebook.notebook_file import notebook_file
from kin_nb.notebook.options import KinError
from kin_nb.notebook.streaming.display import Display
from kin_nb.notebook.tap import TapRun, listen
from kin_nb.render import Output, render_notice, render_run_question
from kin_nb.render.text import one_line
from kin_nb.replay.binding_cells import BindingCode
from kin_nb.replay.playback.binding import MissingVariables, missing_variables

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent
    from kin_nb.notebook.live_agent import LiveAgent
    from kin_nb.notebook.recorded_answers import RecordedAnswers

_RUN, _LEAVE = "Run it", "Leave it"
_MOST_NAMES = 10
_LONGEST_LIMIT = 600
"""Seconds: the longest time limit that the tool takes."""


@dataclass(frozen=True)
class _Outcome:
    """The result of an offer. `why`: a policy's reason or the error; `asked`: the user was asked; `warnings`: the agent's."""

    how: Literal["ran", "left", "refused", "failed"]
    why: str = ""
    asked: bool = False
    warnings: tuple[str, ...] = ()


class BindingOffer:
    """Offers to run recorded Python again, so that later cells find its variables. One per session in playback."""

    def __init__(self, recorded: RecordedAnswers, live: LiveAgent) -> None:
        self._recorded, self._live = recorded, live

    def make(self, shown: Sequence[SessionRecord], io: CellOutput) -> None:
        """Ask below a played cell, which showed `shown`, run the code, and report the result in one line.

        Nothing where no variable is missing. Raises TurnInterrupted.
        """
        recorded = self._recorded
        missing = missing_variables(recorded.book, shown, recorded.shell.user_ns, recorded.page)
        if missing is None:
            return
        display = Display(io)
        if not has_reader(io):
            display.draw(self._headless(missing), settled=True)
            return
        try:
            with listen(recorded.shell, io.parent) as run:
                if not can_answer(io, run):
                    display.draw(self._headless(missing), settled=True)
                    return
                with self._live.separate() as agent:
                    if missing.chooses_mode and agent.mode.base is not AgentMode.PLAN:
                        agent.switch_mode(AgentMode.DEFAULT)
                    call = _Rerun(agent, missing, io, display)
                    outcome = run_on_agent_thread(
                        lambda main: call.run(run, main), self._live.thread, on_tick=run.on_tick
                    )
                    outcome = replace(outcome, warnings=tuple(agent.new_warnings()))
        except TurnInterrupted:
            display.draw(self._notice(missing, _Outcome("refused", "It was interrupted.")), settled=True)
            raise
        except (KinError, ConfigError) as error:
            outcome = _Outcome("refused", str(error))
        display.draw(self._notice(missing, outcome), settled=True)

    def _notice(self, missing: MissingVariables, outcome: _Outcome) -> Output:
        names, more = _names(missing.names), outcome.warnings
        absent = [name for name in missing.names if name not in self._recorded.shell.user_ns]
        rest = f"{_names(absent)} {'is' if len(absent) == 1 else 'are'} missing" if absent else "no variable is missing"
        match outcome.how:
            case "left":
                return render_notice(f"The Python code of this answer was not run again: {names}", more)
            case "ran":
                why = "" if outcome.asked else f" ({outcome.why})"
                return render_notice(
                    f"The Python code of this answer ran again: {rest if absent else names}{why}", more
                )
            case "failed":
                title = f"The Python code of this answer failed when it ran again: {one_line(outcome.why)}"
                advice = f"Afterwards {rest}. Fix what the code needs, then run this cell again."
                return render_notice(title, [advice, *more], kind="error")
            case "refused":
                title = f"The Python code of this answer was not run again: {rest}"
                return render_notice(title, [*outcome.why.splitlines(), *more])

    def _headless(self, missing: MissingVariables) -> Output:
        own = notebook_file(self._recorded.shell)
        name = shlex.quote(own.name) if own is not None else "NOTEBOOK.ipynb"
        lines = [
            "Cells of this notebook use these variables, and no user can be asked here.",
            f"To make a notebook whose cells assign them: `kin-nb save {name}`",
        ]
        return render_notice(
            f"Missing variables: {_names(missing.names)}. The Python code of this answer did not run again", lines
        )


class _Rerun:
    """The calls of one offer. The user is asked once for all of them, and again only for another reason."""

    def __init__(self, agent: Agent, missing: MissingVariables, io: CellOutput, display: Display) -> None:
        self._agent, self._missing, self._io, self._display = agent, missing, io, display
        self._answers: dict[str, str] = {}
        """The user's, by the reason of the question."""

    async def run(self, run: TapRun, submit_main: SubmitMain) -> _Outcome:
        main_thread.set(submit_main)
        channel = choose_question_channel(self._io, run=run, submit_main=submit_main, place=self._place)

        async def ask(request: ApprovalRequest) -> ApprovalDecision:
            reason = request.reason
            if reason not in self._answers:
                try:
                    self._answers[reason] = await channel(self._question(reason))
                except ToolError:  # no user answers after all
                    self._answers[reason] = _LEAVE
            return ApprovalDecision(self._answers[reason] == _RUN)

        self._agent.set_ask(ask)
        try:
            if not isinstance(self._agent.tool_manager.get(Python.get_name()), Python):
                return _Outcome("refused", f"Your own tool {Python.get_name()} replaces the one that ran it.")
        except ToolError as error:
            return _Outcome("refused", str(error))
        why = ""
        for number, part in enumerate(self._missing.code, 1):
            outcome = await self._call(part, number)
            if outcome.how != "ran":
                return outcome
            why = outcome.why
        return _Outcome("ran", why, asked=bool(self._answers))

    async def _call(self, part: BindingCode, number: int) -> _Outcome:
        arguments: dict[str, Any] = {"code": part.source}
        if part.timeout is not None and part.timeout <= _LONGEST_LIMIT:
            arguments["timeout"] = part.timeout
        ended = await self._agent.run_tool(
            Python.get_name(), arguments, call_id=f"again-{number}", turn=self._missing.turn
        )
        decision = ended.call.decision if ended.call is not None else None
        asked = bool(self._answers)
        if ended.skipped:
            why = (decision.note or decision.reason) if decision is not None else ""
            return _Outcome("left" if asked else "refused", why, asked=asked)
        if ended.error is not None:
            return _Outcome("refused", ended.error, asked=asked)
        result = ended.result
        if isinstance(result, PythonResult) and result.error and not part.failed:
            limit = f"its time limit of {arguments.get('timeout')} s was up"
            return _Outcome("failed", limit if result.timed_out else _exception(result.error), asked=asked)
        return _Outcome("ran", decision.reason if decision is not None else "", asked=asked)

    def _question(self, reason: str) -> Question:
        sources = tuple(part.source for part in self._missing.code)
        title = (
            f"Cells below need {_names(self._missing.names)}, which this answer assigned. Run its Python code again?"
        )
        return Question(title, (_RUN, _LEAVE), own_words=False, reason=reason, code=sources)

    def _place(self, question: Question) -> CardPlace:
        is_drawn, self._display.shown = self._display.shown, True  # the buttons will be there
        card = render_run_question(question.text, question.reason, question.code, question.choices)
        return CardPlace(self._display.display_id, card.data, update=is_drawn)


def _names(names: Sequence[str]) -> str:
    return listed([f"`{name}`" for name in names], _MOST_NAMES)


def _exception(error: str) -> str:
    """Return the line of a traceback that names the exception."""
    last = error.rpartition("Traceback (most recent call last):")[2]
    lines = [line for line in last.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith(" ")), lines[-1] if lines else "")
