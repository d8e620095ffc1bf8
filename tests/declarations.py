"""Write what follows from the functions behind methods: the methods, functions of the package, lists of names.

A method whose work is in a higher layer is declared once, as the function that does the work: its signature and its
docstring are those that users read. A line in its module names the class of the methods::

    METHODS_OF = "TableFiles"

Each public function of the module whose docstring has an ``Example`` is a method. From these are made the modules of
``tensorclass/td/delegated/`` whose first line says so, for converters a section of ``tensorclass/functions.py``, and
the lists of names in that and in ``tensorclass/__init__.py``.

    make stubs                          # writes them, then the type stubs
    python -m tests.declarations --check

The first argument is the collection, or ``cls``. If it is of a type variable (``data: C``, ``cls: type[C]``), that is
``Self`` in the method. A function is written once, so it says nothing twice that others say, too:

- ``**kwargs: Unpack[TableKwargs]`` stands for the arguments of that ``TypedDict``. One of them is ``None`` by default
  if it takes ``None``, otherwise what ``DEFAULTS`` says. Keyword arguments have the order of ``Args``.
- A line ``TableKwargs: columns, rename`` under ``Args`` stands for these arguments, as the docstring of ``TableKwargs``
  explains them; under ``Raises`` for these errors. ``Returns`` can be such a name alone. Any class or function of the
  package can be named whose docstring has the section.
- ``{x}`` in such a docstring is the name of the format.
- An overload names the arguments that decide; the others are those of the function.
- ``save = memmap`` in a line of its own is another name of the method; ``PROPERTIES = ("saved_path",)`` names
  properties.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tensorclass"

#: class of methods: its module in td/delegated/, the first line of that, and its docstring
CLASSES = {
    "PythonObjects": ("object_methods", "Methods for dicts, tuples, lists, pytrees and structured arrays.",
                      "``from_x`` and ``to_x`` of Python objects and of numpy's structured arrays."),
    "ClassInstances": ("class_instance_methods",
                       "Methods for instances of dataclasses, attrs classes and pydantic models.",
                       "``from_x`` and ``to_x`` of dataclasses, classes of attrs and models of pydantic."),
    "Tables": ("table_methods", "Methods for tables of pandas, Arrow and polars.",
               "``from_x`` and ``to_x`` of tables: pandas, Arrow, polars."),
    "TableFiles": ("table_file_methods", "Methods for files of tables: Parquet, CSV, JSON, Feather.",
                   "``from_x``, ``iter_x`` and ``to_x`` of files of tables: Parquet, CSV, JSON, Feather."),
    "Datasets": ("dataset_methods", "Methods for data sets of Hugging Face and Ray.",
                 "``from_x``, ``iter_x`` and ``to_x`` of data sets: Hugging Face, Ray."),
    "Files": ("file_methods", "Methods for single files: HDF5, zarr, consolidated, safetensors.",
              "``to_h5``, ``consolidate``, ``save_safetensors`` and their kin."),
    "MemoryMaps": ("memory_map_methods", "Methods for collections on memory-mapped tensors.",
                   "``memmap``, ``load_memmap`` and their kin."),
    "PointToPoint": ("message_methods", "Methods that send a collection from one process to another.",
                     "``send``, ``recv``, ``isend``, ``irecv``, ``init_remote`` and ``from_remote_init``."),
    "Collectives": ("collective_methods", "Collectives: methods that all ranks of a process group call.",
                    "``broadcast``, ``scatter``, ``all_gather``, ``gather_and_stack``, ``all_reduce`` and ``reduce``."),
    "Map": ("map_methods", "A function on chunks of rows, run in other processes.", "``map`` and ``map_iter``."),
    "RowOperations": ("row_methods", "Methods that choose, order and combine rows by their values, as tables do.",
                      "``filter``, ``sort_by``, ``group_by``, ``join`` and their kin, along the first dimension."),
    "Looks": ("look_methods", "Methods to look at rows and fields.",
              "``head``, ``tail``, ``sample``, ``summary`` and ``plot``. Rows lie along the first dimension."),
    "Stores": ("store_methods", "Collections over stores that users give.", "``from_store``."),
}  # fmt: skip
#: those of converters, which are functions of the package, too
CONVERTERS = ("PythonObjects", "ClassInstances", "Tables", "TableFiles", "Datasets")
#: modules that the declarations may import when they run; others are for type checkers
IMPORTED = re.compile(
    r"collections\.abc|typing|typing_extensions|pathlib|datetime|torch"
    r"|tensorclass\.td\.(collection|keys|memory\..*|delegated\.arguments)"
)

HEADER = '# Generated by "make stubs" from the functions that it names: change those instead.\n'
#: the section of functions.py that is written
SECTION = re.compile(r"(?<=\n# -- converters: written by \"make stubs\" -)(-+\n)\n.*?\n(?=\n# -- )", re.DOTALL)
DEFAULTS = {
    "auto_batch_size": "False",
    "strict": "True",
    "drop_last": "False",
    "nulls": '"default"',
    "ragged": '"column"',
    "mode": '"r"',
    "non_tensor_as_stack": "False",
    "verify": "False",
    "init_tag": "0",
    "pseudo_rand": "False",
    "consolidated": "False",
    "allow_pickle": "False",
    "worker_threads": "1",
    "retries": "0",
}


# ---------------------------------------------------------------------------------------------------------------------
# sources


class Source:
    """A module of the package, read and not imported."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.tree = ast.parse(text)
        #: where imported names come from: (module, name), or (module, None); and which are imported for checkers alone
        self.imports: dict[str, tuple[str, str | None]] = {}
        self.for_checkers: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                parts = name.split(".")[: -node.level] if node.level else []
                module = ".".join([*parts, *filter(None, [node.module])])
                self.imports.update({one.asname or one.name: (module, one.name) for one in node.names})
            elif isinstance(node, ast.Import):
                self.imports.update({one.asname or one.name.partition(".")[0]: (one.name, None) for one in node.names})
        for block in self.tree.body:
            if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING":
                self.for_checkers |= {
                    one.asname or one.name
                    for node in ast.walk(block)
                    if isinstance(node, (ast.Import, ast.ImportFrom))
                    for one in node.names
                }

    def assigned(self, name: str) -> ast.expr | None:
        """Return what is assigned to a name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and any(getattr(one, "id", "") == name for one in node.targets):
                return node.value
        return None

    def literal(self, name: str) -> Any:
        """Return the literal that is assigned to a name; ``None`` without one."""
        value = self.assigned(name)
        return None if value is None else ast.literal_eval(value)

    def functions(self) -> dict[str, list[ast.FunctionDef]]:
        """Return the functions that are methods: the overloads of each, and last the function itself."""
        found: dict[str, list[ast.FunctionDef]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(node)
        return {name: each for name, each in found.items() if "Example" in sections(ast.get_docstring(each[-1]) or "")}

    def other_names(self, name: str) -> list[str]:
        """Return the names that a function has besides its own."""
        return [
            target.id
            for node in self.tree.body
            if isinstance(node, ast.Assign) and getattr(node.value, "id", "") == name
            for target in node.targets
            if isinstance(target, ast.Name)
        ]

    def is_variable(self, name: str) -> bool:
        """Return whether a name is a type variable that the module makes or imports."""
        if name in self.imports:
            module, there = self.imports[name]
            return there is not None and module.startswith("tensorclass.") and source(module).is_variable(there)
        return getattr(getattr(self.assigned(name), "func", None), "id", "") == "TypeVar"

    def segment(self, node: ast.AST) -> str:
        """Return the source of a node on one line."""
        return re.sub(r"\s+", " ", ast.get_source_segment(self.text, node) or "")

    def comment(self, node: ast.FunctionDef) -> str:
        """Return what the first line of a function tells type checkers."""
        return "".join(re.findall("  # (?:type|pyright): .*", self.text.splitlines()[node.lineno - 1]))


@cache
def source(name: str) -> Source:
    """Return a module of the package."""
    path = ROOT.joinpath(*name.split("."))
    return Source(name, (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())


def find(name: str, at: Source) -> tuple[ast.ClassDef | ast.FunctionDef, Source]:
    """Return a class or function of the package that a module defines or imports."""
    for node in reversed(at.tree.body):  # overloads come before the function
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return node, at
    if at.imports.get(name, ("",))[0].startswith("tensorclass."):
        return find(name, source(at.imports[name][0]))
    if name in defined() and at is not defined()[name]:
        return find(name, defined()[name])
    raise SystemExit(f"{at.name}: no class or function {name!r}, which a docstring or a signature names")


@cache
def defined() -> dict[str, Source]:
    """Return the module of each class and function to which docstrings of functions can refer."""
    modules = [
        source(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for folder in ("storage", "distributed", "relational", "convert")
        for path in sorted(PACKAGE.glob(f"{folder}/**/*.py"))
    ]
    return {
        node.name: at for at in modules for node in at.tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    }


def declarations() -> Iterator[tuple[str, Source]]:
    """Yield each class of methods with the modules of its functions."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if re.search("^METHODS_OF = ", path.read_text(), re.MULTILINE):
            at = source(".".join(path.relative_to(ROOT).with_suffix("").parts))
            owner = at.literal("METHODS_OF")
            if owner not in CLASSES:
                raise SystemExit(f"{at.name}: METHODS_OF is {owner!r}, which is none of {list(CLASSES)}")
            yield owner, at


# ---------------------------------------------------------------------------------------------------------------------
# docstrings


def sections(doc: str) -> dict[str, str]:
    """Return the text of each section of a docstring; the text in front of all is under the empty name."""
    parts = re.split(r"^(Args|Returns|Raises|Example|Source):\n", inspect.cleandoc(doc), flags=re.MULTILINE)
    return {"": parts[0].strip()} | {
        name: textwrap.dedent(text).strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of a section: a name and its text."""
    for entry in re.split(r"\n(?! )", text):
        name, _, rest = entry.partition(":")
        yield name, " ".join(rest.split())


def explained(section: str, name: str, at: Source) -> dict[str, str]:
    """Return what the docstring of a class or function says in a section, entry by entry; bases are asked, too."""
    node, at = find(name, at)
    found: dict[str, str] = {}
    for base in node.bases if isinstance(node, ast.ClassDef) else ():
        if isinstance(base, ast.Name) and base.id.endswith("Kwargs"):
            found |= explained(section, base.id, at)
    return found | dict(expanded(section, sections(ast.get_docstring(node) or "").get(section, ""), at))


def expanded(section: str, text: str, at: Source) -> Iterator[tuple[str, str]]:
    """Yield the entries of a section, with those of others in the place of references to them."""
    for name, rest in entries(text) if text else ():
        names = rest.split(", ")
        if not re.fullmatch(r"(\w+, )*\w+", rest):  # a sentence
            yield name, rest
            continue
        known = explained(section, name, at)
        while names:  # an entry can be about several names
            ends = [end for end in range(len(names), 0, -1) if ", ".join(names[:end]) in known]
            if not ends:
                raise SystemExit(f"{at.name}: {name} explains no {names[0]!r} under {section}")
            one, names = ", ".join(names[: ends[0]]), names[ends[0] :]
            yield one, known[one]


def wrapped(text: str, indent: int, hanging: int = 0) -> str:
    """Return a paragraph in lines of 120 characters."""
    return textwrap.fill(
        text, 120, initial_indent=" " * indent, subsequent_indent=" " * (indent + hanging), break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def docstring(function: ast.FunctionDef, at: Source, other_name: str = "") -> str:
    """Return the docstring of the method of a function, or of one that is its other name."""
    parts = sections(ast.get_docstring(function) or "")
    if other_name:
        parts[""] += f"\n\nAnother name of :meth:`{function.name}`."
        parts["Example"] = parts["Example"].replace(f".{function.name}(", f".{other_name}(")
    paragraphs = [wrapped(" ".join(one.split()), 8) for one in parts[""].split("\n\n")]
    lines = ["\n\n".join(paragraphs)]
    for section in ("Args", "Returns", "Raises", "Example"):
        text = parts.get(section)
        if text is None:
            continue
        if section == "Example":
            body = textwrap.indent(text, " " * 12)
        elif section == "Returns":
            if re.fullmatch(r"\w+", text):
                text = sections(ast.get_docstring(find(text, at)[0]) or "")["Returns"]
            body = wrapped(" ".join(text.split()), 12)
        else:
            body = "\n".join(wrapped(f"{name}: {rest}", 12, 4) for name, rest in expanded(section, text, at))
        lines.append(f"        {section}:\n{body}")
    doc = "\n\n".join(lines).strip().replace("{x}", function.name.partition("_")[2])
    prefix = "r" if "\\" in doc else ""
    return f'        {prefix}"""{doc}\n        """'


# ---------------------------------------------------------------------------------------------------------------------
# methods


@dataclass
class Methods:
    """A class of methods, being written."""

    owner: str
    body: list[str] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    for_checkers: set[str] = field(default_factory=set)
    type_variables: dict[str, str] = field(default_factory=dict)

    def annotation(self, node: ast.AST, at: Source, of_self: str = "") -> str:
        """Return an annotation in the module of methods, which imports its names; ``of_self`` is that of the owner."""
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and one.id != of_self and not hasattr(builtins, one.id):
                self._use(one.id, at)
        return re.sub(rf"\b{of_self}\b", "Self", at.segment(node)) if of_self else at.segment(node)

    def _use(self, name: str, at: Source) -> None:
        """Import a name that a module imports or defines."""
        if name in at.imports:
            module, imported = at.imports[name]
            statement = f"import {module}" if imported is None else f"from {module} import {imported}"
            (self.imports if IMPORTED.fullmatch(module) else self.for_checkers).add(statement)
        elif at.is_variable(name):
            made: Any = at.assigned(name)
            self.imports.add("from typing import TypeVar")
            self.type_variables[name] = at.segment(made)
            for bound in made.keywords:
                self.annotation(ast.parse(ast.literal_eval(bound.value), mode="eval"), at)
        else:
            self.for_checkers.add(f"from {at.name} import {name}")

    def parameters(self, function: ast.FunctionDef, order: Iterable[str], at: Source, whole: list[str]) -> list[str]:
        """Return the parameters of a method, that for the collection first.

        Args:
            function: the function, or an overload of it.
            order: the names in the order of ``Args``.
            at: the module of the function.
            whole: the parameters of the function; an overload leaves out some of them.
        """
        given = function.args
        own, of_self = self._own(function, at)
        defaults = [None] * (len(given.args) - len(given.defaults)) + [*given.defaults]
        named: dict[str, str] = {}

        def text(one: ast.arg, default: ast.expr | None) -> str:
            assert one.annotation is not None
            shown = "" if default is None else f" = {at.segment(default)}"
            return f"{one.arg}: {self.annotation(one.annotation, at, of_self)}{shown}"

        for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            named[one.arg] = text(one, default)
        rest: list[str] = []
        if given.kwarg is not None and given.kwarg.annotation is not None and not whole:
            unpacked = re.fullmatch(r"Unpack\[(\w+)\]", at.segment(given.kwarg.annotation))
            if unpacked is None:
                rest.append(f"**{given.kwarg.arg}: {self.annotation(given.kwarg.annotation, at)}")
            keywords = self.keywords(unpacked[1] if unpacked else self._file_kwargs(function.name), at)
            for name, annotation in keywords.items():
                default_text = default_of(name, annotation)
                named.setdefault(name, f"{name}: {annotation}" + (f" = {default_text}" if default_text else ""))
        listed = {one.arg: text(one, default) for one, default in [*zip(given.args, defaults, strict=True)][1:]}
        if whole:
            return [own, *_completed(listed, named, whole)]
        if missing := named.keys() - set(order):
            raise SystemExit(f"{at.name}.{function.name}: Args does not explain {sorted(missing)}")
        by_name = [named[name] for name in order if name in named]
        return [own, *listed.values(), *(["*"] if by_name else []), *by_name, *rest]

    def _own(self, function: ast.FunctionDef, at: Source) -> tuple[str, str]:
        """Return the parameter for the collection, and the type variable that is ``Self``, if there is one."""
        first = function.args.args[0]
        of_class = at.segment(first.annotation or first)
        variable = of_class.removeprefix("type[").removesuffix("]")
        of_self = variable if at.is_variable(variable) else ""
        if of_self:
            self.imports.add("from typing_extensions import Self")
        return "cls" if first.arg == "cls" else f"self: {'Self' if of_self else self.owner}", of_self

    def _file_kwargs(self, name: str) -> str:
        """Return the keywords of a function of files, which takes those of the library that reads them, too."""
        known = {"from": "FileKwargs", "iter": "FileStreamKwargs"} if self.owner == "TableFiles" else {}
        return known.get(name.partition("_")[0], "")

    def keywords(self, name: str, at: Source) -> dict[str, str]:
        """Return the keywords of a ``TypedDict`` with their annotations; none without a name."""
        if not name:
            return {}
        node, at = find(name, at)
        assert isinstance(node, ast.ClassDef)
        found: dict[str, str] = {}
        for base in node.bases:
            if getattr(base, "id", "TypedDict") != "TypedDict":
                found |= self.keywords(base.id, at)  # type: ignore[attr-defined]
        return found | {
            item.target.id: self.annotation(item.annotation, at)  # type: ignore[union-attr]
            for item in node.body
            if isinstance(item, ast.AnnAssign)
        }

    def add(self, functions: list[ast.FunctionDef], at: Source) -> None:
        """Add the method of a function, with its overloads, and its other names."""
        function = functions[-1]
        args = sections(ast.get_docstring(function) or "").get("Args", "")
        order = [name for name, _ in expanded("Args", args, at)]
        whole = self.parameters(function, order, at, [])
        lines = []
        for one in functions:
            parameters = whole if one is function else self.parameters(one, order, at, whole)
            returns = "None" if one.returns is None else self.annotation(one.returns, at, self._own(one, at)[1])
            decorators = ["@classmethod"] if parameters[0] == "cls" else []
            if one is function:
                decorators.append(f'@delegated("{at.name}")')
            else:
                decorators.insert(0, "@overload")
                self.imports.add("from typing import overload")
            if one.name in (at.literal("PROPERTIES") or ()):
                decorators.insert(0, "@property")
                parameters = ["self"]
            lines += [f"    {decorator}" for decorator in decorators]
            end = "" if one is function else " ..."
            lines.append(_signature(one.name, parameters, returns, end, "" if one is function else at.comment(one)))
        self.body.append("\n".join([*lines, docstring(function, at), "        ..."]))
        for name in at.other_names(function.name):
            if whole[0] == "cls":  # mypy does not take an alias for a class method
                decorators[-1] = f'@delegated("{at.name}", "{function.name}")'
                lines = [*[f"    {decorator}" for decorator in decorators], _signature(name, whole, returns, "", "")]
                self.body.append("\n".join([*lines, docstring(function, at, name), "        ..."]))
            else:
                self.body.append(f"    {name} = {function.name}")

    def module(self) -> str:
        """Return the text of the module."""
        _, first, doc = CLASSES[self.owner]
        imports = {
            *self.imports, "from tensorclass.td.collection import Collection", "from .declaration import delegated",
        }  # fmt: skip
        checkers = ""
        if self.for_checkers:
            imports.add("from typing import TYPE_CHECKING")
            checkers = "if TYPE_CHECKING:\n" + "".join(f"    {one}\n" for one in sorted(self.for_checkers))
        variables = "".join(f"{name} = {text}\n" for name, text in sorted(self.type_variables.items()))
        if checkers and variables:
            checkers += "\n"
        statements = "\n".join(sorted(imports)).replace("from tensorclass.td.delegated.", "from .")
        start = f'{HEADER}"""{first}"""\n\nfrom __future__ import annotations'
        header = f"{start}\n\n{statements}\n\n{checkers}{variables}"
        body = "\n\n".join(self.body)
        return f'{header}\n\nclass {self.owner}(Collection):\n    """{doc}"""\n\n    __slots__ = ()\n\n{body}\n'


def default_of(name: str, annotation: str) -> str | None:
    """Return the default of a keyword of a ``TypedDict``."""
    return "None" if re.search(r"\| None$|^BatchSize$|^Any$", annotation) else DEFAULTS.get(name)


def _completed(listed: dict[str, str], named: dict[str, str], whole: list[str]) -> list[str]:
    """Return the parameters of an overload with those of the function that it leaves out."""
    found: list[str] = []
    by_name = False
    for parameter in whole[1:]:
        by_name |= parameter == "*"
        name = parameter.partition(":")[0]
        default = re.sub(r" = .*", " = ...", parameter)
        if name in named and not by_name:  # given by name, although it has a position
            raise SystemExit(f"an overload has the argument {name} by name")
        found.append((named if by_name else listed).get(name, default))
    return found


def _signature(name: str, parameters: list[str], returns: str, end: str, comment: str) -> str:
    line = f"    def {name}({', '.join(parameters)}) -> {returns}:{end}"
    if len(line) <= 120:
        return line + comment
    lines = wrapped(", ".join([one.replace(" ", "\0") for one in parameters]), 8).replace("\0", " ")
    return f"    def {name}({comment}\n{lines}\n    ) -> {returns}:{end}"


def methods() -> dict[str, Methods]:
    """Return the classes of methods."""
    found = {owner: Methods(owner) for owner in CLASSES}
    for owner, at in declarations():
        rule = f"    # -- {at.name.rpartition('.')[2]} "
        found[owner].body.append(f"{rule:-<120}")
        for functions in at.functions().values():
            found[owner].add(functions, at)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# functions of the package


def functions() -> list[tuple[str, str]]:
    """Return the functions that are methods of converters, and the class of the first argument in functions.py."""
    init = source("tensorclass").imports
    found: list[tuple[str, str]] = []
    for owner, at in declarations():
        for name, (*_, function) in at.functions().items() if owner in CONVERTERS else ():
            of_class = function.args.args[0].arg == "cls"
            is_other = init.get(name, ("tensorclass.functions", ""))[0] != "tensorclass.functions"
            if (of_class or name.startswith("to_")) and not is_other:
                found.append((name, "_TensorDict" if of_class else "_Collection"))
    return sorted(found)


def with_functions(text: str, found: list[tuple[str, str]]) -> str:
    """Return functions.py with the section of converters, and the names of all its functions."""
    lines = "".join(f"{name}: Final = {owner}.{name}\n" for name, owner in found)
    text = SECTION.sub(lambda match: f"{match[1]}\n{lines}", text)
    return _with_names(text, set(re.findall(r"^(?:def )?([a-z]\w*)(?:\(|: Final)", text, re.MULTILINE)))


def _listed(text: str) -> set[str]:
    """Return the names in the ``__all__`` of a module."""
    return set(re.findall(r'"(\w+)"', text.partition("__all__ = [")[2].partition("]")[0]))


def _with_names(text: str, names: set[str]) -> str:
    """Return a module with other names in its ``__all__``."""
    order = sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    listed = "__all__ = [\n" + "".join(f'    "{name}",\n' for name in order) + "]"
    return re.sub(r"__all__ = \[.*?\]", listed, text, count=1, flags=re.DOTALL)


def texts() -> dict[Path, str]:
    """Return the text of each file that is written."""
    found: dict[Path, str] = {}
    for owner, made in methods().items():
        path = PACKAGE / "td" / "delegated" / f"{CLASSES[owner][0]}.py"
        command = [
            sys.executable, "-m", "ruff", "check", "--quiet", "--select", "I", "--fix", "--stdin-filename", path, "-",
        ]  # fmt: skip
        run = subprocess.run(command, input=made.module(), capture_output=True, text=True, check=True)
        found[path] = run.stdout
    path = PACKAGE / "functions.py"
    before = path.read_text()
    found[path] = with_functions(before, functions())
    init = PACKAGE / "__init__.py"
    names = _listed(init.read_text()) - _listed(before) | _listed(found[path])
    found[init] = _with_names(init.read_text(), names)
    return found


def main(arguments: list[str]) -> int:
    """Write the files, or say which differ (``--check``)."""
    # made once: what goes from one file is found by comparing another with what it was before
    wrong = {path: text for path, text in texts().items() if path.read_text() != text}
    if "--check" in arguments:
        for path in wrong:
            print(f"{path.relative_to(ROOT)}: does not fit the converters; run make stubs")
        return 1 if wrong else 0
    for path, text in wrong.items():
        path.write_text(text)
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
