"""How Sphinx builds the documentation: `make docs`."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent
REPOSITORY = "https://github.com/kin-nb/kin-nb"

project = "kin_nb"
copyright = "the kin_nb developers"  # noqa: A001  (Sphinx's name)
version = release = version_of("kin-nb")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints", "reference/generated"]
nitpicky = False  # the types of a signature are not pages of this site
suppress_warnings = ["mystnb.unknown_mime_type"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Tutorials run when the site is built: without a key, without a network, with no settings but the defaults.
nb_execution_mode = "force"
nb_execution_timeout = 60
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

html_theme = "pydata_sphinx_theme"
html_title = "kin_nb"
html_static_path = ["_static"]
html_css_files = ["kin.css"]
html_show_sourcelink = False
html_theme_options = {
    "github_url": REPOSITORY,
    "use_edit_page_button": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc", "edit-this-page"], "index": []},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {
    "github_user": "kin-nb",
    "github_repo": "kin-nb",
    "github_version": "main",
    "doc_path": "docs",
    "default_mode": "auto",
}
html_sidebars = {"index": []}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# External links are for `make docs-links`; the pages of this repository may not exist there yet.
linkcheck_ignore = [re.escape(REPOSITORY), r"http://127\.0\.0\.1", r"http://localhost"]

default_role = "code"  # docstrings have names in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"


def link_to_the_repository(app: Sphinx, docname: str, source: list[str]) -> None:
    """Let a link to a file outside of docs/ lead to the repository. Such a file must exist."""
    folder = Path(app.env.doc2path(docname)).parent

    def replaced(link: re.Match[str]) -> str:
        path = Path(os.path.normpath(folder / link["path"]))
        if path.is_relative_to(DOCS) or not path.is_relative_to(ROOT):
            return link[0]
        if not path.exists():
            raise FileNotFoundError(f"{docname}: no file {link['path']}")
        kind = "tree" if path.is_dir() else "blob"
        return f"]({REPOSITORY}/{kind}/main/{path.relative_to(ROOT).as_posix()})"

    source[0] = re.sub(r"\]\((?P<path>(?:\.\./)+[^)#\s]+)\)", replaced, source[0])


def setup(app: Sphinx) -> None:
    os.environ["KIN_HOME"] = str(Path(app.outdir).parent / "home")  # no settings of the person who builds it
    sys.path.insert(0, str(DOCS))
    from generate import write_pages

    write_pages()
    app.connect("source-read", link_to_the_repository)
