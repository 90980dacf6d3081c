"""What the columns of a table are, what is said of them, and how they become features."""

from fisherkit.columns.features import (
    MISSING_LEVEL,
    Features,
    Levels,
    Numbers,
    coded,
    in_memory,
    rare_below,
)
from fisherkit.columns.frames import (
    TableError,
    as_text,
    is_number,
    level_counts,
    moments,
    number_mask,
    numbers,
    place,
    quoted,
    replaced,
    row_parts,
    texts,
)
from fisherkit.columns.inputs import frame_of
from fisherkit.columns.kinds import (
    EXACT,
    Column,
    identifier,
    match,
    refuse_dates,
    refuse_infinite,
    refuse_unusable,
    unused,
)
from fisherkit.columns.options import ColumnOptions
