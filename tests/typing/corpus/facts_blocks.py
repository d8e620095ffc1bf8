"""`with` blocks give the record that they are on."""

from records import Box, Described, Sample, Scene
from typing_extensions import assert_type

from tensorclass import TensorDict


def locks(batch: Sample, box: Box, described: Described) -> None:
    with batch.lock_() as locked:
        assert_type(locked, Sample)
    with batch.unlock_() as free:
        assert_type(free, Sample)
        assert_type(free.is_locked, bool)
    with described.lock_():
        assert_type(described.is_locked, bool)
    assert_type(batch.lock_(), Sample)
    assert_type(batch.unlock_(), Sample)
    assert_type(box.lock_(), Box)


def views(batch: Sample, scene: Scene, data: TensorDict) -> None:
    with batch.view(-1) as flat:
        assert_type(flat, Sample)
    with batch.reshape(24) as shaped:
        assert_type(shaped, Sample)
    with batch.permute(1, 0) as turned:
        assert_type(turned, Sample)
    with batch.transpose(0, 1) as turned:
        assert_type(turned, Sample)
    with batch.unsqueeze(0) as longer:
        assert_type(longer, Sample)
    with batch.flatten(0, 1) as flat:
        assert_type(flat, Sample)
        assert_type(flat[0], Sample)
    with scene.unsqueeze(0) as scenes:
        assert_type(scenes, Scene)
        assert_type(scenes.box, Box)
    with data.flatten_keys(".") as keys:
        assert_type(keys, TensorDict)
    with batch.to("cpu") as moved:
        assert_type(moved, Sample)


def after(batch: Sample) -> None:
    with batch.view(-1) as flat, flat.unlock_() as free:
        assert_type(free, Sample)
    assert_type(flat, Sample)
