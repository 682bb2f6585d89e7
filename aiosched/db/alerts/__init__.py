"""Alerts: rules.py, alerts.py and facts.py, the statements on rules, on alerts, and on what rules watch."""
