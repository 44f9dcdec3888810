"""Formulas as MathML, which browsers draw by themselves: no script and no network."""

import re

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.errors import ExtensionError

#: Spellings of TeX that the converter of docutils does not know.
SPELLINGS = (
    (r"\\dots\b", r"\\ldots"),
    (r"\\([td]?)frac *(\d)(\d)", r"\\\1frac{\2}{\3}"),
    # Sizes of brackets: it wants to know which is the left one.
    (r"\\([bB]igg?)(?=[(\[]|\\\{)", r"\\\1l"),
    (r"\\([bB]igg?)(?=[)\]]|\\\})", r"\\\1r"),
    ("∎", r"\\square"),
)


def mathml(code, *, block):
    """Return a formula of TeX as MathML."""
    for theirs, known in SPELLINGS:
        code = re.sub(theirs, known, code)
    return "".join(latex2mathml.tex2mathml(code.strip(), as_block=block))


def _checked(translator, node, *, block):
    try:
        return mathml(node.astext(), block=block)
    except MathError as error:
        where = translator.builder.current_docname
        raise ExtensionError(f"formula {node.astext()!r} in {where}: {error}") from None


def _visit_inline(translator, node):
    translator.body.append(_checked(translator, node, block=False))
    raise nodes.SkipNode


def _visit_block(translator, node):
    # The box scrolls where a formula is wider than a telephone.
    translator.body.append('<div class="formula" tabindex="0">')
    translator.body.append(_checked(translator, node, block=True))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
