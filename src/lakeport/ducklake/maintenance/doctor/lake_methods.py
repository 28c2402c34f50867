"""The methods of `Lake` that examine it: `check`, `repair` and `advise`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake
    from lakeport.ducklake.maintenance.doctor.advice import Advice
    from lakeport.ducklake.maintenance.doctor.findings import Diagnosis
    from lakeport.ducklake.maintenance.doctor.repair import Repaired

__all__ = ["LakeHealth"]


class LakeHealth:
    """What a lake can be asked about its state."""

    def check(
        self,
        *,
        deep: bool = False,
        sample: int = 20,
        progress: Callable[[str], None] | None = None,
    ) -> Diagnosis:
        """Examine the lake: its newest snapshot, and the files of all others.

        Args:
            deep: Read all data files and compare them with their statistics.
            sample: How many data files are read without `deep`.
            progress: Is called with the name of each check, and with the number of files read.
        """
        from lakeport.ducklake.maintenance.doctor.diagnosis import diagnose

        return diagnose(cast("Lake", self), deep=deep, sample=sample, progress=progress)

    def repair(
        self,
        diagnosis: Diagnosis,
        *,
        dry_run: bool = False,
        save: Callable[[Repaired], None] | None = None,
    ) -> list[Repaired]:
        """Mend what is safe to mend, each finding in a transaction that makes one snapshot.

        Args:
            diagnosis: What `check` has found.
            dry_run: Change nothing; return what would be changed.
            save: Is called before each repair, with the rows that it changes.
        """
        from lakeport.ducklake.maintenance.doctor.repair import repair

        return repair(cast("Lake", self), diagnosis, dry_run=dry_run, save=save)

    def advise(self) -> Advice:
        """Return what the shape of each table costs and which maintenance would gain what."""
        from lakeport.ducklake.maintenance.doctor.advice import advise

        return advise(cast("Lake", self))
