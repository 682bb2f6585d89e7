"""Resources for operators: system, pools, metrics, probes, the stream of live changes."""
