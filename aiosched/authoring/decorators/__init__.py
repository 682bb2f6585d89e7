"""Decorators: `@task`, `@setup`, `@teardown`, `@dag`, `@task_group` and `@asset`."""
