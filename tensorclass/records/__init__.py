"""Records: collections whose keys are declared as the fields of a class."""

from . import definition as definition  # without it a record class cannot be made
