"""What may be asked of the owner of a DAG: one struct for each verb, and how it is stored."""
