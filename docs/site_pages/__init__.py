"""The Sphinx extension of the site: pages that are generated, links out of `docs`, and what browsers get."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

from site_pages.commands import CommandLine
from site_pages.docstrings import as_restructured_text
from site_pages.links import rewrite
from site_pages.python_api import PythonApi
from site_pages.rest_api import RestApi
from site_pages.separate import separate
from site_pages.settings import AirflowSettingsTable, SettingsTable


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.add_directive("command-line", CommandLine)
    app.add_directive("python-api", PythonApi)
    app.add_directive("rest-api", RestApi)
    app.add_directive("settings-table", SettingsTable)
    app.add_directive("airflow-settings-table", AirflowSettingsTable)
    app.connect("source-read", rewrite)
    app.connect("autodoc-process-docstring", as_restructured_text)
    app.connect("build-finished", separate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
