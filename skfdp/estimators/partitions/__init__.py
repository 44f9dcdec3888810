"""Tables in partitions that stay where they are: the rows of a Dask collection.

`reading` makes the records of a fit out of a collection; `table` is what a fit sees of
them; `places` asks the partitions, in this process or (`cluster`) on workers of
`distributed`; a `shelf` is what is kept where a partition is.
"""
