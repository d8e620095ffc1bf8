"""The package is imported before pytest collects the examples in its modules, which would run a module twice."""

import tensorclass as tensorclass
