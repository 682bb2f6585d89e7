"""What a running task can use: context, task instance, templates, variables, connections, HTTP, mail."""
