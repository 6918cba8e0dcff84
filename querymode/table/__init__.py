"""Tables: what a Scan names, and what each kind is made from."""
