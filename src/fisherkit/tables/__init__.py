"""Tables from files: CSV, TSV, Parquet and Arrow (Feather), read as people expect.

Text files are UTF-8 unless said otherwise, with or without a byte-order mark, with any line ends,
separated by commas, semicolons, tabs or bars. 1,234.5 is a number everywhere, 3,14 where commas do
not separate (`fisherkit.tables.text_files`). Every record must have as many fields as the header.
Empty fields, "?" and the usual words (NA, NaN, null, None, ...) are missing values, but in columns
that are to be text these words are texts. Blanks around a text do not count. Errors name file, line
and column; rows are indexed by the line of the file where they begin.
"""

from fisherkit.columns import TableError
from fisherkit.tables.reading import TableFile, open_table, read_table
from fisherkit.tables.sheets import joined

__all__ = ["TableError", "read_table"]
