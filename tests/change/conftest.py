"""Random plans are those of the algebra's tests; campaigns are modest, or long with STILLFRAME_LONG=1."""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[1] / "algebra"))

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

settings.register_profile(
    "modest changes", max_examples=120, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
settings.register_profile(
    "long changes", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
PROFILE = "long changes" if os.environ.get("STILLFRAME_LONG") == "1" else "modest changes"
settings.load_profile(PROFILE)
