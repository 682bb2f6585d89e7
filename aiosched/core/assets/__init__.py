"""Which asset events trigger a DAG run: expressions over assets, and the rules of asset-triggered runs."""
