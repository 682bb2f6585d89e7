"""What is kept outside of a DAG: variables, and connections to other services.

    aiosched variables set region us-east-1
    aiosched connections add shop --uri postgres://reader:secret@db.example.com/shop

Both may also come from the environment, which wins: AIOSCHED_VAR_REGION, AIOSCHED_CONN_SHOP. Without them the
defaults below are used. Passwords, and variables with names such as `api_key`, are shown as *** in logs.
"""

import pendulum

from aiosched import DAG, BashOperator, Variable, task

with DAG(
    "variables",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):

    @task
    def choose() -> str:
        """Read inside a task: the value of now. At the top of the file it is that of when the file was read."""
        region = Variable.get("region", default="eu-west-1")
        limits = Variable.get("limits", default={"cpu": 2}, deserialize_json=True)
        return f"{limits['cpu']} processors in {region}"

    @task
    async def choose_async() -> str:
        """In a coroutine: nothing blocks the loop."""
        return str(await Variable.aget("region", default="eu-west-1"))

    show = BashOperator(
        task_id="show",
        bash_command="echo {{ var.value.get('region', 'eu-west-1') }} {{ conn.get('shop') or 'no shop' }}",
    )

    [choose(), choose_async()] >> show
