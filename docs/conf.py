"""How Sphinx builds the documentation site from this folder: `make docs`.

The Markdown pages stay what they are on their own; `site_pages` adds what is generated: the reference of the command
line, of the settings, of the REST API and of the Python API. Decision 0053.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import aiosched  # noqa: E402

project = "aiosched"
author = "the aiosched authors"
version = release = aiosched.__version__
html_title = f"aiosched {version}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "site_pages"]
exclude_patterns = ["site_pages"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # annotations name types of other projects; links of pages are all checked

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_url_schemes = ["http", "https", "mailto"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 100

html_theme = "furo"
html_static_path = ["site_pages/static"]
html_css_files = ["site.css"]
html_favicon = "../aiosched/web/ui/icon.svg"
html_domain_indices = False
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_last_updated_fmt = None  # the same sources give the same site
# The site belongs to one version and is served without a network: no font, script or badge comes from elsewhere.
html_theme_options = {"top_of_page_buttons": []}
