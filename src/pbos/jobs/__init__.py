"""Work that is cut into parts: on threads, on a cluster, with what it needs in memory or in files."""
