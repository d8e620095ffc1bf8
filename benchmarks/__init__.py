"""The package beside the peer (tensordict) and beside hand-written code, in one run: `python -m benchmarks`.

timing.py      times callables in turns, so that noise hits all of them alike
sides.py       the two libraries under one interface, and the data that each workload starts from
workloads/     the table: one module a family of operations
checking.py    sees that the three sides of a workload give equal results, before it is timed
processes.py   what needs a process of its own: imports, class definitions, memory, a long score log
report.py      the table, the geometric means, the verdict
"""
