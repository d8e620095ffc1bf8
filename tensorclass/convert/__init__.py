"""Converters: collections and records from other formats, and back. README.md in this folder says how they are made."""

from .any_object import from_any
from .python.dataclass import (
    from_attrs,
    from_dataclass,
    from_pydantic,
    record_from_attrs,
    record_from_dataclass,
    record_from_pydantic,
    to_attrs,
    to_dataclass,
    to_pydantic,
)
from .python.dict import from_dict, from_dict_instance
from .python.list import from_list
from .python.namedtuple import from_namedtuple, to_namedtuple
from .python.pytree_converter import from_pytree, to_pytree
from .python.tuple import from_tuple, to_tuple
from .tables.arrow import from_arrow, to_arrow
from .tables.csv import from_csv, iter_csv, to_csv
from .tables.feather import from_feather, iter_feather, to_feather
from .tables.huggingface import from_huggingface, iter_huggingface, to_huggingface
from .tables.json import from_json, iter_json, to_json
from .tables.pandas import from_pandas, to_pandas
from .tables.parquet import from_parquet, iter_parquet, to_parquet
from .tables.polars import from_polars, to_polars
from .tables.ray_dataset import from_ray_dataset, iter_ray_dataset, to_ray_dataset
from .tables.struct_array import from_struct_array, to_struct_array

__all__ = [
    "from_any",
    "from_arrow",
    "from_attrs",
    "from_csv",
    "from_dataclass",
    "from_dict",
    "from_dict_instance",
    "from_feather",
    "from_huggingface",
    "from_json",
    "from_list",
    "from_namedtuple",
    "from_pandas",
    "from_parquet",
    "from_polars",
    "from_pydantic",
    "from_pytree",
    "from_ray_dataset",
    "from_struct_array",
    "from_tuple",
    "iter_csv",
    "iter_feather",
    "iter_huggingface",
    "iter_json",
    "iter_parquet",
    "iter_ray_dataset",
    "record_from_attrs",
    "record_from_dataclass",
    "record_from_pydantic",
    "to_arrow",
    "to_attrs",
    "to_csv",
    "to_dataclass",
    "to_feather",
    "to_huggingface",
    "to_json",
    "to_namedtuple",
    "to_pandas",
    "to_parquet",
    "to_polars",
    "to_pydantic",
    "to_pytree",
    "to_ray_dataset",
    "to_struct_array",
    "to_tuple",
]
