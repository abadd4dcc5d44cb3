"""The algorithms by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from stillframe.errors import ProjectError
from stillframe.protocol.base import OF_SOURCES, Need, Protocol
from stillframe.protocol.basic import Basic
from stillframe.protocol.c_strobe import CStrobe, CStrobePublished
from stillframe.protocol.c_t_strobe import CTStrobe
from stillframe.protocol.eca import Eca
from stillframe.protocol.eca_key import EcaKey, EcaKeyPublished
from stillframe.protocol.eca_local import EcaLocal
from stillframe.protocol.g_strobe import GStrobe, GStrobePublished
from stillframe.protocol.lca import Lca
from stillframe.protocol.rv import Rv, RvPublished
from stillframe.protocol.sc import Sc
from stillframe.protocol.strobe import Strobe
from stillframe.protocol.t_strobe import TStrobe, TStrobePublished
from stillframe.protocol.tid import Tid, TidPublished
from stillframe.protocol.view import JoinView

_OURS: tuple[type[Protocol[Any]], ...] = (
    Basic, Rv, Sc, Eca, EcaKey, EcaLocal, Lca, Strobe, TStrobe, GStrobe, CStrobe, CTStrobe, Tid,
)  # fmt: skip
_AS_PRINTED: tuple[type[Protocol[Any]], ...] = (
    RvPublished,
    EcaKeyPublished,
    TStrobePublished,
    GStrobePublished,
    CStrobePublished,
    TidPublished,
)

ALGORITHMS: Mapping[str, type[Protocol[Any]]] = {each.name: each for each in _OURS}
PUBLISHED: Mapping[str, type[Protocol[Any]]] = {each.name: each for each in _AS_PRINTED}


def make(
    name: str,
    view: JoinView,
    parameters: Mapping[str, Any] | None = None,
    *,
    offered: Collection[Need] = OF_SOURCES,
) -> Protocol[Any]:
    """The algorithm for a view over sources that offer so much; `NotApplicable` where it does not apply."""
    every = {**ALGORITHMS, **PUBLISHED}
    if name not in every:
        raise ProjectError(f"no algorithm {name!r}", detail=f"there are: {', '.join(every)}", code="USAGE")
    algorithm = every[name]
    given = dict(parameters or {})
    unknown = sorted(set(given) - set(algorithm.parameters))
    if unknown:
        known = ", ".join(algorithm.parameters) or "none"
        raise ProjectError(
            f"{name} has no parameter {unknown[0]!r}", detail=f"its parameters: {known}", code="USAGE"
        )
    for option, value in given.items():
        _check_parameter(name, option, value, algorithm.parameters[option])
    algorithm.check_sources(offered)
    return algorithm(view, **given)


def _check_parameter(name: str, option: str, value: Any, default: Any) -> None:
    wanted = "true or false" if isinstance(default, bool) else "a whole number from 1"
    fits = type(value) is type(default) and (isinstance(value, bool) or value >= 1)
    if not fits:
        raise ProjectError(f"{option} of {name} is {wanted}, not {value!r}", code="USAGE")
