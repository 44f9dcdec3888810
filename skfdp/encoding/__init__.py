"""Raw tables as bounded blocks of columns, by declarations alone."""
