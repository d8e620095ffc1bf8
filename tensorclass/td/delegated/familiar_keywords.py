"""Keywords of pandas, polars, sklearn and Hugging Face datasets that methods of the same name do not take."""

from __future__ import annotations

from collections.abc import Collection, Iterable

_SEED = "generator=torch.Generator().manual_seed(0) repeats the order"
_WORKERS = "num_workers= is the number of processes"
_KEYS = "by= names the keys"
_BOTH = "on= has the keys, right_on= those of the other collection where they differ"

#: for each keyword: the parameter that a method needs for the advice, and the advice
_ADVICE: dict[str, tuple[str, str]] = {
    "seed": ("generator", _SEED),
    "random_state": ("generator", _SEED),
    "train_size": ("test_size", "test_size= is the share of the other rows"),
    "frac": ("n", "n= is the number of rows: n=len(data) // 2"),
    "batched": ("chunksize", "the function always gets chunks of rows; chunksize= is their number of rows"),
    "batch_size": ("chunksize", "chunksize= is the number of rows in a chunk"),
    "num_proc": ("num_workers", _WORKERS),
    "n_jobs": ("num_workers", _WORKERS),
    "remove_columns": ("chunksize", "the result has the keys that the function returns: rows.exclude(keys)"),
    "with_indices": ("chunksize", "keep positions in a field: data.replace(row=torch.arange(len(data)))"),
    "ascending": ("descending", "descending=True reverses the order"),
    "subset": ("by", _KEYS),
    "keys": ("by", _KEYS),
    "normalize": ("sort", "divide the counts by their sum: counts['count'] / counts['count'].sum()"),
    "left_on": ("right_on", _BOTH),
    "lsuffix": ("suffix", "suffix= is for keys of the other collection"),
    "rsuffix": ("suffix", "suffix= is for keys of the other collection"),
    "suffixes": ("suffix", "suffix= is for keys of the other collection"),
}


def keyword_advice(unknown: Iterable[str], parameters: Collection[str]) -> str:
    """Return what to use for keywords that a method does not take, as the end of a message; empty for unfamiliar ones.

    >>> keyword_advice(["seed"], ["n", "generator"])
    '; generator=torch.Generator().manual_seed(0) repeats the order'
    >>> keyword_advice(["seed"], ["n"])
    ''
    """
    found = [_ADVICE[keyword] for keyword in unknown if keyword in _ADVICE]
    return "".join(f"; {advice}" for needed, advice in dict.fromkeys(found) if needed in parameters)
