"""What the columns of a table are, what is said of them, and how they become features."""

from fisherkit.columns.features import (
    MOST_NAMES,
    fit_in_parts,
    in_memory,
    names_of,
    preparation,
    rare_below,
    transformed,
)
from fisherkit.columns.frames import (
    TableError,
    as_text,
    column_parts,
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
from fisherkit.columns.options import ColumnOptions
