"""Imports of the peer become imports of this package."""

from __future__ import annotations

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper

from tensorclass.migrate.import_rewriting import ImportPlan, ImportRewriter


def rewritten(source: str) -> str:
    wrapper = MetadataWrapper(cst.parse_module(source))
    return wrapper.module.visit(ImportRewriter(ImportPlan(wrapper))).code


CASES = {
    "a name": ("from tensordict import TensorDict as TD\n", "from tensorclass import TensorDict as TD\n"),
    "a name of a module that this package does not have": (
        "from tensordict.nn.probabilistic import InteractionType\n",
        "from tensorclass.nn import InteractionType\n",
    ),
    "names of several modules here": (
        "from tensordict.tensordict import expand_right, pad  # both\n",
        "from tensorclass.utils import expand_right  # both\nfrom tensorclass import pad\n",
    ),
    "in parentheses, with comments": (
        "from tensordict import (\n    TensorDict,  # a\n    as_tensordict_module,\n    stack,\n)\n",
        (
            "from tensorclass import (\n    TensorDict,  # a\n    stack,\n)\n"
            "from tensorclass.nn import (\n    as_tensordict_module,\n)\n"
        ),
    ),
    "in parentheses, short enough without": (
        "from tensordict import (\n    stack,\n    TensorDictParams,\n)\n",
        "from tensorclass import stack\nfrom tensorclass.nn import TensorDictParams\n",
    ),
    "the package": (
        "import tensordict\nx = tensordict.TensorDict().to(tensordict.nn.common.dispatch)\n",
        "import tensorclass\nx = tensorclass.TensorDict().to(tensorclass.nn.dispatch)\n",
    ),
    "the package by another name": (
        "import tensordict as td\ntd.base.TensorDictBase, td.nn, td\n",
        "import tensorclass as td\ntd.TensorDictBase, td.nn, td\n",
    ),
    "a module by another name": (
        "import tensordict.nn as tdnn\nfrom tensordict import utils as u\ntdnn.dispatch, u.unravel_key, tdnn.stack\n",
        (
            "import tensorclass.nn as tdnn\nimport tensorclass\nfrom tensorclass import utils as u\n"
            "tdnn.dispatch, u.unravel_key, tensorclass.stack\n"
        ),
    ),
    "a module whose names are in another one": (
        "from tensordict.nn import probabilistic as p\nfrom tensordict import base\np.InteractionType, base.from_any\n",
        "from tensorclass import nn as p\nimport tensorclass as base\np.InteractionType, base.from_any\n",
    ),
    "a name that is one of torch": (
        "from tensordict.prototype import symbolic_trace as trace\n",
        "from torch.fx import symbolic_trace as trace\n",
    ),
    "in one line with others": (
        "import os, tensordict.nn\nif a: from tensordict.tensordict import pad, expand_right; b = 1\n",
        (
            "import os, tensorclass.nn\n"
            "if a: from tensorclass import pad; from tensorclass.utils import expand_right; b = 1\n"
        ),
    ),
    "in a function": (
        "def f():\n    import tensordict\n    return tensordict.stack\n",
        "def f():\n    import tensorclass\n    return tensorclass.stack\n",
    ),
    "annotations in strings": (
        'import tensordict as td\ndef f(x: "td.base.TensorDictBase | None") -> "list[td.TensorDict]": ...\n',
        'import tensorclass as td\ndef f(x: "td.TensorDictBase | None") -> "list[td.TensorDict]": ...\n',
    ),
    "parentheses around a name": (
        "import tensordict\nx = (tensordict.stack)\n",
        "import tensorclass\nx = (tensorclass.stack)\n",
    ),
    "a star": ("from tensordict.nn import *\n", "from tensorclass.nn import *\n"),
    "the name of this package is taken": (
        "import tensordict\nfrom tensordict import tensorclass\n@tensordict.tensorclass\nclass A: ...\n",
        "import tensorclass as tc\nfrom tensorclass import tensorclass\n@tc.tensorclass\nclass A: ...\n",
    ),
    "some names stay": (
        "from tensordict import TensorDict, _private\nimport tensordict as td\ntd.stack, td._private\n",
        (
            "from tensorclass import TensorDict\nfrom tensordict import _private\n"
            "import tensorclass as td\nimport tensordict\ntd.stack, tensordict._private\n"
        ),
    ),
}

STAYING = {
    "a parameter": "def f(tensordict):\n    return tensordict.stack, tensordict['tensordict']\n",
    "relative imports": "from .tensordict import TensorDict\nfrom . import tensordict\ntensordict.stack\n",
    "names that this package does not have": "import tensordict\nx = tensordict._private\n",
    "such names behind another name": "import tensordict.store as s\nx = s._private\n",
    "a module that may be missing": "try:\n    import tensordict\nexcept ImportError:\n    tensordict = None\n"
    "tensordict and tensordict.stack\n",
    "text": "x = 'tensordict.nn'  # tensordict.nn\n",
    "other packages": "import torch\nimport tensordictish\ntorch.stack\n",
}


@pytest.mark.parametrize("case", CASES)
def test_imports_and_uses_are_rewritten(case: str) -> None:
    source, expected = CASES[case]
    assert rewritten(source) == expected


@pytest.mark.parametrize("case", CASES)
def test_a_second_time_nothing_changes(case: str) -> None:
    assert rewritten(CASES[case][1]) == CASES[case][1]


@pytest.mark.parametrize("case", STAYING)
def test_what_is_not_of_the_peer_or_not_here_stays(case: str) -> None:
    assert rewritten(STAYING[case]) == STAYING[case]
