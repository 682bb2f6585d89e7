"""`airflow.utils.json`: JSON text of values that JSON has not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any


class WebEncoder(json.JSONEncoder):
    """Dates in ISO 8601, decimals and numbers of libraries as numbers, bytes as text, anything else by its `repr`."""

    def default(self, o: Any) -> Any:
        """The value of `o`."""
        if isinstance(o, datetime):
            return (o if o.tzinfo else o.replace(tzinfo=UTC)).isoformat()
        if isinstance(o, date):
            return o.isoformat()
        if isinstance(o, Decimal):
            return int(o) if o == o.to_integral_value() else float(o)
        if isinstance(o, bytes):
            return o.decode("unicode_escape", "replace")
        if callable(item := getattr(o, "item", None)):  # a number of NumPy
            return item()
        return repr(o)
