"""Sphinx configuration: ``sphinx-build -W docs docs/_build``."""

import re
import warnings
from importlib.metadata import version as installed

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

project = "fisherkit"
author = "The fisherkit developers"
copyright = "The fisherkit developers"
release = version = installed("fisherkit")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in docstrings are written for people

default_role = "autolink"  # `name` in a docstring links to its page, where there is one
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"
numpydoc_validation_checks = set()


usual_filters = warnings.filters[:]


def warnings_fail(gallery_conf, fname, when):
    """A warning ends an example, and so the build, as it ends a test."""
    warnings.filters[:] = usual_filters
    if when == "before":
        warnings.simplefilter("error")


suppress_warnings = ["config.cache"]  # the function above cannot be pickled: nothing is lost
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "backreferences_dir": "generated/examples",
    "doc_module": "fisherkit",
    "reset_modules": ("matplotlib", warnings_fail),
    "reset_modules_order": "both",
    "within_subsection_order": "ExampleTitleSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"  # browsers draw it themselves: nothing is fetched
html_title = "fisherkit"
html_static_path = ["_static"]
html_css_files = ["math.css"]
html_show_sourcelink = False
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}


def skip_foreign(app, what, name, obj, skip, options):
    """Leave out what scikit-learn documents: its texts refer to its own pages."""
    return skip or str(getattr(obj, "__module__", "")).startswith("sklearn")


def formula(self, node):
    """A formula as MathML; what docutils cannot read, or not as TeX does, ends the build."""
    tex, block = node.astext(), isinstance(node, nodes.math_block)
    if re.search(r"frac\s*\d\d", tex):
        raise ValueError(f"docutils takes both digits for the numerator, write braces: {tex}")
    mathml = tex2mathml(tex, as_block=block)
    self.body.append(f"<p>{mathml}</p>" if block else mathml)
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
    app.connect("autodoc-skip-member", skip_foreign)
