"""Where people already work: pbos for other libraries, one file an extra."""
