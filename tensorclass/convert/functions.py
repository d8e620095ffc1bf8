"""The functions of the package that convert: they are the methods, ``from_x`` those of :class:`TensorDict`.

To add a converter, add its name here and in ``__all__``.
"""

from tensorclass.td.base import TensorCollection as _Collection
from tensorclass.td.tensordict import TensorDict as _Untyped

__all__ = [
    "from_any",
    "from_arrow",
    "from_csv",
    "from_dict",
    "from_feather",
    "from_huggingface",
    "from_json",
    "from_list",
    "from_namedtuple",
    "from_pandas",
    "from_parquet",
    "from_polars",
    "from_pytree",
    "from_struct_array",
    "from_tuple",
    "iter_csv",
    "iter_feather",
    "iter_huggingface",
    "iter_json",
    "iter_parquet",
    "to_arrow",
    "to_attrs",
    "to_csv",
    "to_dataclass",
    "to_dict",
    "to_feather",
    "to_huggingface",
    "to_json",
    "to_namedtuple",
    "to_pandas",
    "to_parquet",
    "to_polars",
    "to_pydantic",
    "to_pytree",
    "to_struct_array",
]

from_any = _Untyped.from_any
from_arrow = _Untyped.from_arrow
from_csv = _Untyped.from_csv
from_dict = _Untyped.from_dict
from_feather = _Untyped.from_feather
from_json = _Untyped.from_json
from_huggingface = _Untyped.from_huggingface
from_list = _Untyped.from_list
from_namedtuple = _Untyped.from_namedtuple
from_pandas = _Untyped.from_pandas
from_parquet = _Untyped.from_parquet
from_polars = _Untyped.from_polars
from_pytree = _Untyped.from_pytree
from_struct_array = _Untyped.from_struct_array
from_tuple = _Untyped.from_tuple

iter_csv = _Untyped.iter_csv
iter_feather = _Untyped.iter_feather
iter_huggingface = _Untyped.iter_huggingface
iter_json = _Untyped.iter_json
iter_parquet = _Untyped.iter_parquet

to_arrow = _Collection.to_arrow
to_attrs = _Collection.to_attrs
to_csv = _Collection.to_csv
to_dataclass = _Collection.to_dataclass
to_dict = _Collection.to_dict
to_feather = _Collection.to_feather
to_json = _Collection.to_json
to_huggingface = _Collection.to_huggingface
to_namedtuple = _Collection.to_namedtuple
to_pandas = _Collection.to_pandas
to_polars = _Collection.to_polars
to_pydantic = _Collection.to_pydantic
to_parquet = _Collection.to_parquet
to_pytree = _Collection.to_pytree
to_struct_array = _Collection.to_struct_array
