"""The functions of the package that convert: they are the methods, ``from_x`` those of :class:`TensorDict`.

To add a converter, add its name here and in ``__all__``.
"""

from tensorclass.td.base import TensorCollection as _Collection
from tensorclass.td.tensordict import TensorDict as _Untyped

__all__ = [
    "from_any",
    "from_arrow",
    "from_dict",
    "from_list",
    "from_namedtuple",
    "from_pandas",
    "from_pytree",
    "from_struct_array",
    "from_tuple",
    "to_arrow",
    "to_attrs",
    "to_dataclass",
    "to_dict",
    "to_namedtuple",
    "to_pandas",
    "to_pydantic",
    "to_pytree",
    "to_struct_array",
]

from_any = _Untyped.from_any
from_arrow = _Untyped.from_arrow
from_dict = _Untyped.from_dict
from_list = _Untyped.from_list
from_namedtuple = _Untyped.from_namedtuple
from_pandas = _Untyped.from_pandas
from_pytree = _Untyped.from_pytree
from_struct_array = _Untyped.from_struct_array
from_tuple = _Untyped.from_tuple

to_arrow = _Collection.to_arrow
to_attrs = _Collection.to_attrs
to_dataclass = _Collection.to_dataclass
to_dict = _Collection.to_dict
to_namedtuple = _Collection.to_namedtuple
to_pandas = _Collection.to_pandas
to_pydantic = _Collection.to_pydantic
to_pytree = _Collection.to_pytree
to_struct_array = _Collection.to_struct_array
