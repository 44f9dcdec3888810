"""Mutants of any expression and statement of the rooms that privacy rests on.

Left out by rule, because no number changes: docstrings, annotations, decorators,
texts, what is only said in an error, a warning or a figure, and the sizes of caches.
"""

import ast
from collections.abc import Iterator

from _mutants import Mutant, Source

ROOMS = ("privacy", "queries", "records", "releases")
#: Of texts and figures.
_LEFT_OUT = ("skfdp/privacy/plotting.py",)
_OF_PEOPLE = {"__repr__", "__str__", "shown", "name_text", "set_text", "short_repr"}

_COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_OPERATIONS = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.BitXor: "|",
}
_CALLS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "np.minimum": "np.maximum",
    "np.maximum": "np.minimum",
    "math.ceil": "math.floor",
    "math.floor": "math.ceil",
    "np.trunc": "np.rint",
    "np.rint": "np.trunc",
    "np.ceil": "np.floor",
    "np.floor": "np.ceil",
}
_METHODS = {"min": "max", "max": "min", "any": "all", "all": "any"}


def everything(sources: dict[str, Source]) -> list[Mutant]:
    """Return all of them, in the order of the files."""
    found: list[Mutant] = []
    for file, source in sources.items():
        if file.split("/")[1] in ROOMS and file not in _LEFT_OUT:
            found += _Finder(source).mutants()
    return found


class _Finder:
    """The mutants of one file."""

    def __init__(self, source: Source):
        self._source = source

    def mutants(self) -> list[Mutant]:
        """Return all mutants of the file, by their place."""
        found = list(self._of(self._source.tree))
        return sorted(found, key=lambda one: (one.start, one.stop, one.text))

    def _of(self, node: ast.AST) -> Iterator[Mutant]:
        for name, start, stop, text in _changes(self._source, node):
            yield self._source.mutant(name, "", start, stop, text)
        for child in ast.iter_child_nodes(node):
            if not _is_left_out(node, child):
                yield from self._of(child)


def _is_left_out(node: ast.AST, child: ast.AST) -> bool:
    """Whether nothing that counts can change in a part of a node."""
    if isinstance(child, ast.FunctionDef):
        return child.name in _OF_PEOPLE
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return child in node.decorator_list or child is getattr(node, "returns", None)
    if isinstance(node, (ast.AnnAssign, ast.arg)):
        return child is node.annotation
    if isinstance(node, ast.Raise):
        return True  # the text of an error; that it is raised is the statement's
    if isinstance(node, ast.Call) and _name(node.func) in ("warn_caller", "field"):
        return True
    if isinstance(node, ast.keyword):
        return node.arg == "maxsize"
    if isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING":
        return True
    return isinstance(child, (ast.JoinedStr, ast.Import, ast.ImportFrom))


def _name(node: ast.AST) -> str:
    if isinstance(node, (ast.Name, ast.Attribute)):
        return ast.unparse(node)
    return ""


def _changes(source: Source, node: ast.AST) -> Iterator[tuple[str, int, int, str]]:
    """Yield (name, start, stop, text) of the changes of one node."""
    kinds = {
        ast.Compare: _of_comparison,
        ast.BinOp: _of_operation,
        ast.AugAssign: _of_operation,
        ast.BoolOp: _of_logic,
        ast.UnaryOp: _of_sign,
        ast.Constant: _of_constant,
        ast.Call: _of_call,
        ast.Return: _of_return,
        ast.If: _of_test,
        ast.While: _of_test,
        ast.IfExp: _of_test,
    }
    if type(node) in kinds:
        yield from kinds[type(node)](source, node)
    if isinstance(node, ast.stmt):
        yield from _of_statement(source, node)


def _between(source: Source, left: ast.AST, right: ast.AST, old: str):
    """Return where an operator stands between two expressions."""
    start, stop = source.span(left)[1], source.span(right)[0]
    place = source.bytes[start:stop].decode().find(old)
    return start + place, start + place + len(old)


_SYMBOLS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def _of_comparison(source, node):
    left = node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        new = _COMPARISONS[type(operator)]
        place = _between(source, left, right, _SYMBOLS[type(operator)])
        yield "comparison", *place, new
        left = right


def _of_operation(source, node):
    if type(node.op) not in _OPERATIONS:
        return
    if isinstance(node, ast.AugAssign):
        sides = node.target, node.value
    else:
        sides = node.left, node.right
        text = (ast.JoinedStr, ast.List, ast.Tuple)
        if isinstance(node.op, ast.BitOr) and _is_type(source, node):
            return
        strings = [
            isinstance(s, ast.Constant) and isinstance(s.value, str) for s in sides
        ]
        if any(strings) or any(isinstance(side, text) for side in sides):
            return
    place = _between(source, *sides, _SYMBOLS[type(node.op)])
    yield "operator", *place, _OPERATIONS[type(node.op)]


def _is_type(source, node) -> bool:
    """Whether an | stands between types."""
    around = [node, *source.ancestors(node)]
    if not any(isinstance(one, ast.FunctionDef) for one in around):
        return True  # an alias
    calls = [one.func for one in around[:4] if isinstance(one, ast.Call)]
    return "isinstance" in map(_name, calls)


def _of_logic(source, node):
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in zip(node.values, node.values[1:], strict=False):
        yield "logic", *_between(source, left, right, old), new


def _of_sign(source, node):
    start, stop = source.span(node)
    if not isinstance(node.op, ast.UAdd):
        yield "negation dropped", start, stop, f"({source.text(node.operand)})"


def _of_constant(source, node):
    start, stop = source.span(node)
    value = node.value
    if isinstance(value, bool):
        yield "constant", start, stop, str(not value)
    elif isinstance(value, int):
        yield "constant", start, stop, str(value + 1)
    elif isinstance(value, float):
        yield "constant", start, stop, f"({source.text(node)} * 2 + 1e-9)"


def _of_call(source, node):
    start, stop = source.span(node.func)
    name = source.text(node.func)
    if name in _CALLS:
        yield "function", start, stop, _CALLS[name]
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        own = len(node.func.attr)
        yield "function", stop - own, stop, _METHODS[node.func.attr]


def _of_return(source, node):
    if node.value is None:
        return
    if isinstance(node.value, ast.Constant) and node.value.value is None:
        return
    yield "return", *source.span(node.value), "None"


def _of_test(source, node):
    text = source.text(node.test)
    if text != "TYPE_CHECKING":
        yield "condition negated", *source.span(node.test), f"(not ({text}))"


def _of_statement(source, node):
    """Take a statement away; those that bind a name are left in."""
    if isinstance(node, ast.Expr):
        text = isinstance(node.value, ast.Constant)
        if not text and not isinstance(node.value, (ast.Yield, ast.YieldFrom)):
            yield "statement deleted", *source.span(node), "pass"
    elif isinstance(node, (ast.AugAssign, ast.Raise, ast.Break, ast.Continue)):
        yield "statement deleted", *source.span(node), "pass"
    elif isinstance(node, ast.Assign):
        bound = [isinstance(target, ast.Name) for target in node.targets]
        if not any(bound) and not isinstance(node.targets[0], ast.Tuple):
            yield "statement deleted", *source.span(node), "pass"
