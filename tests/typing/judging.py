"""Which lines of the corpus a checker gets wrong.

A statement with `assert_type` is wrong when it is reported, a line that ends in `# E: ...` when it is not, any other
line when it is.
"""

import ast
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.typing.checkers import REPOSITORY, Outcome, Project, Report, check, settings
from tests.typing.forms import decorated
from tests.typing.known_faults import KNOWN_FAULTS, KnownFault

CORPUS = Path(__file__).with_name("corpus")
FORMS = ("subclass", "decorated")

_MUST_FAIL = re.compile(r"#\s*E(:|$)")


@dataclass(frozen=True)
class Expected:
    """What is expected of a module: facts (the lines of each) and lines that must be reported."""

    facts: tuple[range, ...]
    errors: tuple[int, ...]


def expected(source: str) -> Expected:
    """Reads what a module of the corpus expects."""
    facts = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "assert_type"
    ]
    errors = [number for number, line in enumerate(source.splitlines(), 1) if _MUST_FAIL.search(line)]
    return Expected(tuple(facts), tuple(errors))


@dataclass(frozen=True)
class Wrong:
    """A line that a checker gets wrong."""

    module: str
    line: int
    code: str
    said: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.code}\n    {self.said}"


@dataclass(frozen=True)
class Verdict:
    """How a checker does on a form of the corpus."""

    checker: str
    form: str
    right: int
    wrong: tuple[Wrong, ...]
    seconds: float
    failure: str = ""

    @property
    def unlisted(self) -> list[Wrong]:
        """What is wrong and not among the known faults."""
        known = {(fault.module, fault.code) for fault in self._known()}
        return [wrong for wrong in self.wrong if (wrong.module, wrong.code) not in known]

    @property
    def mended(self) -> list[KnownFault]:
        """Known faults that do not occur any more."""
        found = {(wrong.module, wrong.code) for wrong in self.wrong}
        return [fault for fault in self._known() if (fault.module, fault.code) not in found]

    @property
    def passed(self) -> bool:
        return not self.failure and not self.unlisted and not self.mended

    def _known(self) -> list[KnownFault]:
        return [fault for fault in KNOWN_FAULTS if fault.checker == self.checker and self.form in fault.forms]


def judge(checker: str, form: str, *, inline: bool = False) -> Verdict:
    """Runs a checker on a form of the corpus."""
    sources = {path.stem: path.read_text() for path in sorted(CORPUS.glob("*.py"))}
    if form == "decorated":
        sources["records"] = decorated(sources["records"])
    project = _project(checker, form, sources, inline)
    if form == "decorated" and checker != "mypy":
        del sources["records"]  # these checkers read the stub in its place
    return judged(checker, form, sources, check(checker, project, [f"{name}.py" for name in sources]))


def _project(checker: str, form: str, sources: dict[str, str], inline: bool) -> Project:
    folder = REPOSITORY / "build" / "types" / f"{checker}-{form}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    (folder / "pyproject.toml").write_text(settings(decorated=form == "decorated"))
    project = Project(folder, inline, decorated=form == "decorated")
    project.install()
    if form == "decorated" and checker != "mypy":
        command = [sys.executable, "-m", "tensorclass.cli", "stubs", "records.py"]
        subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(REPOSITORY)}, check=True, stdout=subprocess.DEVNULL)
    return project


def judged(checker: str, form: str, sources: dict[str, str], outcome: Outcome) -> Verdict:
    """Compares what a checker reported with what the modules expect."""
    right = 0
    wrong: list[Wrong] = []
    for module, source in sources.items():
        lines = source.splitlines()
        wanted = expected(source)
        said: dict[int, Report] = {}
        for report in outcome.reports:
            if report.file == f"{module}.py":
                said.setdefault(report.line, report)
        facts = {line: fact.start for fact in wanted.facts for line in fact}
        failed = {facts.get(line, line): report.text for line, report in said.items() if line not in wanted.errors}
        failed.update({line: "not reported" for line in wanted.errors if line not in said})
        right += len(wanted.facts) + len(wanted.errors)
        right -= sum(fact.start in failed for fact in wanted.facts) + sum(line in failed for line in wanted.errors)
        wrong += [Wrong(module, line, lines[line - 1].strip(), text) for line, text in sorted(failed.items())]
    return Verdict(checker, form, right, tuple(wrong), outcome.seconds, outcome.failure)


def table(verdicts: list[Verdict]) -> str:
    """One line a verdict."""
    lines = [f"{'checker':<10}{'form':<12}{'right':>7}{'wrong':>7}{'listed':>8}{'seconds':>10}"]
    for one in verdicts:
        wrong = "failed" if one.failure else str(len(one.wrong))
        listed = len(one.wrong) - len(one.unlisted)
        lines.append(f"{one.checker:<10}{one.form:<12}{one.right:>7}{wrong:>7}{listed:>8}{one.seconds:>10.1f}")
    return "\n".join(lines)
