"""The load of each partition, as its owner publishes it, and as it was when it changed hands.

Only an addition: an older scheduler publishes none, and partitions count by number while there is one. Revision 0025.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("scheduler", sa.Column("partition_loads", sa.ARRAY(sa.REAL())))
    op.add_column("partition_lease", sa.Column("load", sa.REAL()))


def downgrade() -> None:
    op.drop_column("partition_lease", "load")
    op.drop_column("scheduler", "partition_loads")
