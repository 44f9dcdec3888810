"""The user's table: what is public of a record, its row map, its integer grid."""
