"""Which DAGs a scheduler owns: taking, reading, handing over, comparing with the rows."""
