"""The engine in this process: the module, its instances, their pool, and what runs one task on one."""
