"""Where the rows are: in memory, in blocks, on Dask workers; and the two passes over them."""

from fisherkit.rows.blocks import (
    BlockRows,
    Drawn,
    block_of,
    choose,
    draw,
    interleave,
    refuse_absent,
)
from fisherkit.rows.checks import (
    centre_rows,
    component_count,
    frequencies,
    labels_of,
    mention_spreads,
    require_finite_model,
    squarable,
    target_range,
)
from fisherkit.rows.dask_rows import Chunk, Collection, DaskParts, DaskRows, lazily, open_dask, run
from fisherkit.rows.expansion import (
    Blend,
    Expansion,
    SharedCentres,
    rows_have_numbers,
)
from fisherkit.rows.fits import Basis, Fit, RowSource, Spec, Task
from fisherkit.rows.memory import MemoryRows, fitted, gamma_by_thumb
from fisherkit.rows.moments import Centres, FirstPass, Form, left_out
from fisherkit.rows.passes import Kept, SecondPass, form_of_rows, second_pass_numbers
from fisherkit.rows.planning import (
    IN_MEMORY,
    LONG,
    SUMS,
    Plan,
    memory_budget,
    mention_time,
    plan_for,
    reference_of,
    refusal,
    time_budget,
)
from fisherkit.rows.routes import CommitteeJob, FitPlan, Job, Outlook, Route
from fisherkit.rows.sources import (
    Budget,
    BudgetError,
    LocalRows,
    Rows,
    Sample,
    Together,
    require_number_columns,
)
from fisherkit.rows.sums import Block, Numbers
from fisherkit.rows.terms import Term, Terms
