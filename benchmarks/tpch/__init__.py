"""The benchmark of the paper's view. Stillframe is imported first, as its command does: it says for how long
Arrow keeps memory that is free."""

import stillframe  # noqa: F401
