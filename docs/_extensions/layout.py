"""Names that break between words, tables for telephones, the order of examples."""

import re

from docutils import nodes
from sphinx.writers.html5 import HTML5Translator

#: Names that may be too long for a line.
LONG = re.compile(r"[\w./=“”()-]{16,}")
#: Places within a name where a line may end.
ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[_./=(])")
#: Letters in a line of a telephone, and those of a cell before it takes a second line.
LINE, CELL = 46, 22

#: Examples that come first in their folder of the gallery.
FIRST = ("plot_hospital.py", "plot_patients.py", "plot_choosing_epsilon.py")


def order_of_examples(name):
    """Return a key that sorts the file names of a folder of the gallery."""
    first = FIRST.index(name) if name in FIRST else len(FIRST)
    return first, name.startswith("data_"), name


def letters(gallery_conf, name):
    """Set the size of the letters of figures, which are also thumbnails."""
    import matplotlib

    matplotlib.rcParams["font.size"] = 14


def breakable(text):
    """Return HTML text with places where the browser may break long names."""
    return LONG.sub(lambda name: ENDS.sub("<wbr>", name[0]), text)


class Translator(HTML5Translator):
    """The usual HTML, in which long names may break, but between words alone."""

    def visit_Text(self, node):  # noqa: N802
        super().visit_Text(node)
        if not self.in_mailto:
            self.body[-1] = breakable(self.body[-1])

    def visit_literal(self, node):
        start = len(self.body)
        try:
            super().visit_literal(node)
        finally:  # it ends with SkipNode
            if "code" not in node["classes"]:
                # Tags have no such text: classes and addresses stand in quotes.
                self.body[start:] = [
                    re.sub(r"(?<=>)[^<>]+(?=<)", lambda text: breakable(text[0]), one)
                    for one in self.body[start:]
                ]

    def visit_literal_block(self, node):
        start = len(self.body)
        try:
            super().visit_literal_block(node)
        finally:
            if letters := aligned(node):
                style = f'<div style="--columns: {letters}" class="aligned '
                first = self.body[start]
                self.body[start] = first.replace('<div class="', style, 1)


def aligned(node):
    """Return the letters of the longest line of a table in plain text, else None."""
    example = node.astext().startswith(">>> ")
    if not example and node.get("language") not in ("none", "text"):
        return None
    lines = [line for line in node.astext().splitlines() if line.strip()]
    if example:  # what it prints
        lines = [line for line in lines if not line.startswith((">>> ", "... "))]
    cells = [line for line in lines if re.search(r"\S {2,}\S", line.strip())]
    if any(line.startswith("Data and purpose ") for line in lines):
        cells = lines  # a statement, whose second column has many lines
    many = len(cells) >= 2 and 2 * len(cells) >= len(lines)
    return max(map(len, cells)) if many else None


def _stack(table):
    """Put the name of its column into every cell; the style shows it on telephones."""
    rows = [list(row.findall(nodes.entry)) for row in table.findall(nodes.row)]
    if len({len(row) for row in rows}) != 1:  # cells over two columns
        return
    wide = [max(len(row[i].astext()) for row in rows) for i in range(len(rows[0]))]
    if sum(min(letters, CELL) + 2 for letters in wide) <= LINE:
        return
    table["classes"].append("stacked")
    heads = [""] * len(wide)
    if next(table.findall(nodes.thead), None) is not None:
        heads = [entry.astext().strip() for entry in rows.pop(0)]
    for row in rows:
        for head, entry in zip(heads[1:], row[1:], strict=True):
            if not entry.astext().strip():
                entry["classes"].append("empty")
            if not head or "empty" in entry["classes"]:
                continue
            label = nodes.inline("", f"{head}: ", classes=["column-name"])
            if not isinstance(entry[0], nodes.paragraph):
                entry.insert(0, nodes.paragraph())
            entry[0].insert(0, label)


def _tables(app, doctree, docname):
    if app.builder.format == "html":
        for table in doctree.findall(nodes.table):
            if "autosummary" not in table["classes"]:  # has a style of its own
                _stack(table)


def setup(app):
    app.set_translator("html", Translator)
    app.connect("doctree-resolved", _tables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
