"""What only the pages of one DAG show: trends, and a comparison of two runs."""
