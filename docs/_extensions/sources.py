"""The files that hold public names, for the links from the API to the code.

Public names carry public addresses (``skfdp.report``), whatever file they are in, so
that sphinx.ext.viewcode cannot find it by itself.
"""

import ast
import functools
from pathlib import Path

import skfdp

HOME = Path(skfdp.__file__).parent


@functools.cache
def _modules():
    """Return the module of each name that is defined at the top of one file alone.

    Files of the command line are left out: nothing of them is public.
    """
    found = {}
    for path in sorted(set(HOME.rglob("*.py")) - set(HOME.glob("cli/*.py"))):
        module = ".".join(("skfdp", *path.relative_to(HOME).with_suffix("").parts))
        module = module.removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.setdefault(node.name, []).append(module)
    return {name: places[0] for name, places in found.items() if len(places) == 1}


@functools.cache
def _shared():
    """Return the modules that hold names of the package itself, and their addresses."""
    found = {}
    for name in skfdp.__all__:
        address = getattr(getattr(skfdp, name), "__module__", None)
        found.setdefault(_modules().get(name), set()).add(address)
    return found


def _home(app, modname, attribute):
    if not modname.startswith("skfdp"):
        return None
    home = _modules().get(attribute.partition(".")[0])
    # A page of code leads back to the pages of one package only. The name of a module
    # without the definition keeps viewcode from looking for it itself.
    if modname == home and "skfdp" in _shared().get(home, ()):
        return "skfdp"
    return modname if modname != "skfdp" and home in _shared() else home


def setup(app):
    app.connect("viewcode-follow-imported", _home)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
