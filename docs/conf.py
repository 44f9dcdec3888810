"""Configuration of the documentation; builds without a network.

From a checkout: ``python -m sphinx -W -b html docs build/html``. Two environment
variables are for builds that are published:

SKFDP_DOCS_URL           the address of the site, for the sitemap and the cards of
                         links (Open Graph), which need absolute addresses
SKFDP_DOCS_INTERSPHINX   any value links names of other projects to their pages, which
                         needs a network
"""

import os
import sys
from pathlib import Path

import skfdp

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "skfdp"
author = "The skfdp developers"
project_copyright = author
version = release = skfdp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    # Beside this file.
    "formulas",
    "layout",
    "sources",
]
if os.environ.get("SKFDP_DOCS_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "numpy": ("https://numpy.org/doc/stable", None),
    "python": ("https://docs.python.org/3", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
}
html_baseurl = os.environ.get("SKFDP_DOCS_URL", "")
if html_baseurl:
    extensions += ["sphinx_sitemap", "sphinxext.opengraph"]
    sitemap_url_scheme = "{link}"
    ogp_site_url = html_baseurl
    ogp_image = "_static/first_picture.png"

templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "_extensions"]
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# Methods without the class in the right column.
toc_object_entries_show_parents = "hide"
# The pages' examples build on each other within a page, and not beyond it.
doctest_test_doctest_blocks = "default"
# Examples are copied without their prompts and without what they print.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "subsection_order": [
        f"../examples/{folder}"
        for folder in ("whole_jobs", "public_parts", "choices", "models", "checks")
    ],
    "within_subsection_order": "layout.order_of_examples",
    # Scripts named data_* take real data and minutes: they are shown, and not run.
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "backreferences_dir": "generated/examples_of",
    "doc_module": ("skfdp",),
    "default_thumb_file": str(Path(__file__).parent / "_static" / "no_picture.png"),
    "reset_modules": ("matplotlib", "layout.letters"),
    "thumbnail_size": (480, 320),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 600,
    # Their pages load scripts from the network.
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"skfdp {version}"
html_static_path = ["_static"]
html_css_files = ["skfdp.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_theme_options = {
    "logo": {
        "text": f"skfdp {version}",
        "alt_text": "skfdp, to the first page",
    },
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "show_nav_level": 1,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# The first page, lists of pages and the names of the API, which the page of the API
# groups, need no column of links beside them.
html_sidebars = dict.fromkeys(
    ["index", "changes", "contributing", "api", "generated/*"], []
)
html_show_sourcelink = False
html_copy_source = False
