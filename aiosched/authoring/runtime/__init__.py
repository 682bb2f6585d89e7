"""What a task has while it runs: its context, task instance, templates, variables, connections."""
