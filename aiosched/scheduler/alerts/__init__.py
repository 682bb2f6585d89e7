"""Alerts.

evaluation.py  the loop that evaluates the rules      delivery.py  from a request in the outbox to a notifier and back
"""
