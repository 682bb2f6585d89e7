"""A DAG as it is written: its spec, the compiled graph, trigger rules, mapping, branching, weights, the run before."""
