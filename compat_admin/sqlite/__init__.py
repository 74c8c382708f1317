"""Django's backend for SQLite, in which the threads of a process queue up for writing."""
