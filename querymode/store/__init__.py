"""Where bytes come from: local files, http(s), s3 and memory, and what is kept of them.

This room knows paths, URLs, credentials and connections. It knows nothing of formats and plans.
"""
