"""A DAG as written: its spec, the compiled graph, trigger rules, mapping, branching, weights, the previous run."""
