"""The sizes that the views have to bear: 100 rows of a grid, 1,000 boxes of a graph."""

from itertools import pairwise

import pendulum

from aiosched import DAG, EmptyOperator, TaskGroup, chain

with DAG("wide", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), tags=["large"]):
    groups = []
    for part in range(10):
        with TaskGroup(f"part_{part}") as group:
            chain(*(EmptyOperator(task_id=f"step_{step}") for step in range(9)))
        groups.append(group)
    chain(*groups)

with DAG("vast", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), tags=["large"]):
    layers = [[EmptyOperator(task_id=f"n{layer}_{each}") for each in range(25)] for layer in range(40)]
    for before, after in pairwise(layers):
        for place, node in enumerate(after):
            before[place] >> node
            before[(place * 7 + 3) % 25] >> node
