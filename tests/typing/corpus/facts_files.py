"""What is saved and loaded: each class loads itself, whatever it was that wrote the file."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from records import Box, Sample, Scene
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import (
    MemoryMappedTensor,
    PersistentTensorDict,
    TensorCollection,
    TensorDict,
    append_memmap,
    is_memmap_archive,
    load,
    load_memmap,
    load_safetensors,
    memmap,
    memmap_,
    memmap_like,
    pack_memmap,
    save,
    save_safetensors,
    unpack_memmap,
)


def folders(batch: Sample, data: TensorDict, path: Path) -> None:
    assert_type(batch.memmap(path / "a"), Sample)
    assert_type(batch.memmap(path / "b", num_threads=2, return_early=False), Sample)
    assert_type(batch.memmap(path / "c", return_early=True), Future[Sample])
    assert_type(batch.memmap(path / "d", return_early=True).result().image, Tensor)
    assert_type(batch.save(str(path / "e")), Sample)
    assert_type(batch.dumps(path / "f", checksum=True), Sample)
    assert_type(batch.memmap_like(path / "g"), Sample)
    assert_type(batch.memmap_like(path / "h", return_early=True), Future[Sample])
    assert_type(data.memmap(path / "i"), TensorDict)
    assert_type(batch.clone().memmap_(path / "j"), Sample)
    assert_type(batch.clone().memmap_(path / "k", return_early=True), Future[Sample])
    assert_type(Sample.load(path / "a"), Sample)
    assert_type(Sample.load_memmap(path / "a", num_threads=2, verify=False), Sample)
    assert_type(Sample.load_memmap(path / "a", out=batch.clone()), Sample)
    assert_type(Sample.load_memmap(path / "a", "cpu").label, Tensor)
    assert_type(TensorDict.load(path / "a"), TensorDict)
    assert_type(batch.clone().load_memmap_(path / "a"), Sample)
    assert_type(batch.clone().load_(path / "a"), Sample)
    assert_type(Sample.load_memmap(path / "a").memmap_refresh_(), Sample)
    assert_type(Sample.load(path / "a").is_memmap(), bool)
    assert_type(Sample.load(path / "a").saved_path, Path)
    Sample.append_memmap(path / "a", batch)


def new_tensors(data: TensorDict, path: Path) -> None:
    mapped = data.memmap(path / "a")
    assert_type(mapped.make_memmap("more", mapped.batch_size), MemoryMappedTensor)
    assert_type(mapped.make_memmap_from_tensor("ones", torch.ones(mapped.batch_size)), MemoryMappedTensor)
    assert_type(MemoryMappedTensor.from_tensor(torch.ones(3)), MemoryMappedTensor)
    assert_type(MemoryMappedTensor.from_tensor(torch.ones(3))[1:], Tensor)


def files(batch: Sample, data: TensorDict, path: Path) -> None:
    assert_type(batch.consolidate(), Sample)
    assert_type(batch.consolidate(path / "a", device="cpu"), Sample)
    assert_type(batch.consolidate(path / "a", return_early=True), Future[Sample])
    assert_type(data.consolidate(return_early=False), TensorDict)
    assert_type(Sample.from_consolidated(path / "a"), Sample)
    batch.save_safetensors(path / "b")
    data.to_safetensors(path / "c")
    assert_type(Sample.load_safetensors(path / "b", verify=False), Sample)
    assert_type(Sample.from_safetensors(path / "b", device="cpu").image, Tensor)
    assert_type(TensorDict.load_safetensors(path / "c", keys=[]), TensorDict)


def groups_and_arrays(batch: Sample, data: TensorDict, path: Path) -> None:
    assert_type(data.to_h5(path / "a.h5"), TensorDict)
    assert_type(batch.to_h5(path / "b.h5", compression="gzip"), Sample)
    assert_type(batch.to_zarr(path / "b.zarr"), Sample)
    with Sample.from_h5(path / "b.h5") as found:
        assert_type(found, Sample)
        assert_type(found.image, Tensor)
        assert_type(found[:1], Sample)
    assert_type(Sample.from_zarr(path / "b.zarr", mode="r"), Sample)
    assert_type(TensorDict.from_zarr(path / "b.zarr"), TensorDict)
    with PersistentTensorDict(filename=path / "c.h5", mode="w", batch_size=[2]) as made:
        assert_type(made, PersistentTensorDict)
        assert_type(made.filename, str)
        assert_type(made.to_memory(), TensorDict)
    assert_type(PersistentTensorDict.from_dict({}, path / "d.h5"), PersistentTensorDict)


def other_records(box: Box, scene: Scene, path: Path) -> None:
    assert_type(box.memmap(path / "a"), Box)
    assert_type(Box.load(path / "a").low, Tensor)
    assert_type(scene.memmap_like(path / "b"), Scene)
    assert_type(Scene.load_memmap(path / "b"), Scene)


def functions(batch: Sample, path: Path) -> None:
    print(memmap(batch, path / "a"), save_safetensors(batch, path / "b"))
    assert_type(load_memmap(path / "a"), TensorCollection)
    assert_type(load(path / "a"), TensorCollection)
    assert_type(load_safetensors(path / "b"), TensorCollection)
    assert_type(pack_memmap(path / "a", path / "a.tdz"), Path)
    assert_type(unpack_memmap(path / "a.tdz", path / "again"), Path)
    assert_type(is_memmap_archive(path / "a.tdz"), bool)
    append_memmap(path / "a", batch)
    print(memmap(batch, path / "d"), save(batch, path / "e"), memmap_like(batch, path / "f"))
    print(memmap_(batch.clone(), path / "g"))


def of_torch(batch: Sample, path: Path) -> None:
    torch.save(batch, path / "a.pt")
    assert_type(torch.load(path / "a.pt"), Any)
    found: Sample = torch.load(path / "a.pt", weights_only=True)
    assert_type(found.image, Tensor)
