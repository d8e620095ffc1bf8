"""Functions of the package that convert: the methods of collections, and the ``from_x`` of :class:`TensorDict`.

A new converter gets its name here, in ``__all__`` and in ``tensorclass/__init__.py``.
"""

from typing import Final

from tensorclass.td.base import TensorCollection as _Collection
from tensorclass.td.tensordict import TensorDict as _Untyped

__all__ = [
    "from_any",
    "from_arrow",
    "from_csv",
    "from_dict",
    "from_feather",
    "from_h5",
    "from_huggingface",
    "from_json",
    "from_list",
    "from_namedtuple",
    "from_pandas",
    "from_parquet",
    "from_polars",
    "from_pytree",
    "from_ray_dataset",
    "from_struct_array",
    "from_tuple",
    "from_zarr",
    "iter_csv",
    "iter_feather",
    "iter_huggingface",
    "iter_json",
    "iter_parquet",
    "iter_ray_dataset",
    "to_arrow",
    "to_attrs",
    "to_csv",
    "to_dataclass",
    "to_dict",
    "to_feather",
    "to_h5",
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
    "to_zarr",
]

from_any: Final = _Untyped.from_any
from_arrow: Final = _Untyped.from_arrow
from_csv: Final = _Untyped.from_csv
from_dict: Final = _Untyped.from_dict
from_feather: Final = _Untyped.from_feather
from_json: Final = _Untyped.from_json
from_h5: Final = _Untyped.from_h5
from_huggingface: Final = _Untyped.from_huggingface
from_list: Final = _Untyped.from_list
from_namedtuple: Final = _Untyped.from_namedtuple
from_pandas: Final = _Untyped.from_pandas
from_parquet: Final = _Untyped.from_parquet
from_polars: Final = _Untyped.from_polars
from_pytree: Final = _Untyped.from_pytree
from_ray_dataset: Final = _Untyped.from_ray_dataset
from_struct_array: Final = _Untyped.from_struct_array
from_tuple: Final = _Untyped.from_tuple
from_zarr: Final = _Untyped.from_zarr

iter_csv: Final = _Untyped.iter_csv
iter_feather: Final = _Untyped.iter_feather
iter_huggingface: Final = _Untyped.iter_huggingface
iter_json: Final = _Untyped.iter_json
iter_parquet: Final = _Untyped.iter_parquet
iter_ray_dataset: Final = _Untyped.iter_ray_dataset

to_arrow: Final = _Collection.to_arrow
to_attrs: Final = _Collection.to_attrs
to_csv: Final = _Collection.to_csv
to_dataclass: Final = _Collection.to_dataclass
to_dict: Final = _Collection.to_dict
to_feather: Final = _Collection.to_feather
to_json: Final = _Collection.to_json
to_h5: Final = _Collection.to_h5
to_huggingface: Final = _Collection.to_huggingface
to_namedtuple: Final = _Collection.to_namedtuple
to_pandas: Final = _Collection.to_pandas
to_polars: Final = _Collection.to_polars
to_pydantic: Final = _Collection.to_pydantic
to_parquet: Final = _Collection.to_parquet
to_pytree: Final = _Collection.to_pytree
to_ray_dataset: Final = _Collection.to_ray_dataset
to_struct_array: Final = _Collection.to_struct_array
to_tuple: Final = _Collection.to_tuple
to_zarr: Final = _Collection.to_zarr
