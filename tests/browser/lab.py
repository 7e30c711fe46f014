"""The page object: one notebook in JupyterLab or Notebook 7, driven as a person drives it.

Actions are real clicks and keys. Waiting asks the front end's own state (it is started with its application object
exposed), so nothing here sleeps and nothing depends on how fast the machine is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import ConsoleMessage, Error, Locator, Page, Request, WebSocket

from browser.servers import FrontEnd, JupyterServer

LOCAL_HOSTS = {"127.0.0.1", "localhost", "::1"}
OWN_ERRORS: dict[FrontEnd, set[str]] = {
    "lab": set(),
    "notebook": {"Cannot read properties of undefined (reading 'schema')"},  # 7.6.5, at every start, whatever is open
}

# Installed before the page's own scripts. `kin.runs` keeps the promise of every run command: it ends with the execution.
STATE = """
window.kin = {
  runs: [], started: 0, watched: null, answered: null,
  panel(path) {
    for (const widget of window.jupyterapp?.shell?.widgets('main') ?? [])
      if (widget.context?.path === path) return widget;
  },
  kernel(path) { return this.panel(path)?.sessionContext?.session?.kernel; },
  watch() {
    const commands = window.jupyterapp?.commands;
    if (!commands || this.watched === commands) return;
    this.watched = commands;
    commands.commandExecuted.connect((_, { id, result }) => {
      if (/^(notebook:(restart-)?run|runmenu:)/.test(id)) {
        this.started += 1;
        this.runs.push(result);
        result.catch(() => null).then(() => { this.runs = this.runs.filter(run => run !== result); });
      }
    });
  },
  attached(path) {
    const panel = this.panel(path);
    if (!panel || !panel.context.isReady || !panel.sessionContext.isReady) return false;
    this.watch();
    return this.kernel(path)?.connectionStatus === 'connected';
  },
  ready(path) {
    if (!this.attached(path)) return false;
    const kernel = this.kernel(path);
    kernel.info.then(() => { this.answered = kernel; }, () => null);
    return this.answered === kernel && kernel.status === 'idle';
  },
  idle(path) {
    const prompts = [...document.querySelectorAll('.jp-InputPrompt')].map(prompt => prompt.textContent);
    return !this.runs.length && !prompts.some(text => text.includes('*')) && this.kernel(path)?.status === 'idle';
  },
};
"""


class Lab:
    """A notebook page. `workspace` is the notebook's folder and its kernel's working directory.

    Cells are counted from 0. Waits are in seconds; what does not come in time raises playwright's TimeoutError.
    `console_errors` (but for the front end's own, OWN_ERRORS) and `foreign_requests` (addresses that are not loopback)
    grow as the page lives.
    """

    def __init__(self, page: Page, server: JupyterServer, workspace: Path) -> None:
        self.page, self.server, self.workspace = page, server, workspace
        self.path = ""
        self.console_errors: list[str] = []
        self.foreign_requests: list[str] = []
        page.add_init_script(STATE)
        page.on("console", self._on_console)
        page.on("pageerror", self._on_page_error)
        page.on("request", self._on_request)
        page.on("websocket", self._on_request)
        page.on("dialog", lambda dialog: dialog.accept())  # "leave this page?" of a reload

    @property
    def front_end(self) -> FrontEnd:
        return self.server.front_end

    # The file

    def set_cells(self, cells: Sequence[str], name: str = "session.ipynb", *, kernel: str = "python3") -> str:
        """Write a notebook of code cells into the workspace, before it is opened; `kernel` is a kernelspec's name."""
        metadata = {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}}
        nbformat.write(
            new_notebook(cells=[new_code_cell(cell) for cell in cells], metadata=metadata), self.workspace / name
        )
        return name

    def saved(self, name: str | None = None) -> NotebookNode:
        """The notebook as it is on disk: the open one, or another one of the workspace."""
        file = self.workspace / name if name else self.server.home.notebooks / self.path
        return nbformat.read(file, as_version=nbformat.NO_CONVERT)

    # The page

    def open(self, notebook: str, *, timeout: float = 60) -> None:
        """Open a notebook of the workspace and wait till its kernel has answered and is idle."""
        self.path = (self.workspace / notebook).relative_to(self.server.home.notebooks).as_posix()
        self.page.goto(self.server.page(self.path), timeout=timeout * 1000)
        self._until("kin.ready(path)", timeout)

    def reload(self, *, timeout: float = 60) -> None:
        """Reload the page and wait till it is connected to the kernel again, which may well be busy."""
        self.page.reload(timeout=timeout * 1000)
        self._until("kin.attached(path)", timeout)

    def save(self, *, timeout: float = 60) -> None:
        """Ctrl+S, and wait till the file on disk is what the page shows."""
        self.page.locator(".jp-Notebook").press("Control+s")
        self._until("!kin.panel(path).model.dirty", timeout)

    def screenshot(self, path: Path, cell: int | None = None) -> None:
        """A picture of the whole window, or of one cell."""
        (self.page if cell is None else self.cell(cell)).screenshot(path=path)

    # Cells

    def cell(self, index: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def outputs(self, cell: int) -> Locator:
        """The outputs of one cell, in order; each may hold a widget."""
        return self.cell(cell).locator(".jp-OutputArea-output")

    def output_text(self, cell: int) -> str:
        """What a person reads below the cell, its outputs joined by newlines; folded details are not in it."""
        return "\n".join(self.outputs(cell).all_inner_texts())

    def prompt(self, cell: int) -> str:
        """`[ ]:`, `[*]:` or `[3]:`."""
        return self.cell(cell).locator(".jp-InputPrompt").inner_text()

    def wait_output(self, cell: int, text: str | re.Pattern[str], *, timeout: float = 60) -> None:
        self.outputs(cell).filter(has_text=text).first.wait_for(timeout=timeout * 1000)

    def run_cell(self, index: int) -> None:
        """Select the cell and press Ctrl+Enter. Returns once the front end has begun, not when the cell has ended."""
        before = self._started()
        self.cell(index).locator(".jp-InputPrompt").click()
        self.page.keyboard.press("Control+Enter")
        self._began(before)

    def run_all(self) -> None:
        """Run > Run All Cells. Returns once the front end has begun."""
        before = self._started()
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.locator(".lm-Menu-item", has_text=re.compile("^Run All Cells")).click()
        self._began(before)

    def interrupt(self) -> None:
        """The toolbar's stop button."""
        self.page.locator('.jp-NotebookPanel-toolbar [data-command="notebook:interrupt-kernel"]').click()

    def wait_idle(self, *, timeout: float = 60) -> None:
        """Until every run has ended, no prompt shows `*` and the kernel says idle."""
        self._until("kin.idle(path)", timeout)

    # Widgets

    def button(self, name: str | re.Pattern[str], cell: int) -> Locator:
        """A button in the cell's output, by its exact words or a pattern."""
        return self.outputs(cell).get_by_role("button", name=name, exact=True)

    def click_button(self, name: str | re.Pattern[str], cell: int, *, timeout: float = 60) -> None:
        """Wait for the button and click it."""
        self.button(name, cell).click(timeout=timeout * 1000)

    def type_note(self, text: str, cell: int, *, timeout: float = 60) -> None:
        """Type into the text field in the cell's output, key by key (a widget loses keys that `fill` would hide)."""
        field = self.outputs(cell).locator("input[type=text], textarea").first
        field.press_sequentially(text, timeout=timeout * 1000)

    def _until(self, condition: str, timeout: float) -> None:
        self.page.wait_for_function(f"path => window.kin && {condition}", arg=self.path, timeout=timeout * 1000)

    def _started(self) -> int:
        return self.page.evaluate("kin.started")

    def _began(self, before: int) -> None:
        self.page.wait_for_function("before => kin.started > before", arg=before)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.console_errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _on_page_error(self, error: Error) -> None:
        if error.message not in OWN_ERRORS[self.front_end]:
            self.console_errors.append(error.message)

    def _on_request(self, request: Request | WebSocket) -> None:
        where = urlsplit(request.url)
        if where.scheme in ("http", "https", "ws", "wss") and where.hostname not in LOCAL_HOSTS:
            self.foreign_requests.append(request.url)
