"""Real JupyterLab and Notebook, real Chromium: servers.py starts them, lab.py is the page, conftest.py the fixtures."""
