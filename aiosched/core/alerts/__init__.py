"""Alerts: which rules are met, and what is to be said. Pure.

rules.py  rules, what they select, quiet hours      decision.py  what to open, remind of, recover
"""
