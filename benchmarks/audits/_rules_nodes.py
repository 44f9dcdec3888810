"""What rules look for in the syntax tree, and how they change it."""

import ast
import re
from collections.abc import Callable

from _mutants import Source

Put = Callable[[Source, ast.AST], tuple[ast.AST, str] | None]


def returned(function: str, text: str) -> Put:
    """Wrap what functions of a name return: `text` has {} where it was."""

    def put(source, node):
        if not isinstance(node, ast.Return) or node.value is None:
            return None
        around = next(source.ancestors(node), None)
        while around is not None and not isinstance(around, ast.FunctionDef):
            around = source.parents.get(around)
        if around is None or not re.fullmatch(function, around.name):
            return None
        if isinstance(node.value, ast.Constant):
            return None
        return node.value, text.format(source.text(node.value))

    return put


def called(function: str, text: str, scope: str = "") -> Put:
    """Change the calls of a function: `text` has the arguments {0}, {1}, ..."""

    def put(source, node):
        if not isinstance(node, ast.Call):
            return None
        if not re.fullmatch(function, source.text(node.func)):
            return None
        if not re.search(scope, source.scope(node)):
            return None
        arguments = [source.text(one) for one in node.args]
        return node, text.format(*arguments, f=source.text(node.func))

    return put


def field(name: str, text: str) -> Put:
    """Change the default of a field of a class."""

    def put(source, node):
        if not isinstance(node, ast.AnnAssign) or node.value is None:
            return None
        inside = isinstance(source.parents.get(node), ast.ClassDef)
        if inside and source.text(node.target) == name:
            return node.value, text
        return None

    return put


def keyword(name: str, text: str, value: str = "", scope: str = "") -> Put:
    """Change an argument given by name: `text` has {} where it was."""

    def put(source, node):
        if not isinstance(node, ast.keyword) or node.arg != name:
            return None
        own = source.text(node.value)
        if re.search(value, own) and re.search(scope, source.scope(node)):
            return node.value, text.format(own)
        return None

    return put


def divisor(function: str, text: str) -> Put:
    """Change a call that something is divided by."""

    def put(source, node):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
            return None
        one = node.right
        while isinstance(one, ast.Subscript):
            one = one.value
        if not isinstance(one, ast.Call) or source.text(one.func) != function:
            return None
        arguments = [source.text(part) for part in one.args]
        return one, text.format(*arguments)

    return put


def inverted(names: str, but: str = "^$") -> Put:
    """Take away the ~ of a mask, but for lines that no guarantee rests on."""

    def put(source, node):
        if not isinstance(node, ast.UnaryOp) or not isinstance(node.op, ast.Invert):
            return None
        if re.search(but, source.lines[node.lineno - 1]):
            return None
        own = source.text(node.operand)
        return (node, f"({own})") if re.search(names, own) else None

    return put
