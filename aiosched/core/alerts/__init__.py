"""Alerts: which rules are met, and what is to be said. Pure.

rules.py  rules, and what they select      quiet.py  quiet hours      decision.py  what to open, remind of, recover
"""
