"""The kinds of entries of the audit log, as one table with what each means.

A new kind needs a line here and one in docs/audit.md; a test compares the two. Each kind of
request to the owner of a DAG, and each kind of change of a pool, variable or connection, is a kind of entry, too; its
name begins with `request.`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

REQUEST: Final = "request."  # and a verb


class AuditKind(StrEnum):
    """What happened."""

    LOGIN = "login"
    LOGIN_REFUSED = "login.refused"
    LOGOUT = "logout"
    LINK_CREATED = "link.created"
    SESSION_ENDED = "session.ended"
    REFUSED = "refused"
    USER_CREATED = "user.created"
    USER_ROLE = "user.role"
    USER_PASSWORD = "user.password"
    USER_DISABLED = "user.disabled"
    USER_ENABLED = "user.enabled"
    USER_DELETED = "user.deleted"
    TOKEN_CREATED = "token.created"
    TOKEN_DELETED = "token.deleted"
    GRANT_CREATED = "grant.created"
    GRANT_DELETED = "grant.deleted"
    TEAM_CREATED = "team.created"
    TEAM_DELETED = "team.deleted"
    DAG_MOVED = "dag.moved"
    FOLDER_ADDED = "team.folder.added"
    FOLDER_REMOVED = "team.folder.removed"
    SECRET_READ = "secret.read"
    SECRET_REVEALED = "secret.revealed"
    CONNECTION_TESTED = "connection.tested"
    FIELDS_RENDERED = "fields.rendered"
    REQUEST_WITHDRAWN = "request.withdrawn"
    SETTINGS = "settings"
    AUDIT_EXPORTED = "audit.exported"
    AUDIT_REMOVED = "audit.removed"
    ALERT_RULE_CREATED = "alert_rule.created"
    ALERT_RULE_CHANGED = "alert_rule.changed"
    ALERT_RULE_PAUSED = "alert_rule.paused"
    ALERT_RULE_RESUMED = "alert_rule.resumed"
    ALERT_RULE_DELETED = "alert_rule.deleted"
    ALERT_RULE_TESTED = "alert_rule.tested"
    ALERT_ACKNOWLEDGED = "alert.acknowledged"
    ALERT_SILENCED = "alert.silenced"
    ALERT_SILENCE_ENDED = "alert.silence.ended"
    VIEW_CREATED = "view.created"
    VIEW_CHANGED = "view.changed"
    VIEW_DELETED = "view.deleted"
    DATABASE_CHANGED = "database.changed"


class Result(StrEnum):
    """How it ended."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


# Kinds of rows of `request` that are no requests to an owner: their change is made with the row.
CHANGES: Final = (
    "set_pool", "delete_pool", "set_variable", "delete_variable", "set_connection", "delete_connection", "rotate_keys",
    "rotate_signing_key",
)  # fmt: skip
