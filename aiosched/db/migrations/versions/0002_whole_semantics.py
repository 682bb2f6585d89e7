"""What the rest of the semantics, many schedulers and the web need: only additions, so that version 0.1's schedulers go on.

Revision 0002. Source: the design, section 5.
"""

from __future__ import annotations

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
