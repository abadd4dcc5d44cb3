"""How hard the property tests here try: a modest campaign by default, a long one with STILLFRAME_LONG=1."""

import os

from hypothesis import HealthCheck, settings

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

settings.register_profile(
    "modest", max_examples=50, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
settings.register_profile(
    "long", max_examples=600, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
settings.load_profile("long" if os.environ.get("STILLFRAME_LONG") == "1" else "modest")
