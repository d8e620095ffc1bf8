"""Environments for ``make versions``: a Python, a PyTorch, and the packages that the tests need.

PyTorch's wheels for Linux ask for CUDA libraries of several GB, and for triton. Processors need neither, but the
libraries have to be there for ``import torch``. They are installed once for each version of CUDA, and every environment
has a link to them. The requirement is struck from the environment's PyTorch, so that pip does not ask for them again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

#: options that choose the packages, with their help
CHOICES = {
    "pinned": "the versions of constraints.txt, where this Python has them (default)",
    "lowest": "the lower bounds of pyproject.toml, as far as they fit together",
    "newest": "the newest versions that pyproject.toml allows",
}

#: packages of pyproject's extra `dev` that the tests here do not need: linters, type checkers and the site
LEFT_OUT = (
    "sphinx", "myst-parser", "pydata-sphinx-theme", "ruff", "import-linter", "mypy", "pyright", "pyrefly", "ty",
    "twine", "check-jsonschema",
)  # fmt: skip
#: the peer asks for a newer PyTorch than this package, so it is installed without its requirements
PEER = "tensordict"
PEER_NEEDS = ("cloudpickle", "pyvers>=0.2,<0.3")
#: libraries of CUDA's toolkit that some torch is linked with, so that what one asks for serves another
TOOLKIT = "cublas,cudart,cufft,cufile,cupti,curand,cusolver,cusparse,nvjitlink,nvrtc,nvtx"


class Failed(Exception):
    """An environment could not be made."""


def folder() -> Path:
    """Return the folder of environments, shared libraries and rows."""
    return Path(os.environ.get("TENSORCLASS_VERSIONS", "~/.cache/tensorclass-versions")).expanduser().resolve()


def distribution(requirement: str) -> str:
    """Return the name of a requirement's distribution.

    >>> distribution("cuda-toolkit[cublas]==13.0.2; platform_system == 'Linux'")
    'cuda-toolkit'
    """
    found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", requirement)
    if not found:
        raise ValueError(f"expected a requirement as in pyproject.toml, got {requirement!r}")
    return re.sub(r"[-_.]+", "-", found[1]).lower()


def for_gpus(requirement: str) -> bool:
    """Say whether a requirement of PyTorch is for GPUs alone.

    >>> [for_gpus(text) for text in ("nvidia-cudnn-cu13==9.20", "cuda-bindings<14", "triton==3.7", "sympy>=1")]
    [True, True, True, False]
    """
    return distribution(requirement).startswith(("nvidia-", "cuda-", "triton"))


def linked_libraries(requirements: list[str]) -> list[str]:
    """Return the requirements whose libraries PyTorch is linked with; triton and the bindings are imported later.

    >>> linked_libraries(
    ...     ["cuda-toolkit[cudart]==13.2.2", "cuda-bindings<14", "nvidia-nccl-cu13==2.30.7", "triton==3.9"]
    ... )
    ['cuda-toolkit[cublas,cudart,cufft,cufile,cupti,curand,cusolver,cusparse,nvjitlink,nvrtc,nvtx]==13.2.2',
     'nvidia-nccl-cu13==2.30.7']
    """
    linked = [text for text in requirements if distribution(text).startswith(("nvidia-", "cuda-toolkit"))]
    return [re.sub(r"cuda-toolkit\[.*?\]", f"cuda-toolkit[{TOOLKIT}]", text) for text in linked]


def cuda_version(requirements: list[str]) -> tuple[int, ...]:
    """Return the version of CUDA that PyTorch asks for.

    >>> cuda_version(["cuda-toolkit[cublas,cudart]==13.0.2; platform_system == 'Linux'", "triton==3.6.0"])
    (13, 0, 2)
    """
    for text in requirements:
        found = re.match(r"(?:cuda-toolkit|nvidia-cuda-runtime-cu\d+)(?:\[.*?\])?==([\d.]+)", text)
        if found:
            return tuple(map(int, found[1].split(".")))
    raise Failed(f"no version of CUDA among the requirements of torch: {', '.join(requirements)}")


def at_lower_bound(requirement: str) -> str:
    """Return a requirement for the lowest version that this one allows.

    >>> at_lower_bound("ray[data]>=2.44")
    'ray[data]==2.44'
    >>> at_lower_bound("zarr>=3.0; python_version >= '3.11'")
    "zarr==3.0; python_version >= '3.11'"
    >>> at_lower_bound("tensorclass[all]")
    'tensorclass[all]'
    """
    wanted, mark, condition = requirement.partition(";")
    return re.sub(r">=\s*([^,\s]+).*", r"==\1", wanted) + mark + condition


def project() -> dict[str, Any]:
    """Return the table ``[project]`` of pyproject.toml."""
    import tomllib  # Python 3.11: the oldest that this command runs on

    data: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return data


def interpreter(version: str) -> Path:
    """Return the newest Python of a version, from pyenv, the folder of the environments, or PATH.

    Raises:
        Failed: there is none.
    """
    on_path = shutil.which(f"python{version}")
    candidates = [Path(on_path)] if on_path else []
    for place, pattern in ((folder(), f"python-{version}*"), (Path("~/.pyenv/versions").expanduser(), f"{version}*")):
        candidates += sorted(place.glob(f"{pattern}/bin/python{'.'.join(version.split('.')[:2])}"))
    for candidate in reversed(candidates):  # PATH comes last: pyenv's shims may stand for versions switched off
        asked = subprocess.run([candidate, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
        if asked.returncode == 0 and asked.stdout.startswith(f"{version}."[: len(version) + 1]):
            return candidate
    raise Failed(
        f"no Python {version}: expected python{version} on PATH, ~/.pyenv/versions/{version}.* "
        f"or {folder()}/python-{version}.*; install one, for example with pyenv"
    )


class Environment:
    """A virtual environment for one Python, one PyTorch and one choice of packages.

    Args:
        python: version of Python, such as ``"3.12"``.
        torch: version of PyTorch, such as ``"2.15"``; ``None`` is the one that the choice of packages names.
        packages: a name of :data:`CHOICES`.
    """

    def __init__(self, python: str, torch: str | None, packages: str) -> None:
        self.python_version = python
        self.packages = packages
        self.torch_requirement = self._torch(torch)
        suffix = "" if packages == "pinned" else f"-{packages}"
        label = re.sub(r"[^\d.]", "", self.torch_requirement).strip(".") or "newest"
        self.name = f"{python}-torch-{label}{suffix}"
        self.path = folder() / "environments" / self.name
        self.python = self.path / "bin" / "python"

    def _torch(self, version: str | None) -> str:
        if version:
            return f"torch=={version}" if version.count(".") > 1 else f"torch=={version}.*"
        if self.packages == "newest":
            return "torch"
        if self.packages == "lowest":
            [bound] = [text for text in project()["dependencies"] if distribution(text) == "torch"]
            return f"{at_lower_bound(bound)}.0"
        [pin] = [line for line in self._constraints() if distribution(line) == "torch"]
        return pin

    @staticmethod
    def _constraints() -> list[str]:
        lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    def run(self, *arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the environment's Python, outside of the checkout and without its settings."""
        options.setdefault("cwd", self.path)
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        environment |= options.pop("env", {})
        return subprocess.run([self.python, *arguments], env=environment, text=True, **options)

    def pip(self, *arguments: str | Path) -> str:
        """Run pip and return what it printed.

        Raises:
            Failed: pip failed.
        """
        command = ["-m", "pip", "--disable-pip-version-check", "--no-cache-dir", *arguments]
        done = self.run(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if not line.startswith("WARNING: ")]
            raise Failed("\n".join([f"pip {' '.join(map(str, arguments))} failed:", *errors]))
        return done.stdout

    @property
    def installed_packages(self) -> str:
        """The packages that are installed: the newest where those of constraints.txt do not fit this Python."""
        return "newest" if (self.path / "newest").exists() else self.packages

    @property
    def site_packages(self) -> Path:
        """The folder of the environment's packages."""
        [found] = self.path.glob("lib/python3.*/site-packages")
        return found

    def prepare(self, fresh: bool) -> None:
        """Make the environment if it is not there, and install the wheel of the checkout into it.

        Raises:
            Failed: there is no such Python, or pip did not find or install a package.
        """
        done = self.path / "ready.json"
        wanted = {"torch": self.torch_requirement, "requirements": self.requirements(), "pins": self._constraints()}
        if fresh or not done.exists() or json.loads(done.read_text()) != wanted:
            self._make()
            done.write_text(json.dumps(wanted))
        self._install_wheel()

    def _make(self) -> None:
        found = interpreter(self.python_version)
        print(f"== {self.name}: making an environment with {found}", flush=True)
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([found, "-m", "venv", self.path], check=True)
        self.pip("install", "--quiet", "--upgrade", "pip")
        self._install_torch()
        constraints = self.path / "constraints.txt"
        installed = f"torch=={self.version('torch')}"
        if self.packages == "lowest":
            constraints.write_text(installed)
            self._install_lowest(constraints)
            installed = self.pip("freeze")  # what the tests need must not bring other versions
        pins = [line for line in self._constraints() if distribution(line) != "torch"]
        everything: list[str | Path] = ["install", "--quiet", "--constraint", constraints, *self.requirements()]
        constraints.write_text("\n".join([installed, *pins] if self.packages == "pinned" else [installed]))
        try:
            self.pip(*everything)
        except Failed as error:
            if self.packages != "pinned":
                raise
            print(f"== {self.name}: the newest packages, not those of constraints.txt: {error}", flush=True)
            (self.path / "newest").touch()
            constraints.write_text(installed)
            self.pip(*everything)
        peer = [text for text in project()["optional-dependencies"]["dev"] if distribution(text) == PEER]
        self.pip("install", "--quiet", "--no-deps", *peer, *PEER_NEEDS)

    def _install_lowest(self, constraints: Path) -> None:
        """Install the lowest versions that fit together; pip has no such choice, but uv has.

        Where a package asks for a later version of another one, that is what people get, too: it is printed.
        """
        requirements = self.path / "requirements.txt"
        requirements.write_text("\n".join(self.own_requirements()))
        self.pip("install", "--quiet", "uv")
        choice: tuple[str, ...] = ("--resolution", "lowest-direct", "--only-binary", ":all:")
        command = ("-m", "uv", "pip", "install", "--quiet", "--no-cache", "--native-tls", "--python", self.python)
        for text in self.own_requirements():
            choice += ("--upgrade-package", distribution(text))  # torch may have brought a later one
        done = self.run(*command, *choice, "-c", constraints, "-r", requirements, stderr=subprocess.PIPE)
        if done.returncode:
            raise Failed(f"uv did not install the lowest versions:\n{done.stderr.strip()}")
        for text in self.own_requirements():
            bound = re.search(r">=([\d.]+)", text)
            version = self.version(distribution(text))
            if bound and not f"{version}.".startswith(f"{bound[1]}."):
                print(f"== {self.name}: {text}: {version} is the lowest that the other packages allow", flush=True)

    def own_requirements(self) -> list[str]:
        """Return the requirements of the package and of its extras, without PyTorch."""
        table = project()
        found = [*table["dependencies"], *self._extra(table["optional-dependencies"], "all")]
        return list(dict.fromkeys(text for text in found if distribution(text) != "torch"))

    def requirements(self) -> list[str]:
        """Return the requirements of the package, of its extras and of its tests, without PyTorch."""
        table = project()
        dev = table["optional-dependencies"]["dev"]
        return [
            *self.own_requirements(),
            *(text for text in dev if distribution(text) not in (*LEFT_OUT, PEER, table["name"])),
        ]

    def _extra(self, extras: dict[str, list[str]], name: str) -> list[str]:
        found: list[str] = []
        for text in extras[name]:
            inner = re.match(rf"{project()['name']}\[(.*)\]", text)
            if inner:
                found += [line for extra in inner[1].split(",") for line in self._extra(extras, extra)]
            else:
                found.append(text)
        return found

    def version(self, name: str) -> str:
        """Return the version of an installed package."""
        code = f"from importlib.metadata import version; print(version({name!r}))"
        return self.run("-c", code, stdout=subprocess.PIPE, check=True).stdout.strip()

    def _install_torch(self) -> None:
        asked = ("install", "--dry-run", "--quiet", "--no-deps", "--ignore-installed", "--report", "-")
        [found] = json.loads(self.pip(*asked, self.torch_requirement))["install"]
        version = found["metadata"]["version"]
        requires = [text for text in found["metadata"].get("requires_dist", []) if "extra ==" not in text]
        libraries = linked_libraries([text for text in requires if for_gpus(text)])
        print(f"== {self.name}: torch {version}", flush=True)
        self.pip("install", "--quiet", "--no-deps", f"torch=={version}")
        self.pip("install", "--quiet", *[text for text in requires if not for_gpus(text)])
        if libraries:
            (self.site_packages / "nvidia").symlink_to(self._shared_libraries(libraries) / "nvidia")
        self._strike_requirements_for_gpus()

    def _strike_requirements_for_gpus(self) -> None:
        [metadata] = self.site_packages.glob("torch-*.dist-info/METADATA")
        mark = "Requires-Dist: "
        lines = metadata.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not (line.startswith(mark) and for_gpus(line.removeprefix(mark)))]
        metadata.write_text("".join(kept), encoding="utf-8")

    def _shared_libraries(self, libraries: list[str]) -> Path:
        """Return a folder with CUDA libraries for PyTorch; a later minor version serves an earlier one, too."""
        wanted = cuda_version(libraries)
        for there in sorted(folder().glob(f"cuda-{wanted[0]}.*")):
            if tuple(map(int, there.name.removeprefix("cuda-").split("."))) >= wanted:
                return there
        name = f"cuda-{'.'.join(map(str, wanted))}"
        print(f"== {self.name}: installing the CUDA libraries once, in {folder() / name}", flush=True)
        partial = folder() / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        self.pip("install", "--quiet", "--target", partial, *libraries)
        return partial.rename(folder() / name)

    def _install_wheel(self) -> None:
        wheels = self.path / "wheel"
        shutil.rmtree(wheels, ignore_errors=True)
        self.pip("wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ROOT)
        [wheel] = wheels.glob("*.whl")
        self.pip("uninstall", "--quiet", "--yes", project()["name"])
        shutil.rmtree(self.site_packages / "tensorclass", ignore_errors=True)  # native code is not pip's to remove
        self.pip("install", "--quiet", "--no-deps", wheel)
