"""What DAG authors import, and how a DAG becomes a `DagSpec`. A folder imports only those below it.

    decorators/  @task, @dag, @task_group, @setup, @asset     notifiers/   callbacks that send a message
    dag/         the DAG, its groups, its file, its spec      sensors/     tasks that wait
    operators/   what tasks do: Python, bash, SQL, HTTP, …    mapping/     mapped tasks
    tasks/       BaseOperator, its arguments and outputs      assets/      assets and their events
    triggers/    what deferred tasks wait for                 runtime/     what a running task can use
    base/        checks, dates, dependencies, params      plugins/     macros and listeners of all DAGs

DAG files import the names from `aiosched`.
"""
