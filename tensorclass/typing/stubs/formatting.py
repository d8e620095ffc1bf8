"""A stub as text: signatures on one line where they fit, one parameter a line where not."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Mapping, Sequence

WIDTH = 120


def written(body: Sequence[ast.stmt], comments: Mapping[ast.AST, str]) -> str:
    """The text of a stub's statements; ``comments`` stand at the end of a statement's first line."""
    return _requoted("\n".join(_block(body, "", comments)) + "\n")


def _block(body: Sequence[ast.stmt], indent: str, comments: Mapping[ast.AST, str]) -> Iterator[str]:
    before: ast.stmt | None = None
    for statement in body:
        lines = list(_lines(statement, indent, comments))
        if before is not None and _is_apart(before, statement):
            yield ""
        yield from lines
        before = statement


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


def _is_apart(before: ast.stmt, after: ast.stmt) -> bool:
    """Return whether to put an empty line between statements: around classes, after imports, after fields."""
    if isinstance(before, _IMPORTS) != isinstance(after, _IMPORTS):
        return True
    if isinstance(before, (ast.ClassDef, ast.If)) or isinstance(after, (ast.ClassDef, ast.If)):
        if isinstance(before, ast.ClassDef) and isinstance(after, ast.ClassDef):
            return not (_is_empty(before) and _is_empty(after))
        return True
    return isinstance(after, _DEFINITIONS) and not isinstance(before, _DEFINITIONS)


def _is_empty(statement: ast.ClassDef) -> bool:
    return all(isinstance(inner, ast.Expr) for inner in statement.body)


def _lines(statement: ast.stmt, indent: str, comments: Mapping[ast.AST, str]) -> Iterator[str]:
    comment = f"  {comments[statement]}" if statement in comments else ""
    if isinstance(statement, _DEFINITIONS):
        for decorator in statement.decorator_list:
            behind = f"  {comments[decorator]}" if decorator in comments else ""
            yield f"{indent}@{ast.unparse(decorator)}{behind}"
    if isinstance(statement, ast.ClassDef):
        bases = [ast.unparse(base) for base in statement.bases] + [_keyword(one) for one in statement.keywords]
        arguments = f"({', '.join(bases)})" if bases else ""
        head = f"{indent}class {statement.name}{_type_parameters(statement)}{arguments}:"
        if _is_empty(statement):
            yield f"{head} ...{comment}"
        else:
            yield head + comment
            yield from _block(statement.body, indent + "    ", comments)
    elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        word = "async def" if isinstance(statement, ast.AsyncFunctionDef) else "def"
        head = f"{indent}{word} {statement.name}{_type_parameters(statement)}("
        end = f") -> {ast.unparse(statement.returns)}: ..." if statement.returns else "): ..."
        parameters = list(_parameters(statement.args))
        line = head + ", ".join(parameters) + end
        if len(line) <= WIDTH or not parameters:
            yield line + comment
        elif len(inner := f"{indent}    {', '.join(parameters)}") <= WIDTH:
            yield head + comment
            yield inner
            yield indent + end
        else:
            yield head + comment
            for parameter in parameters:
                yield f"{indent}    {parameter},"
            yield indent + end
    elif isinstance(statement, ast.If):
        yield f"{indent}if {ast.unparse(statement.test)}:"
        yield from _block(statement.body, indent + "    ", comments)
        rest = statement.orelse
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            yield f"{indent}elif {ast.unparse(rest[0].test)}:"
            yield from _block(rest[0].body, indent + "    ", comments)
            rest = rest[0].orelse
        if rest:
            yield f"{indent}else:"
            yield from _block(rest, indent + "    ", comments)
    elif isinstance(statement, ast.ImportFrom) and len(statement.names) > 1 and len(ast.unparse(statement)) > WIDTH:
        yield f"{indent}from {'.' * statement.level}{statement.module or ''} import ({comment}"
        for alias in statement.names:
            yield f"{indent}    {ast.unparse(alias)},"
        yield f"{indent})"
    else:
        yield from _assignment(statement, indent, comment)


def _assignment(statement: ast.stmt, indent: str, comment: str) -> Iterator[str]:
    line = f"{indent}{ast.unparse(statement)}{comment}"
    value = getattr(statement, "value", None)
    if len(line) <= WIDTH or not isinstance(value, (ast.List, ast.Tuple, ast.Set)) or not value.elts:
        yield line
        return
    head = line[: -len(ast.unparse(value)) - len(comment)]
    opening, closing = _BRACKETS[type(value)]
    yield f"{head}{opening}{comment}"
    for item in value.elts:
        yield f"{indent}    {ast.unparse(item)},"
    yield f"{indent}{closing}"


_BRACKETS = {ast.List: ("[", "]"), ast.Tuple: ("(", ")"), ast.Set: ("{", "}")}


def _type_parameters(statement: ast.stmt) -> str:
    parameters: list[ast.AST] = getattr(statement, "type_params", [])
    return f"[{', '.join(ast.unparse(parameter) for parameter in parameters)}]" if parameters else ""


def _keyword(keyword: ast.keyword) -> str:
    return f"{keyword.arg}={ast.unparse(keyword.value)}" if keyword.arg else f"**{ast.unparse(keyword.value)}"


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for position, (parameter, default) in enumerate(zip(positional, defaults, strict=True)):
        yield _parameter(parameter, default)
        if position + 1 == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg:
        yield f"*{_parameter(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(parameter, default)
    if arguments.kwarg:
        yield f"**{_parameter(arguments.kwarg, None)}"


def _parameter(parameter: ast.arg, default: ast.expr | None) -> str:
    text = parameter.arg
    if parameter.annotation is not None:
        text += f": {ast.unparse(parameter.annotation)}"
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if parameter.annotation is not None else f"{text}={ast.unparse(default)}"


def _requoted(text: str) -> str:
    """Strings in double quotes, as most code has them; ``ast`` prints single ones."""
    lines = text.splitlines(keepends=True)
    strings: list[tokenize.TokenInfo] = []
    depth = 0  # of f-strings, whose inside has quotes of its own
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        depth += {"FSTRING_START": 1, "FSTRING_END": -1}.get(name, 0)
        if name == "STRING" and not depth:
            strings.append(token)
    for token in reversed(strings):
        (row, start), (last, end) = token.start, token.end
        plain = token.string.startswith("'") and not token.string.startswith("'''")
        if row == last and plain and '"' not in token.string and "\\" not in token.string:
            line = lines[row - 1]
            lines[row - 1] = f'{line[:start]}"{token.string[1:-1]}"{line[end:]}'
    return "".join(lines)
