"""Configuration of the documentation; builds without a network.

From a checkout: ``python -m sphinx -W -b html docs build/html``.
"""

import os

import skfdp

project = "skfdp"
author = "The skfdp developers"
project_copyright = author
version = release = skfdp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
# Links into other projects need their inventories, hence a network.
if os.environ.get("SKFDP_DOCS_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "numpy": ("https://numpy.org/doc/stable", None),
    "python": ("https://docs.python.org/3", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
}

templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates"]
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# The pages' examples build on each other within a page, and not beyond it.
doctest_test_doctest_blocks = "default"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    # Scripts named data_* take real data and minutes: they are shown, and not run.
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 600,
}

html_theme = "alabaster"
html_theme_options = {
    "description": "differentially private learning where part of each record may "
    "be public",
    "fixed_sidebar": True,
    "page_width": "1080px",
}
html_show_sourcelink = False
html_copy_source = False
