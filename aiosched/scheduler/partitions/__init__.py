"""Which DAGs a scheduler owns: acquiring, loading, handing over, comparing memory with the rows."""
