"""Notify people: a notifier is a callback that is made once, with its settings, and has templates.

Ready-made are `send_email(to=…)` and `send_webhook(endpoint=…)`, for `on_failure_callback` and its kin, of a task or of
a whole DAG. Here is one of your own, which only prints, so that the example needs no mail server.
"""

import pendulum

from aiosched import DAG, BaseNotifier, send_email, task


class Announce(BaseNotifier):
    template_fields = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def notify(self, context) -> None:
        print(self.text)


with DAG(
    "notifiers",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    on_success_callback=Announce("run {{ run_id }} is done"),
    on_failure_callback=send_email(to="ops@example.com"),
    tags=["example"],
):

    @task(on_success_callback=Announce("{{ ti.task_id }} worked at the first try: {{ ti.try_number == 1 }}"))
    def work() -> str:
        return "done"

    work()
