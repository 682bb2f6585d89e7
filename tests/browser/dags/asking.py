"""A task that asks whoever looks at the page."""

from aiosched import DAG, HITLOperator, Param

with DAG("asking", schedule=None):
    HITLOperator(
        task_id="price",
        subject="Which price?",
        body="The tea is **cheap**.",
        options=["keep", "change"],
        params={
            "euros": Param(5, type="integer", minimum=1),
            "note": Param("", type="string"),
            "pin": Param("", type="string", format="password"),
        },
    )
