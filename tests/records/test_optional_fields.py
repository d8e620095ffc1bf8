"""Fields that can be ``None``."""

from typing import Any, Optional

import pytest
import torch
from torch import Tensor

from tests.records.classes import MakeForm, point


@pytest.mark.parametrize("annotation", [Tensor | None, Optional[Tensor], "Tensor | None", "Optional[Tensor]"])
def test_an_optional_field_can_be_none(form: MakeForm, annotation: Any) -> None:
    decorate, base, _ = form()

    @decorate
    class Maybe(base):
        x: Tensor
        y: annotation

    record = Maybe(torch.zeros(2), None, batch_size=[2])
    assert record.y is None
    record.y = torch.ones(2)
    assert record[0].y == 1
    record.y = None
    assert record.y is None


def test_optional_fields_stay_none_through_operations() -> None:
    record = point()
    for result in (
        record[0],
        record.reshape(2, 1),
        torch.stack([record, record]),
        torch.cat([record, record]),
        record + 1,
    ):
        assert result.y is None


def test_optional_fields_that_are_set_are_stacked() -> None:
    record = point(y=torch.ones(2))
    assert torch.stack([record, record]).y.shape == (2, 2)


def test_records_of_which_only_some_have_an_optional_field_do_not_stack() -> None:
    with pytest.raises(RuntimeError, match=r"item 1 has \['y'\] beyond"):
        torch.stack([point(), point(y=torch.ones(2))])
