"""The engine in this process: the module, its instances and their pool, and whatever runs a single task on one."""
