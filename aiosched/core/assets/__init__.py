"""Which asset events let a DAG run: expressions over assets, and the rules of asset-triggered runs."""
