"""P-ShareLoRA: users who compare trajectories and share a factor of their reward models.

=================================  ===============================================================
:mod:`linsys.preference.systems`   users, rewards, preferences: sampled, or exact as soft labels
:mod:`linsys.preference.coverage`  what comparisons can tell about a reward
:mod:`linsys.preference.instances` users and features with diversity, tail and coverage as asked
:mod:`linsys.preference.subspace`  distances of column spaces, best rank-k approximation, diversity
=================================  ===============================================================
"""

from linsys.preference.comparisons import Comparisons
from linsys.preference.subspace import best_rank, distance, diversity
from linsys.preference.systems import PreferenceSystem

__all__ = ["Comparisons", "PreferenceSystem", "best_rank", "distance", "diversity"]
