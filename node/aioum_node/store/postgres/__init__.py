"""The store on PostgreSQL, which several processes on several hosts can share; needs the extra `postgres`."""
