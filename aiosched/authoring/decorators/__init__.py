"""Decorators: `@task`, `@setup`, `@teardown`, `@dag`, `@task_group`, `@asset` and `@asset_check`."""
